// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/dynamic_ntk.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/llama3.hpp>
#include <posenc/frequency/longrope.hpp>
#include <posenc/frequency/proportional.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>

#include <algorithm>
#include <limits>
#include <vector>

// The inverse frequencies that Hugging Face computes in float32, operation by operation, for
// encodings with AnglePolicy::HfFloat32:
//
//   Rope<HalfRotate> rope(hf_float32_frequencies(rule), 0, {}, AnglePolicy::HfFloat32);
//
// Every value below is a float held in a double. A sum, product or quotient of two floats that is
// rounded to double and then to float is correctly rounded. No compiler contracts across those
// roundings.
POSENC_BEGIN
namespace detail {

inline double to_float(double x) { return static_cast<double>(static_cast<float>(x)); }

/// Returns base^(2i / dim), with exponent and result rounded to float.
inline std::vector<double> float32_powers(double base, Index dim) {
  if (!(base <= static_cast<double>((std::numeric_limits<float>::max)()))) {
    fail<ConfigError>("hf_float32_frequencies", "base must be a finite float but is ", base);
  }
  const DoubleDouble log_base = log(DoubleDouble(to_float(base)));
  std::vector<double> powers;
  for (Index i = 0; i < dim / 2; ++i) {
    const double exponent = to_float(static_cast<double>(2 * i) / static_cast<double>(dim));
    powers.push_back(to_float(exp(log_base * exponent).hi));
  }
  return powers;
}

/// Returns 1 / (divisor * base^(2i / dim)), given the powers base^(2i / dim).
inline std::vector<double> float32_inverse(std::vector<double> powers, double divisor = 1) {
  for (double& x : powers) x = to_float(1 / to_float(to_float(divisor) * x));
  return powers;
}

/// Returns base^(-2i / dim).
inline std::vector<double> float32_power_law(double base, Index dim) {
  return float32_inverse(float32_powers(base, dim));
}

inline std::vector<double> float32_divided(std::vector<double> inv_freq, double divisor) {
  for (double& w : inv_freq) w = to_float(w / to_float(divisor));
  return inv_freq;
}

/// Returns Frequencies with the given inv_freq and the two factors of `exact`.
inline Frequencies replace_inv_freq(const Frequencies& exact, const std::vector<double>& inv_freq) {
  return exact_frequencies({inv_freq.begin(), inv_freq.end()}, exact.attention_factor(),
                           exact.softmax_scale_multiplier());
}

}  // namespace detail

/// Returns inv_freq as Hugging Face computes it in float32, with the factors of frequencies(rule).
///   Accuracy: equal to Hugging Face's results, except where its pow is not correctly rounded: 1
///             ulp off then, rarely 2. frequencies(rule) rounded to float is a few ulp off
///   Throws:   ConfigError
///   Source:   the float32 operations of huggingface/transformers, modeling_rope_utils
inline Frequencies hf_float32_frequencies(const Unscaled& rule) {
  return detail::replace_inv_freq(frequencies(rule),
                                  detail::float32_power_law(rule.base, rule.rotary_dim));
}

/// Overload for LinearScaling. Hugging Face divides the unscaled inverse frequencies by the factor.
///   Throws: ConfigError
inline Frequencies hf_float32_frequencies(const LinearScaling& rule) {
  const Frequencies exact = frequencies(rule);
  const auto unscaled = detail::float32_power_law(rule.base, rule.rotary_dim);
  return detail::replace_inv_freq(exact, detail::float32_divided(unscaled, rule.factor));
}

/// Overload for DynamicNtkScaling. The stretched base is computed in double.
///   Throws: ConfigError; PositionError for a negative length
inline Frequencies hf_float32_frequencies(const DynamicNtkScaling& rule, Index length) {
  const Frequencies exact = frequencies(rule, length);
  const auto original = static_cast<double>(rule.original_max_position);
  const auto dim = static_cast<double>(rule.rotary_dim);
  const double longest = (std::max)(static_cast<double>(length), original);
  const double product = rule.factor * longest;
  const double stretch = product / original - (rule.factor - 1);
  // Without rounding errors, stretch is at least 1.
  if (!(stretch > 0.5)) {
    detail::fail<ConfigError>("hf_float32_frequencies", "factor is too large: it is ", rule.factor);
  }
  const double base = (pow(stretch, detail::DoubleDouble(dim) / (dim - 2)) * rule.base).hi;
  return detail::replace_inv_freq(exact, detail::float32_power_law(base, rule.rotary_dim));
}

