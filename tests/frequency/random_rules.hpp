// SPDX-License-Identifier: MIT
#pragma once

#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/frequency/rotary_rule.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <cmath>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

/// Every rule of the library with settings drawn from a seed: everything that the rules allow, in
/// the range of published models and some way beyond.
namespace random_rules {

using posenc::Index;
using support::Random;

template <class>
struct RulesOf;
template <class... Rules>
struct RulesOf<std::variant<std::monostate, Rules...>> {
  using type = std::tuple<Rules...>;
};
/// All rules, for TEMPLATE_LIST_TEST_CASE.
using All = RulesOf<posenc::RotaryRule>::type;

inline Index width(Random& random) { return 2 * random.integer(4, 64); }
inline double base(Random& random) { return std::exp(random.uniform(5, 16)); }
inline double factor(Random& random) { return random.uniform(1, 64); }
inline Index length(Random& random) { return random.integer(256, 65536); }
inline bool coin(Random& random) { return random.integer(0, 1) == 1; }

/// Returns one divisor per pair, rising as those of published models do.
inline std::vector<double> divisors(Random& random, Index width) {
  std::vector<double> list;
  double divisor = random.uniform(0.5, 2);
  for (Index i = 0; i < width / 2; ++i) {
    list.push_back(divisor);
    divisor += random.uniform(0, 1);
  }
  return list;
}

/// Draws fields that many rules share by their names; other fields keep their defaults.
template <class Rule>
void draw(Rule& rule, Random& random) {
  for_each_field(rule, [&random]<class T>(const std::string& name, T& field) {
    if constexpr (std::is_same_v<T, Index>) {
      if (name == "rotary_dim" || name == "head_dim") field = width(random);
      if (name == "original_max_position") field = length(random);
    } else if constexpr (std::is_same_v<T, double>) {
      if (name == "base") field = base(random);
      if (name == "factor") field = factor(random);
    }
  });
}

// Rules with fields that no other rule has.

inline void draw(posenc::AlphaNtkScaling& rule, Random& random) {
  rule = {.rotary_dim = width(random), .base = base(random), .alpha = 16 * factor(random)};
}
inline void draw(posenc::VllmMixedNtkScaling& rule, Random& random) {
  rule = {.rotary_dim = width(random),
          .base = base(random),
          .factor = factor(random),
          .mixed_b = random.uniform(0.1, 3)};
}
inline void draw(posenc::NtkByPartsScaling& rule, Random& random) {
  rule = {.rotary_dim = width(random),
          .base = base(random),
          .factor = factor(random),
          .original_max_position = length(random),
          .alpha = random.uniform(0.5, 4)};
  rule.beta = rule.alpha + random.uniform(0, 64);
}
inline void draw(posenc::YarnScaling& rule, Random& random) {
  rule = {.rotary_dim = width(random),
          .base = base(random),
          .factor = factor(random),
          .original_max_position = length(random),
          .beta_slow = random.uniform(0.5, 4),
          .truncate = coin(random)};
  rule.beta_fast = rule.beta_slow + random.uniform(0, 64);
  if (coin(random)) rule.attention_factor = random.uniform(0.5, 2);
  if (coin(random)) {
    rule.mscale_all_dim = random.uniform(0, 2);
    if (!rule.attention_factor) rule.mscale = random.uniform(0, 2);
  }
}
inline void draw(posenc::DynamicYarnScaling& rule, Random& random) {
  rule = {.rotary_dim = width(random),
          .base = base(random),
          .original_max_position = length(random),
          .beta_slow = random.uniform(0.5, 4),
          .truncate = coin(random)};
  rule.beta_fast = rule.beta_slow + random.uniform(0, 64);
  if (coin(random)) rule.finetuned_max_position = rule.original_max_position + length(random);
}
inline void draw(posenc::LongRopeScaling& rule, Random& random) {
  rule = {
      .rotary_dim = width(random), .base = base(random), .original_max_position = length(random)};
  rule.short_factor = divisors(random, rule.rotary_dim);
  rule.long_factor = divisors(random, rule.rotary_dim);
  if (coin(random)) {
    rule.factor = factor(random);
  } else if (coin(random)) {
    rule.attention_factor = random.uniform(0.5, 2);
  } else {
    rule.short_mscale = random.uniform(0.5, 2);
    rule.long_mscale = random.uniform(0.5, 2);
  }
}
inline void draw(posenc::Llama3Scaling& rule, Random& random) {
  rule = {.rotary_dim = width(random),
          .base = base(random),
          .factor = factor(random),
          .low_freq_factor = random.uniform(0.5, 4),
          .original_max_position = length(random)};
  rule.high_freq_factor = rule.low_freq_factor + random.uniform(0, 16);
}
inline void draw(posenc::ProportionalScaling& rule, Random& random) {
  rule = {.head_dim = width(random),
          .base = base(random),
          .partial_rotary_factor = random.uniform(0.25, 1),
          .factor = factor(random)};
}
inline void draw(posenc::DivisorScaling& rule, Random& random) {
  rule = {.rotary_dim = width(random),
          .base = base(random),
          .attention_factor = random.uniform(0.5, 2)};
  rule.divisors = divisors(random, rule.rotary_dim);
}

template <class Rule>
Rule drawn(Random& random) {
  Rule rule;
  draw(rule, random);
  return rule;
}

/// Returns the frequencies of any rule; `length` is used only by rules that depend on it.
template <class Rule>
posenc::Frequencies evaluate(const Rule& rule, Index length) {
  if constexpr (posenc::LengthFrequencyRule<Rule>) {
    return frequencies(rule, length);
  } else {
    return frequencies(rule);
  }
}

}  // namespace random_rules
