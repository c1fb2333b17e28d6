// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/index_ramp.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <cmath>
#include <optional>
#include <type_traits>
#include <vector>

POSENC_STABLE_BEGIN

/// YaRN (arXiv 2309.00071) as implemented in its repository and in every model: the ramp is linear
/// in the pair's index. In the paper's equation 18 it is linear in the number of rotations
/// (NtkByPartsScaling). The ends agree; in between the two differ by up to 67 %.
/// The names in quotes are keys of a config.json, where a field has another name there.
struct YarnScaling {
  Index rotary_dim = 0;  ///< required; even
  double base = 0;       ///< required; "rope_theta"
  double factor = 0;     ///< required, >= 1
  /// Required; the trained length L, not the extended one: "original_max_position_embeddings".
  Index original_max_position = 0;
  double beta_fast = 32;  ///< pairs with more rotations in L keep their frequency
  double beta_slow = 1;   ///< pairs with fewer rotations in L are divided by factor
  bool truncate = true;   ///< round the ramp's ends outward to integers; gpt-oss does not
  /// The ramp if its ends cross, where projects differ. Readers of config.json set Backwards.
  YarnCrossing crossing = YarnCrossing::Step;
  /// The final multiplier of cos and sin. If neither it nor mscale is given, yarn_mscale(factor).
  /// The key "attn_factor" is relative to yarn_mscale(factor) instead.
  std::optional<double> attention_factor = std::nullopt;
  /// DeepSeek: the multiplier of cos and sin is yarn_mscale(factor, mscale) / yarn_mscale(factor,
  /// mscale_all_dim). Requires mscale_all_dim, because Hugging Face ignores mscale alone. Excludes
  /// attention_factor.
  std::optional<double> mscale = std::nullopt;
  /// DeepSeek: softmax_scale_multiplier is yarn_mscale(factor, mscale_all_dim)^2. Requires mscale
  /// or attention_factor, because implementations differ without them: vLLM then divides cos and
  /// sin by it, Hugging Face does not.
  std::optional<double> mscale_all_dim = std::nullopt;
};

static_assert(std::is_trivially_copyable_v<YarnScaling>);

POSENC_STABLE_END

POSENC_BEGIN

POSENC_DETAIL_DESCRIBE_RULE(YarnScaling, rotary_dim, base, factor, original_max_position, beta_fast,
                            beta_slow, truncate, crossing, attention_factor, mscale,
                            mscale_all_dim);

namespace detail {

/// Returns k ln(factor) / 10 + 1, or 1 for factors up to 1.
inline DoubleDouble yarn_magnitude(DoubleDouble factor, double k = 1) {
  if (factor <= DoubleDouble(1.0)) return 1.0;
  return log(factor) * k / 10.0 + 1.0;
}

/// Returns the power law, divided by factor along the ramp of a YarnScaling or DynamicYarnScaling.
template <class Rule>
std::vector<DoubleDouble> yarn_inv_freq(const Rule& rule, const QuadDouble& factor) {
  auto inv_freq = wide_power_law(rule.base, rule.rotary_dim, rule.rotary_dim / 2);
  const auto interpolated = divided(inv_freq, factor);
  blend(inv_freq, interpolated,
        IndexRamp::between(rule.rotary_dim, rule.base, rule.original_max_position, rule.beta_fast,
                           rule.beta_slow, rule.truncate, rule.crossing));
  return rounded(inv_freq);
}

inline void check_betas(const char* rule, double beta_fast, double beta_slow) {
  // The bounds are far beyond any use; logarithms stay finite within them.
  if (!(beta_slow >= 1e-30) || !(beta_fast >= beta_slow) || !(beta_fast <= 1e30)) {
    fail<ConfigError>(rule, "1e30 >= beta_fast >= beta_slow >= 1e-30 must hold but they are ",
                      beta_fast, " and ", beta_slow);
  }
}

inline void check_mscales(const YarnScaling& rule) {
  constexpr auto name = RuleDescription<YarnScaling>::name;
  const auto check_value = [](const char* field, const std::optional<double>& value) {
    if (value && !(*value >= 0 && std::isfinite(*value))) {
      fail<ConfigError>(name, field, " must be finite and not negative but is ", *value);
    }
  };
  check_value("mscale", rule.mscale);
  check_value("mscale_all_dim", rule.mscale_all_dim);
  if (rule.mscale && rule.attention_factor) {
    fail<ConfigError>(name, "mscale and attention_factor contradict each other: they are ",
                      *rule.mscale, " and ", *rule.attention_factor);
  }
  if (rule.mscale && !rule.mscale_all_dim) {
    fail<ConfigError>(name, "mscale needs mscale_all_dim; it is ", *rule.mscale);
  }
  if (rule.mscale_all_dim && !rule.mscale && !rule.attention_factor) {
    fail<ConfigError>(name, "mscale_all_dim needs mscale or attention_factor; it is ",
                      *rule.mscale_all_dim);
  }
}

}  // namespace detail

/// Returns YaRN's magnitude, k ln(factor) / 10 + 1, or 1 for factors up to 1; elsewhere called
/// "get_mscale". If a file gives its attention factor relative to this magnitude, the reader
/// multiplies the two. TeleChat3 uses k = 0.7.
///   Throws: ConfigError for values that are not finite, or if the magnitude is not
inline double yarn_mscale(double factor, double k = 1) {
  if (!std::isfinite(factor) || !std::isfinite(k)) {
    detail::fail<ConfigError>("yarn_mscale", "factor and k must be finite but are ", factor,
                              " and ", k);
  }
  const double magnitude = detail::yarn_magnitude(factor, k).hi;
  if (!std::isfinite(magnitude)) {
    detail::fail<ConfigError>("yarn_mscale",
                              "k ln(factor) / 10 + 1 must be finite, but factor and k are ", factor,
                              " and ", k);
  }
  return magnitude;
}

/// Returns w_i' = w_i (1 - rho_i) + w_i / factor * rho_i, rho_i = clamp((i - low) / (high - low),
/// 0, 1). Factor 1 gives the bits of Unscaled.
/// low and high are the pair indices of beta_fast and beta_slow, clamped to [0, rotary_dim - 1] (as
/// in all YaRN code, not to rotary_dim / 2 - 1). high is at least low + 0.001, except with
/// YarnCrossing::Backwards, where it may be less than low. All pairs are then unscaled if high < 0,
/// and all are divided by factor if low > rotary_dim - 1.
///   Throws: ConfigError
inline Frequencies frequencies(const YarnScaling& rule) {
  constexpr auto name = RuleDescription<YarnScaling>::name;
  detail::check_common_fields(rule);
  detail::check_betas(name, rule.beta_fast, rule.beta_slow);
  detail::check_mscales(rule);

  const detail::DoubleDouble all_dim =
      detail::yarn_magnitude(rule.factor, rule.mscale_all_dim.value_or(0));
  const detail::DoubleDouble magnitude =
      detail::yarn_magnitude(rule.factor, rule.mscale.value_or(1)) / all_dim;
  return detail::exact_frequencies(detail::yarn_inv_freq(rule, rule.factor),
                                   rule.attention_factor.value_or(magnitude.hi),
                                   (all_dim * all_dim).hi);
}

POSENC_END
