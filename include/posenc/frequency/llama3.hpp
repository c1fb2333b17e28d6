// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/detail/rotation_ramp.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <cmath>
#include <type_traits>

POSENC_STABLE_BEGIN

/// The scaling of Llama 3.1 and 3.2, "llama3" in Hugging Face. In GGUF files it is part of the
/// tensor rope_freqs.weight. Fields have the names of the keys of a config.json, except for
/// "rope_theta" and "original_max_position_embeddings".
struct Llama3Scaling {
  Index rotary_dim = 0;         ///< required; even
  double base = 0;              ///< required; "rope_theta", 500000
  double factor = 0;            ///< required, >= 1; 8 in Llama 3.1, 32 in 3.2 1B and 3B
  double low_freq_factor = 0;   ///< required; pairs with fewer rotations in L are divided
  double high_freq_factor = 0;  ///< required, >= low_freq_factor; pairs with more are kept
  /// Required; L, 8192: "original_max_position_embeddings".
  Index original_max_position = 0;
};

static_assert(std::is_trivially_copyable_v<Llama3Scaling>);

POSENC_STABLE_END

POSENC_BEGIN

POSENC_DETAIL_DESCRIBE_RULE(Llama3Scaling, rotary_dim, base, factor, low_freq_factor,
                            high_freq_factor, original_max_position);

/// Returns w_i' = w_i gamma_i + w_i / factor (1 - gamma_i), gamma_i = clamp((n_i - low) / (high -
/// low), 0, 1), where n_i = L w_i / (2 pi) is the number of rotations in the trained length. This
/// is one formula for the three branches of Meta's code.
/// If high == low, gamma_i is 1 for n_i >= low and 0 otherwise. Factor 1 gives the bits of
/// Unscaled.
///   Throws: ConfigError
inline Frequencies frequencies(const Llama3Scaling& rule) {
  constexpr auto name = RuleDescription<Llama3Scaling>::name;
  detail::check_common_fields(rule);
  if (!(rule.low_freq_factor > 0) || !(rule.high_freq_factor >= rule.low_freq_factor) ||
      !std::isfinite(rule.high_freq_factor)) {
    detail::fail<ConfigError>(name,
                              "high_freq_factor >= low_freq_factor > 0 must hold but they are ",
                              rule.high_freq_factor, " and ", rule.low_freq_factor);
  }
  auto inv_freq = detail::wide_power_law(rule.base, rule.rotary_dim, rule.rotary_dim / 2);
  detail::scale_by_rotations(inv_freq, rule.factor, static_cast<double>(rule.original_max_position),
                             rule.low_freq_factor, rule.high_freq_factor);
  return detail::exact_frequencies(detail::rounded(inv_freq));
}

POSENC_END
