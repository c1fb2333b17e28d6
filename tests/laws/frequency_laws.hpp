// SPDX-License-Identifier: MIT
#pragma once

#include "support/catch.hpp"
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/rotary_rule.hpp>

#include <optional>
#include <vector>

// Laws of every frequency rule, and the reference of each rule.
namespace laws {

using posenc::Frequencies;
using posenc::Index;

/// Checks that frequencies are not negative and fall from pair to pair. Those of the last pairs may
/// be 0.
inline void check_falling(const Frequencies& found) {
  const std::vector<double> w = found.inv_freq();
  REQUIRE(found.pairs() > 0);
  CHECK(w[0] > 0);
  for (std::size_t i = 1; i < w.size(); ++i) {
    CAPTURE(i, w[i - 1], w[i]);
    CHECK((w[i] > 0 ? w[i] < w[i - 1] : w[i] == 0));
  }
}

/// Checks that frequencies equal those without scaling, bit by bit, and that factors are 1.
inline void check_unscaled(const Frequencies& found, double base) {
  const posenc::Unscaled rule{.rotary_dim = found.rotary_dim(), .base = base};
  CHECK(found == frequencies(rule));
}

// Settings under which a rule must change nothing, within the trained length.

template <class Rule>
void neutralise(Rule& rule) {
  if constexpr (requires { rule.factor; }) rule.factor = 1;
}
inline void neutralise(posenc::AlphaNtkScaling& rule) { rule.alpha = 1; }
inline void neutralise(posenc::YarnScaling& rule) {
  rule.factor = 1;
  // The mscale of factor 1 is 1.
  if (!rule.mscale) rule.mscale_all_dim.reset();
  rule.attention_factor.reset();
}
inline void neutralise(posenc::DynamicYarnScaling& rule) { rule.finetuned_max_position.reset(); }
inline void neutralise(posenc::ProportionalScaling& rule) {
  rule.partial_rotary_factor = rule.factor = 1;
}
inline void neutralise(posenc::DivisorScaling& rule) {
  rule.divisors.assign(rule.divisors.size(), 1);
  rule.attention_factor = 1;
}
inline void neutralise(posenc::LongRopeScaling& rule) {
  rule.short_factor.assign(rule.short_factor.size(), 1);
  rule.long_factor.assign(rule.long_factor.size(), 1);
  rule.factor = 1;
  rule.attention_factor = rule.short_mscale = rule.long_mscale = std::nullopt;
}

// Frequencies of a length-dependent rule up to its trained length.

inline Frequencies plain(const posenc::DynamicNtkScaling& rule) {
  return frequencies(posenc::Unscaled{.rotary_dim = rule.rotary_dim, .base = rule.base});
}
inline Frequencies plain(const posenc::DynamicYarnScaling& rule) {
  const auto length = static_cast<double>(rule.original_max_position);
  const auto finetuned =
      static_cast<double>(rule.finetuned_max_position.value_or(rule.original_max_position));
  return frequencies(posenc::YarnScaling{.rotary_dim = rule.rotary_dim,
                                         .base = rule.base,
                                         .factor = finetuned / length,
                                         .original_max_position = rule.original_max_position,
                                         .beta_fast = rule.beta_fast,
                                         .beta_slow = rule.beta_slow,
                                         .truncate = rule.truncate,
                                         .crossing = rule.crossing});
}
inline Frequencies plain(const posenc::LongRopeScaling& rule) {
  return frequencies(
      posenc::DivisorScaling{.rotary_dim = rule.rotary_dim,
                             .base = rule.base,
                             .divisors = rule.short_factor,
                             .attention_factor = frequencies(rule, 0).attention_factor()});
}

}  // namespace laws
