// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

POSENC_STABLE_BEGIN

/// YaRN (arXiv 2309.00071) as its own code and every model has it: the ramp is linear in the pair's
/// index, where the paper's equation 18 is linear in the number of rotations. End points agree, the
/// inside differs by up to 67 %.
struct YarnScaling {
  Index rotary_dim = 0;             ///< required; even
  double base = 0;                  ///< required
  double factor = 0;                ///< required, >= 1
  Index original_max_position = 0;  ///< required; the trained length L, not the extended one
  double beta_fast = 32;            ///< pairs with more rotations in L keep their frequency
  double beta_slow = 1;             ///< pairs with fewer are divided by factor
  bool truncate = true;  ///< round the ramp's ends outward to whole pairs; gpt-oss does not
  std::optional<double> attention_factor =
      std::nullopt;  ///< the final multiplier of cos and sin; 0.1 ln(factor) + 1 if not given
};

POSENC_STABLE_END

POSENC_BEGIN

namespace detail {

/// The (real) pair index that turns `rotations` times within the trained length:
/// dim * ln(L / (2 pi rotations)) / (2 ln base).
inline DoubleDouble yarn_pair_index(const YarnScaling& rule, double rotations) {
  const DoubleDouble wavelength =
      static_cast<double>(rule.original_max_position) / (pi * 2.0 * rotations);
  return log(wavelength) * static_cast<double>(rule.rotary_dim) /
         (log(DoubleDouble(rule.base)) * 2.0);
}

}  // namespace detail

/// w_i' = w_i (1 - rho_i) + w_i / factor * rho_i, rho_i = clamp((i - low) / (high - low), 0, 1),
/// where low and high are the pair indices of beta_fast and beta_slow, clamped to [0, rotary_dim -
/// 1] (as all code has it, not rotary_dim / 2 - 1), and high is at least low + 0.001. Factor 1
/// gives the bits of Unscaled.
///   Throws: ConfigError.
inline Frequencies frequencies(const YarnScaling& rule) {
  constexpr auto name = "YarnScaling";
  detail::check_rotary_dim(name, rule.rotary_dim);
  detail::check_base(name, rule.base);
  detail::check_scaling_factor(name, rule.factor);
  detail::check_original_max_position(name, rule.original_max_position);
  if (!(rule.beta_slow > 0) || !(rule.beta_fast >= rule.beta_slow) ||
      !std::isfinite(rule.beta_fast)) {
    detail::fail<ConfigError>(name, "beta_fast >= beta_slow > 0 must hold but they are ",
                              rule.beta_fast, " and ", rule.beta_slow);
  }

  DoubleDouble low = detail::yarn_pair_index(rule, rule.beta_fast);
  DoubleDouble high = detail::yarn_pair_index(rule, rule.beta_slow);
  if (rule.truncate) {
    low = detail::floor(low);
    high = -detail::floor(-high);
  }
  const DoubleDouble narrowest = DoubleDouble(1.0) / 1000.0;
  low = (std::max)(low, DoubleDouble(0));
  high = (std::min)(high, DoubleDouble(static_cast<double>(rule.rotary_dim - 1)));
  high = (std::max)(high, low + narrowest);

  auto inv_freq = detail::power_law(rule.base, rule.rotary_dim, rule.rotary_dim / 2);
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const DoubleDouble rho = (DoubleDouble(static_cast<double>(i)) - low) / (high - low);
    if (rho <= DoubleDouble(0)) continue;
    const DoubleDouble w = inv_freq[i], interpolated = w / rule.factor;
    const DoubleDouble kept = (std::max)(DoubleDouble(1.0) - rho, DoubleDouble(0));
    // This form, and the pairs left alone above, make factor 1 the identity and rho 1 exactly
    // linear interpolation.
    inv_freq[i] = interpolated + kept * (w - interpolated);
  }
  const double attention_factor =
      rule.attention_factor.value_or((log(DoubleDouble(rule.factor)) / 10.0 + 1.0).hi);
  return Frequencies(std::move(inv_freq), attention_factor);
}

POSENC_END
