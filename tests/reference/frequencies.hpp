// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

namespace reference {

/// Result of every scaling rule of RoPE: inv_freq[rotary_dim / 2], and a factor of cos and sin.
struct Frequencies {
  std::vector<long double> inv_freq;
  double attention_factor = 1.0;
};

/// Returns w_i = base^(-2i/r), arXiv 2104.09864.
inline std::vector<long double> inverse_frequencies(std::int64_t rotary_dim, long double base) {
  if (rotary_dim <= 0 || rotary_dim % 2 != 0) {
    throw std::invalid_argument("inverse_frequencies: rotary_dim must be even and positive");
  }
  std::vector<long double> w;
  for (std::int64_t i = 0; i < rotary_dim / 2; ++i) {
    const long double exponent =
        -2.0L * static_cast<long double>(i) / static_cast<long double>(rotary_dim);
    w.push_back(std::pow(base, exponent));
  }
  return w;
}

inline Frequencies default_frequencies(std::int64_t rotary_dim, double base) {
  return {inverse_frequencies(rotary_dim, static_cast<long double>(base)), 1.0};
}

/// Position interpolation, w'_i = w_i / s: arXiv 2306.15595.
inline Frequencies linear_frequencies(std::int64_t rotary_dim, double base, double factor) {
  Frequencies f = default_frequencies(rotary_dim, base);
  for (long double& w : f.inv_freq) w /= static_cast<long double>(factor);
  return f;
}

/// NTK: frequencies of the base b' = b * s^(r/(r-2)). The first is unchanged, the last divided by
/// s.
inline Frequencies ntk_frequencies(std::int64_t rotary_dim, double base, long double factor) {
  if (rotary_dim == 2) throw std::invalid_argument("ntk_frequencies: undefined for rotary_dim 2");
  const long double r = static_cast<long double>(rotary_dim);
  const long double b = static_cast<long double>(base) * std::pow(factor, r / (r - 2.0L));
  return {inverse_frequencies(rotary_dim, b), 1.0};
}

/// Dynamic NTK: static NTK with s := s * l / L - (s - 1), where l = max(length, L), as in Hugging
/// Face.
inline Frequencies dynamic_ntk_frequencies(std::int64_t rotary_dim, double base, double factor,
                                           std::int64_t max_position, std::int64_t length) {
  if (length <= max_position) return ntk_frequencies(rotary_dim, base, 1.0L);
  const long double s = static_cast<long double>(factor);
  const long double ratio =
      static_cast<long double>(length) / static_cast<long double>(max_position);
  return ntk_frequencies(rotary_dim, base, s * ratio - (s - 1.0L));
}

/// Returns 1 for s <= 1, else 0.1 k ln s + 1.
inline double yarn_mscale(double factor, double k = 1.0) {
  return factor <= 1.0 ? 1.0 : 0.1 * k * std::log(factor) + 1.0;
}

struct YarnParameters {
  std::int64_t rotary_dim = 0;
  double base = 10000;
  double factor = 1;
  double original_max_position = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;
  std::optional<double> attention_factor = std::nullopt;  ///< If omitted: yarn_mscale(factor).
};

/// Pair indices between which YaRN changes from unscaled to interpolated frequencies.
struct YarnBounds {
  long double low = 0;
  long double high = 0;
};

/// Returns idx(n) = r ln(L / (2 pi n)) / (2 ln b), the pair that makes n full rotations over L
/// positions.
///
/// The upper clamp is r - 1, not r/2 - 1, as in every implementation. If the lower bound is not
/// below the upper one, they are set 0.001 apart.
inline YarnBounds yarn_bounds(const YarnParameters& p) {
  const long double pi = std::acos(-1.0L);
  const auto index = [&](double turns) {
    return static_cast<long double>(p.rotary_dim) *
           std::log(static_cast<long double>(p.original_max_position) /
                    (2.0L * pi * static_cast<long double>(turns))) /
           (2.0L * std::log(static_cast<long double>(p.base)));
  };
  long double low = index(p.beta_fast);
  long double high = index(p.beta_slow);
  if (p.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0L);
  high = std::min(high, static_cast<long double>(p.rotary_dim - 1));
  return {low, high <= low ? low + 0.001L : high};
}

/// YaRN: w'_i = w_i ((1 - rho_i) + rho_i / s), with rho rising from 0 to 1 between the bounds:
/// arXiv 2309.00071, with the ramp over the pair index as in its code.
inline Frequencies yarn_frequencies(const YarnParameters& p) {
  Frequencies f = default_frequencies(p.rotary_dim, p.base);
  const YarnBounds bounds = yarn_bounds(p);
  for (std::size_t i = 0; i < f.inv_freq.size(); ++i) {
    const long double rho = std::clamp(
        (static_cast<long double>(i) - bounds.low) / (bounds.high - bounds.low), 0.0L, 1.0L);
    f.inv_freq[i] *= (1.0L - rho) + rho / static_cast<long double>(p.factor);
  }
  f.attention_factor = p.attention_factor.value_or(yarn_mscale(p.factor));
  return f;
}

/// Dynamic YaRN: the factor is max(length, longest) / L, for a model finetuned for `longest`.
inline Frequencies dynamic_yarn_frequencies(YarnParameters p, double longest, double length) {
  p.factor = std::max(length, longest) / p.original_max_position;
  return yarn_frequencies(p);
}

/// Returns DeepSeek's factors: of cos and sin, and of the softmax scale.
inline double deepseek_attention_factor(double factor, double mscale, double mscale_all_dim) {
  return yarn_mscale(factor, mscale) / yarn_mscale(factor, mscale_all_dim);
}
inline double deepseek_softmax_multiplier(double factor, double mscale_all_dim) {
  return yarn_mscale(factor, mscale_all_dim) * yarn_mscale(factor, mscale_all_dim);
}

/// vLLM's "ntk": w'_i = w_i s^(-2(i+1)/r), or w_i / exp(ln s ((i+1) / (r/2))^mixed_b).
inline Frequencies vllm_ntk_frequencies(std::int64_t rotary_dim, double base, double factor,
                                        std::optional<double> mixed_b = std::nullopt) {
  Frequencies f = default_frequencies(rotary_dim, base);
  const long double s = static_cast<long double>(factor);
  for (std::size_t i = 0; i < f.inv_freq.size(); ++i) {
    const long double share =
        static_cast<long double>(i + 1) / (static_cast<long double>(rotary_dim) / 2.0L);
    f.inv_freq[i] /=
        mixed_b ? std::exp(std::log(s) * std::pow(share, static_cast<long double>(*mixed_b)))
                : std::pow(s, share);
  }
  return f;
}

/// Returns the number of full rotations of a frequency over L positions.
inline long double rotations(long double inv_freq, double original_max_position) {
  return static_cast<long double>(original_max_position) * inv_freq / (2.0L * std::acos(-1.0L));
}

/// NTK by parts, arXiv 2309.00071, equations 18 to 20: w' = w (gamma + (1 - gamma) / s), with gamma
/// rising from 0 to 1 between alpha and beta rotations.
inline Frequencies ntk_by_parts_frequencies(std::int64_t rotary_dim, double base, double factor,
                                            double original_max_position, double alpha,
                                            double beta) {
  Frequencies f = default_frequencies(rotary_dim, base);
  for (long double& w : f.inv_freq) {
    const long double n = rotations(w, original_max_position);
    const long double a = static_cast<long double>(alpha), b = static_cast<long double>(beta);
    const long double gamma = std::clamp((n - a) / (b - a), 0.0L, 1.0L);
    w *= gamma + (1.0L - gamma) / static_cast<long double>(factor);
  }
  return f;
}

/// Llama 3.1 as in Meta's code: three branches over the wavelength.
inline Frequencies llama3_frequencies(std::int64_t rotary_dim, double base, double factor,
                                      double low_freq_factor, double high_freq_factor,
                                      double original_max_position) {
  Frequencies f = default_frequencies(rotary_dim, base);
  const long double s = static_cast<long double>(factor);
  const long double length = static_cast<long double>(original_max_position);
  const long double low = static_cast<long double>(low_freq_factor);
  const long double high = static_cast<long double>(high_freq_factor);
  for (long double& w : f.inv_freq) {
    const long double wavelength = 2.0L * std::acos(-1.0L) / w;
    if (wavelength <= length / high) continue;
    if (wavelength > length / low) {
      w /= s;
    } else {
      const long double smooth = (length / wavelength - low) / (high - low);
      w = (1.0L - smooth) * w / s + smooth * w;
    }
  }
  return f;
}

/// "Part NTK" of the YaRN repository.
inline Frequencies two_ramp_frequencies(std::int64_t rotary_dim, double base, double factor,
                                        double original_max_position) {
  const auto ramp = [&](double fast, double slow, std::size_t i) {
    const YarnBounds bounds = yarn_bounds({.rotary_dim = rotary_dim,
                                           .base = base,
                                           .original_max_position = original_max_position,
                                           .beta_fast = fast,
                                           .beta_slow = slow});
    return std::clamp((static_cast<long double>(i) - bounds.low) / (bounds.high - bounds.low), 0.0L,
                      1.0L);
  };
  Frequencies f = default_frequencies(rotary_dim, base);
  const auto ntk = ntk_frequencies(rotary_dim, base, static_cast<long double>(factor)).inv_freq;
  const auto linear = linear_frequencies(rotary_dim, base, factor).inv_freq;
  for (std::size_t i = 0; i < f.inv_freq.size(); ++i) {
    const long double inner = ramp(1.25, 0.75, i), outer = ramp(16, 2, i);
    const long double scaled = linear[i] * inner + ntk[i] * (1.0L - inner);
    f.inv_freq[i] = scaled * outer + f.inv_freq[i] * (1.0L - outer);
  }
  return f;
}

/// Returns w'_i = w_i / divisor_i.
inline Frequencies divided_frequencies(std::int64_t rotary_dim, double base,
                                       const std::vector<double>& divisors,
                                       double attention_factor) {
  Frequencies f = default_frequencies(rotary_dim, base);
  for (std::size_t i = 0; i < f.inv_freq.size(); ++i) {
    f.inv_freq[i] /= static_cast<long double>(divisors.at(i));
  }
  f.attention_factor = attention_factor;
  return f;
}

/// Returns sqrt(1 + ln s / ln L), 1 for s <= 1.
inline double longrope_attention_factor(double factor, double original_max_position) {
  return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original_max_position));
}

/// The first int(share * d / 2) of d / 2 pairs are rotated.
inline Frequencies proportional_frequencies(std::int64_t head_dim, double base, double share,
                                            double factor) {
  Frequencies f = linear_frequencies(head_dim, base, factor);
  const auto turning = static_cast<std::int64_t>(share * static_cast<double>(head_dim) / 2);
  for (auto i = static_cast<std::size_t>(turning); i < f.inv_freq.size(); ++i) f.inv_freq[i] = 0;
  return f;
}

}  // namespace reference
