// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <cmath>
#include <type_traits>

POSENC_STABLE_BEGIN

/// Hugging Face's "proportional" (Gemma-4's global layers): the full head is paired, but only the
/// first pairs rotate.
/// This is not a partial rotary embedding. The exponent's denominator is head_dim, and with
/// HalfRotate the rotated channels are no prefix of the head.
struct ProportionalScaling {
  Index head_dim = 0;                ///< required; even; the rotary_dim of the result
  double base = 0;                   ///< required; "rope_theta"
  double partial_rotary_factor = 0;  ///< required; share of the pairs that rotate, in (0, 1]
  double factor = 1;                 ///< >= 1; divides the frequencies
};

static_assert(std::is_trivially_copyable_v<ProportionalScaling>);

POSENC_STABLE_END

POSENC_BEGIN

POSENC_DETAIL_DESCRIBE_RULE(ProportionalScaling, head_dim, base, partial_rotary_factor, factor);

/// Returns w_i = base^(-2i / head_dim) / factor for i < floor(partial_rotary_factor * head_dim /
/// 2), and 0 for the other pairs.
///   Throws: ConfigError
inline Frequencies frequencies(const ProportionalScaling& rule) {
  constexpr auto name = RuleDescription<ProportionalScaling>::name;
  detail::check_rotary_dim(name, rule.head_dim, 2, "head_dim");
  detail::check_base(name, rule.base);
  detail::check_scaling_factor(name, rule.factor);
  if (!(rule.partial_rotary_factor > 0 && rule.partial_rotary_factor <= 1)) {
    detail::fail<ConfigError>(name, "partial_rotary_factor must be set and lie in (0, 1] but is ",
                              rule.partial_rotary_factor);
  }
  const double num_rotated_pairs =
      std::floor(rule.partial_rotary_factor * static_cast<double>(rule.head_dim) / 2);
  if (num_rotated_pairs < 1) {
    detail::fail<ConfigError>(name, "partial_rotary_factor must rotate at least one pair but is ",
                              rule.partial_rotary_factor, " of head_dim ", rule.head_dim);
  }
  const auto rotated_pairs = static_cast<std::size_t>(num_rotated_pairs);
  auto inv_freq = detail::wide_power_law(rule.base, rule.head_dim, rule.head_dim / 2);
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    inv_freq[i] = i < rotated_pairs ? inv_freq[i] / rule.factor : detail::QuadDouble(0);
  }
  return detail::exact_frequencies(detail::rounded(inv_freq));
}

POSENC_END
