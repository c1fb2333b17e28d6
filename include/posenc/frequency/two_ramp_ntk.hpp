// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/index_ramp.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <type_traits>

POSENC_STABLE_BEGIN

/// The predecessor of YaRN in the YaRN repository ("part NTK"): slow pairs are interpolated, fast
/// ones are kept, and those between are scaled as by NtkScaling.
struct TwoRampNtkScaling {
  Index rotary_dim = 0;             ///< required; even, >= 4
  double base = 0;                  ///< required
  double factor = 0;                ///< required, >= 1
  Index original_max_position = 0;  ///< required; the trained length L
};

static_assert(std::is_trivially_copyable_v<TwoRampNtkScaling>);

POSENC_STABLE_END

POSENC_BEGIN

POSENC_DETAIL_DESCRIBE_RULE(TwoRampNtkScaling, rotary_dim, base, factor, original_max_position);

/// Returns the result of two blends over the pair index. The first goes from NTK to linear between
/// the indices of 1.25 and 0.75 rotations in L. The second goes from unscaled to the first between
/// the indices of 16 and 2 rotations. The ends are rounded outward. Factor 1 gives the bits of
/// Unscaled.
///   Throws: ConfigError
inline Frequencies frequencies(const TwoRampNtkScaling& rule) {
  detail::check_common_fields(rule, 4);
  const auto ramp = [&rule](double fast, double slow) {
    return detail::IndexRamp::between(rule.rotary_dim, rule.base, rule.original_max_position, fast,
                                      slow, true);
  };
  auto inv_freq = detail::wide_power_law(rule.base, rule.rotary_dim, rule.rotary_dim / 2);
  auto slower = detail::ntk_power_law(rule.base, rule.factor, rule.rotary_dim);
  detail::blend(slower, detail::divided(inv_freq, rule.factor), ramp(1.25, 0.75));
  detail::blend(inv_freq, slower, ramp(16, 2));
  return detail::exact_frequencies(detail::rounded(inv_freq));
}

POSENC_END
