// SPDX-License-Identifier: MIT
#include "float32_loss.hpp"

#include <algorithm>
#include <cmath>

namespace inspect {

namespace {

/// True if cos or sin of the float product has an error of more than `loss`.
bool is_lossy(double position, double inv_freq, double loss) {
  const float product = static_cast<float>(position) * static_cast<float>(inv_freq);
  const double angle = static_cast<double>(product);
  const double excess = std::fma(-position, inv_freq, angle);
  if (std::abs(excess) <= loss) return false;  // cos and sin differ by less than their angles
  return std::abs(std::cos(angle) - std::cos(angle - excess)) > loss ||
         std::abs(std::sin(angle) - std::sin(angle - excess)) > loss;
}

}  // namespace

std::optional<posenc::Index> first_lossy_position(const posenc::Frequencies& frequencies,
                                                  double loss) {
  constexpr double end = 16777216;  // 2^24
  // Frequency and product are each rounded by 2^-24 of the angle, so smaller angles have smaller
  // errors.
  const double smallest_angle = loss * 8388608;
  double first = end;
  for (const double w : frequencies.inv_freq()) {
    const double w_size = std::abs(w);
    if (w_size * end < smallest_angle) continue;
    for (double p = std::floor(smallest_angle / w_size); p < first; ++p) {
      if (is_lossy(p, w, loss)) first = p;
    }
  }
  if (first == end) return std::nullopt;
  return static_cast<posenc::Index>(first);
}

}  // namespace inspect
