// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/double_double.hpp>
#include <posenc/core/detail/quad_double.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <cmath>
#include <concepts>
#include <span>
#include <utility>
#include <vector>

POSENC_BEGIN

class Frequencies;

namespace detail {

/// Builds Frequencies from DoubleDouble inv_freq, at full precision, for the rules of posenc.
///   Throws: ConfigError, under the same conditions as Frequencies
Frequencies exact_frequencies(std::vector<DoubleDouble> inv_freq, double attention_factor = 1,
                              double softmax_scale_multiplier = 1);

/// Returns inv_freq at full precision.
std::span<const DoubleDouble> exact_inv_freq(const Frequencies& frequencies) noexcept;

/// Throws ConfigError unless 1e-25 <= factor <= 1e25. Within these bounds m cos, m sin and their
/// inverses neither overflow nor lose precision in float.
inline void check_attention_factor(const char* function, double factor) {
  if (factor < 1e-25 || factor > 1e25) {
    fail<ConfigError>(function, "attention_factor must lie within 1e-25 and 1e25 but is ", factor);
  }
}

}  // namespace detail

/// The result of a frequency rule: inverse frequencies, one per pair, and two factors. An immutable
/// value.
///   inv_freq                  w_i; the angle of pair i at position p is p * w_i
///   attention_factor          m; multiplies cos and sin of queries and keys, so logits get m^2;
///                             within 1e-25 and 1e25
///   softmax_scale_multiplier  multiplies the softmax scale; 1 except for DeepSeek
/// Rules compute w_i with some 200 bits and store it as double-double (relative error <= 2^-95 of
/// their definition). Frequencies given as double are taken as exact.
///   Throws: ConfigError for values that are not finite, or factors that are not positive
class Frequencies {
 public:
  /// Builds Frequencies from user-supplied inv_freq, taken as exact.
  static Frequencies from_inv_freq(ListView<double> inv_freq, double attention_factor = 1,
                                   double softmax_scale_multiplier = 1) {
    return Frequencies(std::vector<detail::DoubleDouble>(inv_freq.begin(), inv_freq.end()),
                       attention_factor, softmax_scale_multiplier);
  }

  /// Returns the number of pairs, rotary_dim / 2.
  Index pairs() const noexcept { return static_cast<Index>(inv_freq_.size()); }
  /// Returns the number of rotated channels, 2 pairs().
  Index rotary_dim() const noexcept { return 2 * pairs(); }
  /// Returns m, the factor of cos and sin.
  double attention_factor() const noexcept { return attention_factor_; }
  /// Returns the factor for the softmax scale of attention.
  double softmax_scale_multiplier() const noexcept { return softmax_scale_multiplier_; }

  /// Returns w_i rounded to the nearest double, for printing and comparing.
  std::vector<double> inv_freq() const {
    std::vector<double> rounded;
    rounded.reserve(inv_freq_.size());
    for (const detail::DoubleDouble& w : inv_freq_) rounded.push_back(w.hi);
    return rounded;
  }

  /// True if both factors and all inverse frequencies, at full precision, are equal.
  friend bool operator==(const Frequencies&, const Frequencies&) = default;

 private:
  friend Frequencies detail::exact_frequencies(std::vector<detail::DoubleDouble> inv_freq,
                                               double attention_factor,
                                               double softmax_scale_multiplier);
  friend std::span<const detail::DoubleDouble> detail::exact_inv_freq(
      const Frequencies& frequencies) noexcept;

  explicit Frequencies(std::vector<detail::DoubleDouble> inv_freq, double attention_factor,
                       double softmax_scale_multiplier)
      : inv_freq_(std::move(inv_freq)),
        attention_factor_(attention_factor),
        softmax_scale_multiplier_(softmax_scale_multiplier) {
    constexpr auto function = "Frequencies";
    for (const detail::DoubleDouble& w : inv_freq_) {
      if (!std::isfinite(w.hi)) {
        detail::fail<ConfigError>(function, "every inv_freq must be finite but one is ", w.hi);
      }
    }
    check_factor(function, "attention_factor", attention_factor);
    detail::check_attention_factor(function, attention_factor);
    check_factor(function, "softmax_scale_multiplier", softmax_scale_multiplier);
  }

  static void check_factor(const char* function, const char* name, double value) {
    if (!std::isfinite(value) || value <= 0) {
      detail::fail<ConfigError>(function, name, " must be positive and finite but is ", value);
    }
  }

  std::vector<detail::DoubleDouble> inv_freq_;
  double attention_factor_;
  double softmax_scale_multiplier_;
};

namespace detail {

inline Frequencies exact_frequencies(std::vector<DoubleDouble> inv_freq, double attention_factor,
                                     double softmax_scale_multiplier) {
  return Frequencies(std::move(inv_freq), attention_factor, softmax_scale_multiplier);
}

inline std::span<const DoubleDouble> exact_inv_freq(const Frequencies& frequencies) noexcept {
  return {frequencies.inv_freq_.data(), frequencies.inv_freq_.size()};
}

}  // namespace detail

/// A rule: a struct of settings with a function frequencies(rule) beside it.
template <class R>
concept FrequencyRule = requires(const R& rule) {
  { frequencies(rule) } -> std::same_as<Frequencies>;
};

/// A rule that depends on the sequence length: a struct of settings with frequencies(rule, length)
/// beside it.
template <class R>
concept LengthFrequencyRule = requires(const R& rule, Index length) {
  { frequencies(rule, length) } -> std::same_as<Frequencies>;
};

