// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>

POSENC_STABLE_BEGIN

/// NTK-aware scaling, static: a larger base, so that the first frequency stays and the last is
/// divided by factor.
struct NtkScaling {
  Index rotary_dim = 0;  ///< required; even, >= 4
  double base = 0;       ///< required
  double factor = 0;     ///< required, >= 1; "alpha", lucidrains' theta_rescale_factor
};

/// Dynamic NTK as Hugging Face defines it: the base grows once the sequence is longer than the
/// trained length.
struct DynamicNtkScaling {
  Index rotary_dim = 0;  ///< required; even, >= 4
  double base = 0;       ///< required
  double factor = 0;     ///< required, >= 1; factor 1 is the form of the YaRN paper, section 3.3
  Index original_max_position = 0;  ///< required; Hugging Face takes max_position_embeddings
};

POSENC_STABLE_END

POSENC_BEGIN

namespace detail {

/// base^(-2i/dim) * scale^(-2i/(dim-2)), which is base' = base * scale^(dim/(dim-2)) put into the
/// power law.
inline std::vector<DoubleDouble> ntk_power_law(DoubleDouble base, DoubleDouble scale, Index dim) {
  auto inv_freq = power_law(base, dim, dim / 2);
  const auto stretch = power_law(scale, dim - 2, dim / 2);
  for (std::size_t i = 0; i < inv_freq.size(); ++i) inv_freq[i] = inv_freq[i] * stretch[i];
  return inv_freq;
}

}  // namespace detail

/// w_i' = w_i * factor^(-2i / (rotary_dim - 2)). Factor 1 gives the bits of Unscaled.
///   Throws: ConfigError.
inline Frequencies frequencies(const NtkScaling& rule) {
  detail::check_rotary_dim("NtkScaling", rule.rotary_dim, 4);
  detail::check_base("NtkScaling", rule.base);
  detail::check_scaling_factor("NtkScaling", rule.factor);
  return Frequencies(detail::ntk_power_law(rule.base, rule.factor, rule.rotary_dim));
}

/// As NtkScaling with factor * max(length, L) / L - (factor - 1) in place of the factor, L =
/// original_max_position; up to L these are the bits of Unscaled. A function of the length that
/// remembers nothing: keys cached under the frequencies of another length keep that length's
/// rotation.
///   Throws: ConfigError; PositionError for a negative length.
inline Frequencies frequencies(const DynamicNtkScaling& rule, Index length) {
  constexpr auto name = "DynamicNtkScaling";
  detail::check_rotary_dim(name, rule.rotary_dim, 4);
  detail::check_base(name, rule.base);
  detail::check_scaling_factor(name, rule.factor);
  detail::check_original_max_position(name, rule.original_max_position);
  if (length < 0) {
    detail::fail<PositionError>(name, "the length must not be negative but is ", length);
  }
  const auto original = static_cast<double>(rule.original_max_position);
  const double excess = (std::max)(static_cast<double>(length) - original, 0.0);
  // factor * l / L - (factor - 1), written so that excess 0 gives exactly 1.
  const DoubleDouble scale = DoubleDouble(rule.factor) * excess / original + 1.0;
  return Frequencies(detail::ntk_power_law(rule.base, scale, rule.rotary_dim));
}

POSENC_END
