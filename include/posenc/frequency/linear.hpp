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

POSENC_DETAIL_DESCRIBE_RULE(LinearScaling, rotary_dim, base, factor);

/// Returns w_i' = w_i / factor. Factor 1 gives the bits of Unscaled.
///   Throws: ConfigError
inline Frequencies frequencies(const LinearScaling& rule) {
  detail::check_common_fields(rule);
  const auto inv_freq = detail::wide_power_law(rule.base, rule.rotary_dim, rule.rotary_dim / 2);
  return detail::exact_frequencies(detail::rounded(detail::divided(inv_freq, rule.factor)));
}

POSENC_END