namespace detail {

/// Evaluates a rule. A class with a member `frequencies` calls this, because the member hides the
/// free function.
template <class R>
Frequencies evaluate(const R& rule) {
  static_assert(FrequencyRule<R> || !LengthFrequencyRule<R>,
                "posenc: the frequencies of this rule depend on the length of the sequence, which "
                "must be passed: Rope<...>(frequencies(rule, length))");
  static_assert(
      FrequencyRule<R> || LengthFrequencyRule<R>,
      "posenc: this type is not a frequency rule: a rule is a struct of settings with a function "
      "`posenc::Frequencies frequencies(const Rule&)` in the same namespace");
  if constexpr (FrequencyRule<R>) {
    return frequencies(rule);
  } else {
    return exact_frequencies({});
  }
}

// Checks shared by the rules; `rule` is the name of the rule in error messages.

/// Upper limit for the channels of a head, of a token, and of a list of heads. It is far beyond any
/// use, and arrays of that many numbers fit in memory.
inline constexpr Index max_channels = Index{1} << 24;

inline void check_max_channels(const char* rule, const char* field, Index channels) {
  if (channels > max_channels) {
    fail<ConfigError>(rule, field, " must not exceed 2^24 but is ", channels);
  }
}

inline void check_rotary_dim(const char* rule, Index rotary_dim, Index smallest = 2,
                             const char* field = "rotary_dim") {
  if (rotary_dim < smallest || rotary_dim % 2 != 0) {
    fail<ConfigError>(rule, field, " must be even and at least ", smallest, " but is ", rotary_dim);
  }
  check_max_channels(rule, field, rotary_dim);
}

/// Throws ConfigError unless head_dim fits a head whose two halves rotate by different positions,
/// each in pairs.
inline void check_head_of_two_halves(const char* rule, Index head_dim) {
  if (head_dim < 4 || head_dim % 4 != 0) {
    fail<ConfigError>(rule, "head_dim must be divisible by 4 and at least 4 but is ", head_dim);
  }
  check_max_channels(rule, "head_dim", head_dim);
}

/// Throws ConfigError for values beyond 1e100, far beyond any use. Powers and logarithms stay
/// finite below it.
inline void check_max_value(const char* rule, const char* field, double value) {
  if (value > 1e100) fail<ConfigError>(rule, field, " must not exceed 1e100 but is ", value);
}

inline void check_base(const char* rule, double base) {
  if (!std::isfinite(base) || base <= 1) {
    fail<ConfigError>(rule, "base must be set, finite and greater than 1, but is ", base);
  }
  check_max_value(rule, "base", base);
}

inline void check_scaling_factor(const char* rule, double factor, const char* field = "factor") {
  if (!std::isfinite(factor) || factor < 1) {
    fail<ConfigError>(rule, field, " must be set, finite and at least 1, but is ", factor);
  }
  check_max_value(rule, field, factor);
}

inline void check_original_max_position(const char* rule, Index length) {
  if (length <= 0) {
    fail<ConfigError>(rule, "original_max_position must be set and positive but is ", length);
  }
}

/// Checks the fields that most rules have: rotary_dim, base, and if there are any, a factor that is
/// not optional and original_max_position.
template <class Rule>
void check_common_fields(const Rule& rule, Index smallest_rotary_dim = 2) {
  constexpr auto name = RuleDescription<Rule>::name;
  check_rotary_dim(name, rule.rotary_dim, smallest_rotary_dim);
  check_base(name, rule.base);
  if constexpr (requires { check_scaling_factor(name, rule.factor); }) {
    check_scaling_factor(name, rule.factor);
  }
  if constexpr (requires { rule.original_max_position; }) {
    check_original_max_position(name, rule.original_max_position);
  }
}

inline void check_length(const char* rule, Index length) {
  if (length < 0) fail<PositionError>(rule, "the length must not be negative but is ", length);
}

/// Returns the logarithm of base^(-2 / dim).
inline QuadDouble log_of_ratio(const QuadDouble& base, Index dim) {
  return log(base) * -2.0 / static_cast<double>(dim);
}

/// Returns e^(i log_ratio) for i < count.
inline std::vector<QuadDouble> geometric_sequence(const QuadDouble& log_ratio, Index count) {
  const QuadDouble ratio = exp(log_ratio);
  std::vector<QuadDouble> inv_freq(static_cast<std::size_t>(count));
  QuadDouble power = 1;
  for (QuadDouble& w : inv_freq) {
    w = power;
    power = power * ratio;
  }
  return inv_freq;
}

/// Returns base^(-2i / dim) for i < count, at full precision.
inline std::vector<QuadDouble> wide_power_law(const QuadDouble& base, Index dim, Index count) {
  return geometric_sequence(log_of_ratio(base, dim), count);
}

inline std::vector<DoubleDouble> rounded(const std::vector<QuadDouble>& inv_freq) {
  std::vector<DoubleDouble> result(inv_freq.size());
  for (std::size_t i = 0; i < inv_freq.size(); ++i) result[i] = rounded(inv_freq[i]);
  return result;
}

/// Returns base^(-2i / dim) for i < count, rounded to DoubleDouble.
inline std::vector<DoubleDouble> power_law(const QuadDouble& base, Index dim, Index count) {
  return rounded(wide_power_law(base, dim, count));
}

/// Returns w_i / factor. Factor 1 changes no bit.
inline std::vector<QuadDouble> divided(std::vector<QuadDouble> inv_freq, const QuadDouble& factor) {
  const QuadDouble inverse = QuadDouble(1) / factor;
  for (QuadDouble& w : inv_freq) w = w * inverse;
  return inv_freq;
}

}  // namespace detail
POSENC_END
