// SPDX-License-Identifier: MIT
// What the rules refuse, field by field, and what they say.
#include "support/catch.hpp"
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>

#include <limits>
#include <string>

using Catch::Matchers::Message;
using posenc::ConfigError;
using posenc::DynamicNtkScaling;
using posenc::frequencies;
using posenc::Index;
using posenc::LinearScaling;
using posenc::NtkScaling;
using posenc::Unscaled;
using posenc::YarnScaling;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

posenc::Frequencies evaluate(const DynamicNtkScaling& rule) { return frequencies(rule, 1); }
posenc::Frequencies evaluate(const auto& rule) { return frequencies(rule); }

/// The rule is refused once the field has this value, and the message names both.
template <class Rule, class Field>
void refuse(Rule rule, Field Rule::*field, Field value, const std::string& message) {
  CHECK_NOTHROW(evaluate(rule));
  rule.*field = value;
  CHECK_THROWS_MATCHES(evaluate(rule), ConfigError, Message("posenc::" + message));
}

/// The two fields that all rules share.
template <class Rule>
void check_shared_fields(const Rule& rule, const std::string& name, Index smallest) {
  const std::string dim =
      name + ": rotary_dim must be even and at least " + std::to_string(smallest) + " but is ";
  refuse(rule, &Rule::rotary_dim, Index{0}, dim + "0");
  refuse(rule, &Rule::rotary_dim, Index{-2}, dim + "-2");
  refuse(rule, &Rule::rotary_dim, Index{7}, dim + "7");
  refuse(rule, &Rule::rotary_dim, smallest - 2, dim + std::to_string(smallest - 2));
  const std::string base = name + ": base must be given, finite and greater than 1, but is ";
  refuse(rule, &Rule::base, 0.0, base + "0");
  refuse(rule, &Rule::base, 1.0, base + "1");
  refuse(rule, &Rule::base, -10000.0, base + "-10000");
  refuse(rule, &Rule::base, infinity, base + "inf");
  refuse(rule, &Rule::base, not_a_number, base + "nan");
}

template <class Rule>
void check_factor(const Rule& rule, const std::string& name) {
  const std::string factor = name + ": factor must be given, finite and at least 1, but is ";
  refuse(rule, &Rule::factor, 0.0, factor + "0");
  refuse(rule, &Rule::factor, 0.5, factor + "0.5");
  refuse(rule, &Rule::factor, -2.0, factor + "-2");
  refuse(rule, &Rule::factor, infinity, factor + "inf");
  refuse(rule, &Rule::factor, not_a_number, factor + "nan");
}

template <class Rule>
void check_length(const Rule& rule, const std::string& name) {
  const std::string length = name + ": original_max_position must be given and positive but is ";
  refuse(rule, &Rule::original_max_position, Index{0}, length + "0");
  refuse(rule, &Rule::original_max_position, Index{-1}, length + "-1");
}

}  // namespace

TEST_CASE("Unscaled refuses bad settings", "[rules]") {
  check_shared_fields(Unscaled{.rotary_dim = 8, .base = 10000}, "Unscaled", 2);
}

TEST_CASE("LinearScaling refuses bad settings", "[rules]") {
  const LinearScaling rule{.rotary_dim = 8, .base = 10000, .factor = 2};
  check_shared_fields(rule, "LinearScaling", 2);
  check_factor(rule, "LinearScaling");
}

TEST_CASE("NtkScaling refuses bad settings", "[rules]") {
  const NtkScaling rule{.rotary_dim = 8, .base = 10000, .factor = 2};
  check_shared_fields(rule, "NtkScaling", 4);
  check_factor(rule, "NtkScaling");
}

TEST_CASE("DynamicNtkScaling refuses bad settings", "[rules]") {
  const DynamicNtkScaling rule{
      .rotary_dim = 8, .base = 10000, .factor = 2, .original_max_position = 2048};
  check_shared_fields(rule, "DynamicNtkScaling", 4);
  check_factor(rule, "DynamicNtkScaling");
  check_length(rule, "DynamicNtkScaling");
}

TEST_CASE("YarnScaling refuses bad settings", "[rules]") {
  const YarnScaling rule{
      .rotary_dim = 8, .base = 10000, .factor = 2, .original_max_position = 2048};
  check_shared_fields(rule, "YarnScaling", 2);
  check_factor(rule, "YarnScaling");
  check_length(rule, "YarnScaling");
  const std::string betas = "YarnScaling: beta_fast >= beta_slow > 0 must hold but they are ";
  refuse(rule, &YarnScaling::beta_slow, 0.0, betas + "32 and 0");
  refuse(rule, &YarnScaling::beta_slow, -1.0, betas + "32 and -1");
  refuse(rule, &YarnScaling::beta_slow, not_a_number, betas + "32 and nan");
  refuse(rule, &YarnScaling::beta_slow, 33.0, betas + "32 and 33");
  refuse(rule, &YarnScaling::beta_fast, 0.5, betas + "0.5 and 1");
  refuse(rule, &YarnScaling::beta_fast, infinity, betas + "inf and 1");
  refuse(rule, &YarnScaling::beta_fast, not_a_number, betas + "nan and 1");
}

TEST_CASE("rules without settings name what is missing", "[rules]") {
  CHECK_THROWS_AS(frequencies(Unscaled{}), ConfigError);
  CHECK_THROWS_AS(frequencies(LinearScaling{.rotary_dim = 8, .base = 10000}), ConfigError);
  CHECK_THROWS_AS(frequencies(YarnScaling{.rotary_dim = 8, .base = 10000, .factor = 2}),
                  ConfigError);
}
