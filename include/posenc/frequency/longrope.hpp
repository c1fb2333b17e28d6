// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/divisors.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <optional>
#include <vector>

POSENC_STABLE_BEGIN

/// The choice between LongRoPE's two lists of divisors.
enum class LongRopeRegime {
  Short,  ///< for lengths up to the trained length
  Long    ///< for longer sequences
};

POSENC_STABLE_END

POSENC_BEGIN

/// LongRoPE (arXiv 2402.13753) as shipped with Phi-3: one divisor per pair, in two lists, one for
/// lengths up to the trained length and one beyond. Also known as "su", and as "yarn" in old Phi-3
/// files.
struct LongRopeScaling {
  Index rotary_dim = 0;                   ///< required; even
  double base = 0;                        ///< required; "rope_theta"
  std::vector<double> short_factor = {};  ///< required; rotary_dim / 2 divisors
  std::vector<double> long_factor = {};   ///< required; rotary_dim / 2 divisors
  /// Required; the trained length L: "original_max_position_embeddings".
  Index original_max_position = 0;
  // Exactly one of the next three must be given: factor, attention_factor, or both mscales. It
  // determines the multiplier of cos and sin.
  /// At least 1, for the multiplier sqrt(1 + ln factor / ln L); max_position_embeddings / L if a
  /// config has none.
  std::optional<double> factor = std::nullopt;
  std::optional<double> attention_factor = std::nullopt;  ///< the multiplier of both regimes
  /// The multiplier of the short regime (PhiMoE).
  std::optional<double> short_mscale = std::nullopt;
  /// The multiplier of the long regime; required with short_mscale.
  std::optional<double> long_mscale = std::nullopt;
};

POSENC_DETAIL_DESCRIBE_RULE(LongRopeScaling, rotary_dim, base, short_factor, long_factor,
                            original_max_position, factor, attention_factor, short_mscale,
                            long_mscale);

namespace detail {

inline void check_longrope_magnitude(const LongRopeScaling& rule) {
  constexpr auto name = RuleDescription<LongRopeScaling>::name;
  if (rule.short_mscale.has_value() != rule.long_mscale.has_value()) {
    fail<ConfigError>(name, "short_mscale and long_mscale must be set together, but ",
                      rule.short_mscale ? "long_mscale" : "short_mscale", " is missing");
  }
  const int given = int{rule.factor.has_value()} + int{rule.attention_factor.has_value()} +
                    int{rule.short_mscale.has_value()};
  if (given != 1) {
    fail<ConfigError>(name,
                      "exactly one of factor, attention_factor, and short_mscale with long_mscale "
                      "must be set, but ",
                      given, " are");
  }
  if (!rule.factor) return;
  check_scaling_factor(name, *rule.factor);
  if (rule.original_max_position == 1 && *rule.factor > 1) {
    fail<ConfigError>(name, "original_max_position must be greater than 1 if factor is set");
  }
}

inline LongRopeRegime longrope_regime(const LongRopeScaling& rule, Index length) {
  check_length(RuleDescription<LongRopeScaling>::name, length);
  return length > rule.original_max_position ? LongRopeRegime::Long : LongRopeRegime::Short;
}

/// Returns sqrt(1 + ln factor / ln length).
inline double longrope_magnitude(double factor, Index length) {
  if (factor == 1) return 1;
  return std::sqrt(
      (log(DoubleDouble(factor)) / log(DoubleDouble(static_cast<double>(length))) + 1.0).hi);
}

}  // namespace detail

/// Returns w_i' = w_i / divisor_i of one regime, for callers that select the regime once, as vLLM
/// does.
///   Throws: ConfigError
inline Frequencies frequencies(const LongRopeScaling& rule, LongRopeRegime regime) {
  constexpr auto name = RuleDescription<LongRopeScaling>::name;
  detail::check_common_fields(rule);
  detail::check_divisors(name, "short_factor", rule.rotary_dim, rule.short_factor);
  detail::check_divisors(name, "long_factor", rule.rotary_dim, rule.long_factor);
  detail::check_longrope_magnitude(rule);

  const bool is_long = regime == LongRopeRegime::Long;
  const auto& regime_mscale = is_long ? rule.long_mscale : rule.short_mscale;
  const double attention_factor =
      rule.factor ? detail::longrope_magnitude(*rule.factor, rule.original_max_position)
                  : rule.attention_factor.value_or(regime_mscale.value_or(1));
  return detail::exact_frequencies(
      detail::divided_power_law(rule.base, rule.rotary_dim,
                                is_long ? rule.long_factor : rule.short_factor),
      attention_factor);
}

/// Overload that selects the regime by the sequence length: Long beyond the trained length, as in
/// Hugging Face and llama.cpp. Keys cached under the other regime keep that regime's rotation.
///   Throws: ConfigError; PositionError for a negative length
inline Frequencies frequencies(const LongRopeScaling& rule, Index length) {
  return frequencies(rule, detail::longrope_regime(rule, length));
}

POSENC_END
