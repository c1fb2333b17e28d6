// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace reference {

/// Pairing of the r rotary channels: pair i is (2i, 2i+1) or (i, i + r/2).
enum class Pairing { Interleaved, HalfRotate };

/// Cosines and sines of one position, [r/2] each.
struct CosSin {
  std::vector<long double> cos;
  std::vector<long double> sin;
};

/// Returns cos and sin of position * inv_freq_i, with an exact product.
///
/// If the frequencies are exact numbers (given ones), the error stays below 3e-19 for any position.
/// Frequencies of frequencies.hpp are rounded with a relative error up to 1e-18, which is
/// multiplied by the angle. The error is then below 4e-16 for angles up to 2^8 at worst (2^12 for a
/// rotary_dim that is a power of two), and below 1e-12 for angles up to 2^20. For more digits
/// compare with stored values or MPFR. This needs an 80-bit long double; with a 64-bit one all
/// errors are 2048 times larger.
inline CosSin cos_sin(double position, const std::vector<long double>& inv_freq) {
  CosSin result;
  for (const long double w : inv_freq) {
    const long double p = static_cast<long double>(position);
    const long double angle = p * w;
    const long double lost = std::fma(p, w, -angle);
    const long double c = std::cos(angle), s = std::sin(angle);
    result.cos.push_back(c * std::cos(lost) - s * std::sin(lost));
    result.sin.push_back(s * std::cos(lost) + c * std::sin(lost));
  }
  return result;
}

struct RopeRule {
  Pairing pairing = Pairing::Interleaved;
  std::int64_t offset = 0;  ///< First rotary channel; the others are copied.
  double attention_factor = 1.0;
};

/// Channels of pair i, with r = 2 * pairs, counted from the first rotary channel.
struct PairChannels {
  std::size_t first = 0;
  std::size_t second = 0;
};

inline PairChannels pair_channels(const RopeRule& rule, std::size_t pairs, std::size_t i) {
  const std::size_t start = static_cast<std::size_t>(rule.offset);
  if (rule.pairing == Pairing::Interleaved) return {start + 2 * i, start + 2 * i + 1};
  return {start + i, start + i + pairs};
}

/// Returns y0 = m (c x0 - s x1), y1 = m (s x0 + c x1) for each pair of one head vector x[D]; cos
/// and sin may be any numbers.
inline std::vector<double> rotate_by(const std::vector<double>& x, const CosSin& turn,
                                     const RopeRule& rule) {
  const std::size_t pairs = turn.cos.size();
  if (static_cast<std::size_t>(rule.offset) + 2 * pairs > x.size()) {
    throw std::invalid_argument("rotate_by: the rotary slice is wider than the head");
  }
  const long double m = static_cast<long double>(rule.attention_factor);
  std::vector<double> y = x;
  for (std::size_t i = 0; i < pairs; ++i) {
    const PairChannels at = pair_channels(rule, pairs, i);
    const long double x0 = static_cast<long double>(x[at.first]);
    const long double x1 = static_cast<long double>(x[at.second]);
    y[at.first] = static_cast<double>(m * (turn.cos[i] * x0 - turn.sin[i] * x1));
    y[at.second] = static_cast<double>(m * (turn.sin[i] * x0 + turn.cos[i] * x1));
  }
  return y;
}

/// Returns one head vector x[D], rotated to its position; rotary_dim is 2 * inv_freq.size().
inline std::vector<double> rotate(const std::vector<double>& x, double position,
                                  const std::vector<long double>& inv_freq, const RopeRule& rule) {
  return rotate_by(x, cos_sin(position, inv_freq), rule);
}

/// Transpose of rotate(): rotates back and multiplies by the attention factor once more.
inline std::vector<double> rotate_adjoint(const std::vector<double>& dy, double position,
                                          const std::vector<long double>& inv_freq,
                                          const RopeRule& rule) {
  return rotate_by(dy, cos_sin(-position, inv_freq), rule);
}

/// Inverse of rotate(): rotates back and divides by the attention factor.
inline std::vector<double> rotate_inverse(const std::vector<double>& y, double position,
                                          const std::vector<long double>& inv_freq, RopeRule rule) {
  rule.attention_factor = 1.0 / rule.attention_factor;
  return rotate_by(y, cos_sin(-position, inv_freq), rule);
}

/// rotate() in complex numbers: z_i = x0 + j x1, y_i = z_i * m e^(j position w_i).
///
/// The angle is one rounded product, so the result is within 1e-13 of rotate() for angles up to
/// 2^20.
inline std::vector<double> rotate_complex(const std::vector<double>& x, double position,
                                          const std::vector<long double>& inv_freq,
                                          const RopeRule& rule) {
  std::vector<double> y = x;
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const PairChannels at = pair_channels(rule, inv_freq.size(), i);
    const std::complex<long double> z(static_cast<long double>(x.at(at.first)),
                                      static_cast<long double>(x.at(at.second)));
    const std::complex<long double> turned =
        z * std::polar(static_cast<long double>(rule.attention_factor),
                       static_cast<long double>(position) * inv_freq[i]);
    y[at.first] = static_cast<double>(turned.real());
    y[at.second] = static_cast<double>(turned.imag());
  }
  return y;
}

}  // namespace reference
