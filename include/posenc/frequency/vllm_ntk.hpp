// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <type_traits>

POSENC_STABLE_BEGIN

/// vLLM's rope type "ntk" without mixed_b (kexue.fm 9706). It is not NTK-aware scaling: it slows
/// the first pair as well.
struct VllmNtkScaling {
  Index rotary_dim = 0;  ///< required; even
  double base = 0;       ///< required
  double factor = 0;     ///< required, >= 1
};

/// vLLM's rope type "ntk" with mixed_b (kexue.fm 9706).
struct VllmMixedNtkScaling {
  Index rotary_dim = 0;  ///< required; even
  double base = 0;       ///< required
  double factor = 0;     ///< required, >= 1
  double mixed_b = 0;    ///< required, in (0, 1000]
};

static_assert(std::is_trivially_copyable_v<VllmNtkScaling>);
static_assert(std::is_trivially_copyable_v<VllmMixedNtkScaling>);

POSENC_STABLE_END

POSENC_BEGIN

POSENC_DETAIL_DESCRIBE_RULE(VllmNtkScaling, rotary_dim, base, factor);

POSENC_DETAIL_DESCRIBE_RULE(VllmMixedNtkScaling, rotary_dim, base, factor, mixed_b);

/// Returns w_i' = w_i * factor^(-2 (i + 1) / rotary_dim). Factor 1 gives the bits of Unscaled.
///   Throws: ConfigError
inline Frequencies frequencies(const VllmNtkScaling& rule) {
  detail::check_common_fields(rule);
  auto inv_freq = detail::wide_power_law(rule.base, rule.rotary_dim, rule.rotary_dim / 2);
  const auto slower = detail::wide_power_law(rule.factor, rule.rotary_dim, rule.rotary_dim / 2 + 1);
  for (std::size_t i = 0; i < inv_freq.size(); ++i) inv_freq[i] = inv_freq[i] * slower[i + 1];
  return detail::exact_frequencies(detail::rounded(inv_freq));
}

/// Returns w_i' = w_i * exp(-ln(factor) * ((i + 1) / (rotary_dim / 2))^mixed_b), so that the last
/// pair is divided by factor. Factor 1 gives the bits of Unscaled.
///   Throws: ConfigError
inline Frequencies frequencies(const VllmMixedNtkScaling& rule) {
  constexpr auto name = RuleDescription<VllmMixedNtkScaling>::name;
  detail::check_common_fields(rule);
  // The bound on mixed_b keeps the logarithm of the power within the range of exp.
  if (!(rule.mixed_b > 0 && rule.mixed_b <= 1000)) {
    detail::fail<ConfigError>(name, "mixed_b must be set and lie in (0, 1000] but is ",
                              rule.mixed_b);
  }
  const Index pairs = rule.rotary_dim / 2;
  auto inv_freq = detail::wide_power_law(rule.base, rule.rotary_dim, pairs);
  const detail::QuadDouble log_factor = log(detail::QuadDouble(rule.factor));
  for (Index i = 0; i < pairs; ++i) {
    const auto share = detail::QuadDouble(static_cast<double>(i + 1)) / static_cast<double>(pairs);
    detail::QuadDouble& w = inv_freq[static_cast<std::size_t>(i)];
    w = w * exp(-(log_factor * exp(log(share) * rule.mixed_b)));
  }
  return detail::exact_frequencies(detail::rounded(inv_freq));
}

POSENC_END
