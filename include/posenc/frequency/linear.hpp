// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <type_traits>

POSENC_STABLE_BEGIN

/// Position interpolation (arXiv 2306.15595, equation 4): every position is divided by factor.
struct LinearScaling {
  Index rotary_dim = 0;  ///< required; even
  double base = 0;       ///< required; "rope_theta"
  double factor = 0;     ///< required, >= 1; MLX and XNNPACK call the reciprocal "scale"
};

static_assert(std::is_trivially_copyable_v<LinearScaling>);

POSENC_STABLE_END

POSENC_BEGIN

/// The names of LinearScaling and of its fields.
template <>
struct RuleDescription<LinearScaling> {
  /// Name of the struct, for messages and tools.
  static constexpr auto name = "LinearScaling";
  /// Calls f(name, pointer to member) for every field, in order of declaration.
  template <class F>
  static constexpr void fields(const F& f) {
    using R = LinearScaling;
    f("rotary_dim", &R::rotary_dim);
    f("base", &R::base);
    f("factor", &R::factor);
  }
};

/// Returns w_i' = w_i / factor. Factor 1 gives the bits of Unscaled.
///   Throws: ConfigError
inline Frequencies frequencies(const LinearScaling& rule) {
  constexpr auto name = RuleDescription<LinearScaling>::name;
  detail::check_rotary_dim(name, rule.rotary_dim);
  detail::check_base(name, rule.base);
  detail::check_scaling_factor(name, rule.factor);
  const auto inv_freq = detail::wide_power_law(rule.base, rule.rotary_dim, rule.rotary_dim / 2);
  return detail::exact_frequencies(detail::rounded(detail::divided(inv_freq, rule.factor)));
}

POSENC_END