/// Overload for YarnScaling. If the ramp's ends cross, Hugging Face does what
/// YarnCrossing::Backwards says; the rule must name it.
///   Throws: ConfigError
inline Frequencies hf_float32_frequencies(const YarnScaling& rule) {
  using detail::to_float;
  const Frequencies exact = frequencies(rule);
  const auto powers = detail::float32_powers(rule.base, rule.rotary_dim);
  const auto interpolated = detail::float32_inverse(powers, rule.factor);
  auto inv_freq = detail::float32_inverse(powers);
  const auto ramp =
      detail::IndexRamp::between(rule.rotary_dim, rule.base, rule.original_max_position,
                                 rule.beta_fast, rule.beta_slow, rule.truncate, rule.crossing);
  const double low = to_float(static_cast<double>(ramp.low));
  const double width = to_float(static_cast<double>(ramp.high - ramp.low));
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const double rho = to_float(to_float(static_cast<double>(i) - low) / width);
    const double kept = to_float(1 - std::clamp(rho, 0.0, 1.0));
    const double slow = to_float(interpolated[i] * to_float(1 - kept));
    inv_freq[i] = to_float(slow + to_float(inv_freq[i] * kept));
  }
  return detail::replace_inv_freq(exact, inv_freq);
}

/// Overload for LongRopeScaling, for callers that select the regime once.
///   Throws: ConfigError
inline Frequencies hf_float32_frequencies(const LongRopeScaling& rule, LongRopeRegime regime) {
  using detail::to_float;
  const Frequencies exact = frequencies(rule, regime);
  const auto& divisors = regime == LongRopeRegime::Long ? rule.long_factor : rule.short_factor;
  auto inv_freq = detail::float32_powers(rule.base, rule.rotary_dim);
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    inv_freq[i] = to_float(1 / to_float(to_float(divisors[i]) * inv_freq[i]));
  }
  return detail::replace_inv_freq(exact, inv_freq);
}

/// Overload for LongRopeScaling that selects the regime by the length.
///   Throws: ConfigError; PositionError for a negative length
inline Frequencies hf_float32_frequencies(const LongRopeScaling& rule, Index length) {
  return hf_float32_frequencies(rule, detail::longrope_regime(rule, length));
}

/// Overload for Llama3Scaling. It deviates if high_freq_factor == low_freq_factor: Hugging Face
/// then divides by 0.
///   Throws: ConfigError
inline Frequencies hf_float32_frequencies(const Llama3Scaling& rule) {
  using detail::to_float;
  const Frequencies exact = frequencies(rule);
  const auto length = static_cast<double>(rule.original_max_position);
  const double low = to_float(rule.low_freq_factor), high = to_float(rule.high_freq_factor);
  const double longest = to_float(length / rule.low_freq_factor);
  const double shortest = to_float(length / rule.high_freq_factor);
  auto inv_freq = detail::float32_power_law(rule.base, rule.rotary_dim);
  for (double& w : inv_freq) {
    // PyTorch divides a number by a tensor as number * (1 / tensor).
    const double wavelength = to_float(to_float(1 / w) * to_float((detail::pi * 2.0).hi));
    if (wavelength > longest) w = to_float(w / to_float(rule.factor));
    if (wavelength < shortest || wavelength > longest || high == low) continue;
    const double rotations = to_float(to_float(1 / wavelength) * to_float(length));
    const double smooth = to_float(to_float(rotations - low) / to_float(high - low));
    const double slow = to_float(to_float(to_float(1 - smooth) * w) / to_float(rule.factor));
    w = to_float(slow + to_float(smooth * w));
  }
  return detail::replace_inv_freq(exact, inv_freq);
}

/// Overload for ProportionalScaling. Pairs that do not rotate keep frequency 0.
///   Throws: ConfigError
inline Frequencies hf_float32_frequencies(const ProportionalScaling& rule) {
  const Frequencies exact = frequencies(rule);
  auto inv_freq = detail::float32_power_law(rule.base, rule.head_dim);
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    if (detail::exact_inv_freq(exact)[i] == detail::DoubleDouble(0)) inv_freq[i] = 0;
  }
  return detail::replace_inv_freq(exact, detail::float32_divided(inv_freq, rule.factor));
}

POSENC_END
