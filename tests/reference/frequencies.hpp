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

/// What every scaling rule of RoPE comes down to: inv_freq[rotary_dim / 2], and a factor that
/// multiplies cos and sin.
struct Frequencies {
  std::vector<long double> inv_freq;
  double attention_factor = 1.0;
};

/// w_i = base^(-2i/r), arXiv 2104.09864.
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

/// Frequencies of the base b' = b * s^(r/(r-2)): the first is unchanged, the last divided by s.
inline Frequencies ntk_frequencies(std::int64_t rotary_dim, double base, long double factor) {
  if (rotary_dim == 2) throw std::invalid_argument("ntk_frequencies: undefined for rotary_dim 2");
  const long double r = static_cast<long double>(rotary_dim);
  const long double b = static_cast<long double>(base) * std::pow(factor, r / (r - 2.0L));
  return {inverse_frequencies(rotary_dim, b), 1.0};
}

/// Static NTK with s := s * l / L - (s - 1), where l = max(length, L), as Hugging Face has it.
inline Frequencies dynamic_ntk_frequencies(std::int64_t rotary_dim, double base, double factor,
                                           std::int64_t max_position, std::int64_t length) {
  if (length <= max_position) return ntk_frequencies(rotary_dim, base, 1.0L);
  const long double s = static_cast<long double>(factor);
  const long double ratio =
      static_cast<long double>(length) / static_cast<long double>(max_position);
  return ntk_frequencies(rotary_dim, base, s * ratio - (s - 1.0L));
}

/// 1 for s <= 1, else 0.1 k ln s + 1.
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
  std::optional<double> attention_factor = std::nullopt;  ///< Not given: yarn_mscale(factor).
};

/// The pair indices between which YaRN goes from unscaled to interpolated frequencies.
struct YarnBounds {
  long double low = 0;
  long double high = 0;
};

/// idx(n) = r ln(L / (2 pi n)) / (2 ln b) is the pair that turns n times over L positions.
///
/// The upper clamp is r - 1, not r/2 - 1, as in every implementation. Bounds that meet or cross
/// are set 0.001 apart.
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

/// w'_i = w_i ((1 - rho_i) + rho_i / s), rho rising from 0 to 1 between the bounds:
/// arXiv 2309.00071, with the ramp over the pair index that its code uses.
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

}  // namespace reference
