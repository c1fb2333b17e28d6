// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/detail/rotation_ramp.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <cmath>
#include <type_traits>

POSENC_STABLE_BEGIN

/// NTK-by-parts of the YaRN paper (arXiv 2309.00071, equations 18 to 20): a ramp over the number of
/// rotations. No model's code implements it; models run YarnScaling.
struct NtkByPartsScaling {
  Index rotary_dim = 0;             ///< required; even
  double base = 0;                  ///< required
  double factor = 0;                ///< required, >= 1
  Index original_max_position = 0;  ///< required; the trained length L
  double alpha = 1;                 ///< pairs with fewer rotations in L are divided by factor
  double beta = 32;                 ///< pairs with more are kept
};

static_assert(std::is_trivially_copyable_v<NtkByPartsScaling>);

POSENC_STABLE_END

POSENC_BEGIN

POSENC_DETAIL_DESCRIBE_RULE(NtkByPartsScaling, rotary_dim, base, factor, original_max_position,
                            alpha, beta);

/// Returns w_i' = w_i gamma_i + w_i / factor (1 - gamma_i), gamma_i = clamp((n_i - alpha) / (beta -
/// alpha), 0, 1), n_i = L w_i / (2 pi). Factor 1 gives the bits of Unscaled.
///   Throws: ConfigError
inline Frequencies frequencies(const NtkByPartsScaling& rule) {
  constexpr auto name = RuleDescription<NtkByPartsScaling>::name;
  detail::check_common_fields(rule);
  if (!(rule.alpha > 0) || !(rule.beta >= rule.alpha) || !std::isfinite(rule.beta)) {
    detail::fail<ConfigError>(name, "beta >= alpha > 0 must hold but they are ", rule.beta, " and ",
                              rule.alpha);
  }
  auto inv_freq = detail::wide_power_law(rule.base, rule.rotary_dim, rule.rotary_dim / 2);
  detail::scale_by_rotations(inv_freq, rule.factor, static_cast<double>(rule.original_max_position),
                             rule.alpha, rule.beta);
  return detail::exact_frequencies(detail::rounded(inv_freq));
}

POSENC_END
