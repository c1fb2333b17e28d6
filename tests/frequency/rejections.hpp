// SPDX-License-Identifier: MIT
#pragma once

#include "support/catch.hpp"
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <limits>
#include <string>

/// Checks that rules reject bad values, field by field.
namespace rejections {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Evaluates any rule, at length 1 if it depends on the length.
template <class Rule>
posenc::Frequencies evaluate(const Rule& rule) {
  if constexpr (posenc::LengthFrequencyRule<Rule>) {
    return frequencies(rule, posenc::Index{1});
  } else {
    return frequencies(rule);
  }
}

/// Checks that the rule is rejected if the field has this value, and that the message names both.
template <class Rule, class Field>
void check_rejected(Rule rule, Field Rule::*field, Field value, const std::string& message) {
  CHECK_NOTHROW(evaluate(rule));
  rule.*field = value;
  CHECK_THROWS_MATCHES(evaluate(rule), posenc::ConfigError,
                       Catch::Matchers::Message("posenc::" + message));
}

/// Checks the two fields that all rules share. Messages begin with the rule's name.
template <class Rule>
void check_shared_fields(const Rule& rule, posenc::Index smallest) {
  const std::string name = posenc::RuleDescription<Rule>::name;
  const std::string dim =
      name + ": rotary_dim must be even and at least " + std::to_string(smallest) + " but is ";
  check_rejected(rule, &Rule::rotary_dim, posenc::Index{0}, dim + "0");
  check_rejected(rule, &Rule::rotary_dim, posenc::Index{-2}, dim + "-2");
  check_rejected(rule, &Rule::rotary_dim, posenc::Index{7}, dim + "7");
  check_rejected(rule, &Rule::rotary_dim, smallest - 2, dim + std::to_string(smallest - 2));
  const std::string base = name + ": base must be set, finite and greater than 1, but is ";
  check_rejected(rule, &Rule::base, 0.0, base + "0");
  check_rejected(rule, &Rule::base, 1.0, base + "1");
  check_rejected(rule, &Rule::base, -10000.0, base + "-10000");
  check_rejected(rule, &Rule::base, infinity, base + "inf");
  check_rejected(rule, &Rule::base, not_a_number, base + "nan");
  check_rejected(rule, &Rule::base, 1e101, name + ": base must not exceed 1e100 but is 1e+101");
}

/// Checks the message of a numeric field for values that are not at least 1.
template <class Rule>
void check_at_least_1(const Rule& rule, double Rule::*field, const std::string& text) {
  check_rejected(rule, field, 0.0, text + "0");
  check_rejected(rule, field, 0.5, text + "0.5");
  check_rejected(rule, field, -2.0, text + "-2");
  check_rejected(rule, field, infinity, text + "inf");
  check_rejected(rule, field, not_a_number, text + "nan");
}

template <class Rule>
void check_factor(const Rule& rule) {
  const std::string name = posenc::RuleDescription<Rule>::name;
  check_at_least_1(rule, &Rule::factor,
                   name + ": factor must be set, finite and at least 1, but is ");
  check_rejected(rule, &Rule::factor, 1e101, name + ": factor must not exceed 1e100 but is 1e+101");
}

template <class Rule>
void check_length(const Rule& rule) {
  const std::string name = posenc::RuleDescription<Rule>::name;
  const std::string length = name + ": original_max_position must be set and positive but is ";
  check_rejected(rule, &Rule::original_max_position, posenc::Index{0}, length + "0");
  check_rejected(rule, &Rule::original_max_position, posenc::Index{-1}, length + "-1");
}

}  // namespace rejections
