// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <vector>

POSENC_BEGIN

/// User-supplied divisors, one per pair. GGUF files store them as the tensor rope_freqs.weight
/// ("freq factors").
struct DivisorScaling {
  Index rotary_dim = 0;               ///< required; even
  double base = 0;                    ///< required
  std::vector<double> divisors = {};  ///< required; rotary_dim / 2, positive
  double attention_factor = 1;        ///< the multiplier of cos and sin
};

POSENC_DETAIL_DESCRIBE_RULE(DivisorScaling, rotary_dim, base, divisors, attention_factor);

namespace detail {

inline void check_divisors(const char* rule, const char* field, Index rotary_dim,
                           const std::vector<double>& divisors) {
  if (static_cast<Index>(divisors.size()) != rotary_dim / 2) {
    fail<ConfigError>(rule, field, " must have rotary_dim / 2 = ", rotary_dim / 2,
                      " divisors but has ", divisors.size());
  }
  for (const double divisor : divisors) {
    if (!std::isfinite(divisor) || divisor <= 0) {
      fail<ConfigError>(rule, field, " must be positive and finite but has ", divisor);
    }
    if (divisor < 1e-100 || divisor > 1e100) {
      fail<ConfigError>(rule, field, " must lie between 1e-100 and 1e100 but has ", divisor);
    }
  }
}

/// Returns base^(-2i/dim) / divisor_i.
inline std::vector<DoubleDouble> divided_power_law(double base, Index dim,
                                                   const std::vector<double>& divisors) {
  auto inv_freq = wide_power_law(base, dim, dim / 2);
  for (std::size_t i = 0; i < inv_freq.size(); ++i) inv_freq[i] = inv_freq[i] / divisors[i];
  return rounded(inv_freq);
}

}  // namespace detail

/// Returns w_i' = w_i / divisor_i. Divisors are taken as exact. Divisors of 1 give the bits of
/// Unscaled.
///   Throws: ConfigError
inline Frequencies frequencies(const DivisorScaling& rule) {
  constexpr auto name = RuleDescription<DivisorScaling>::name;
  detail::check_common_fields(rule);
  detail::check_divisors(name, "divisors", rule.rotary_dim, rule.divisors);
  return detail::exact_frequencies(
      detail::divided_power_law(rule.base, rule.rotary_dim, rule.divisors), rule.attention_factor);
}

POSENC_END
