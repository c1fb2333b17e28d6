// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace reference {

/// Returns the slope of each head, arXiv 2108.12409 and its code.
///
/// N is the largest power of two up to the number of heads. The first N heads get 2^(-B (h+1) / N).
/// The rest get the 1st, 3rd, 5th, ... slope of 2N heads, so slopes are not sorted.
inline std::vector<double> alibi_slopes(std::int64_t heads, double max_bias = 8.0) {
  if (heads <= 0) throw std::invalid_argument("alibi_slopes: no heads");
  const long double b = static_cast<long double>(max_bias);
  std::int64_t n = 1;
  while (2 * n <= heads) n *= 2;
  std::vector<double> slopes;
  for (std::int64_t h = 0; h < n; ++h) {
    slopes.push_back(static_cast<double>(
        std::exp2(-b * static_cast<long double>(h + 1) / static_cast<long double>(n))));
  }
  for (std::int64_t t = 0; n + t < heads; ++t) {
    slopes.push_back(static_cast<double>(
        std::exp2(-b * static_cast<long double>(2 * t + 1) / static_cast<long double>(2 * n))));
  }
  return slopes;
}

enum class AlibiForm {
  Causal,     ///< -m (i - j): favours future keys, so use a causal mask.
  Symmetric,  ///< -m |i - j|.
};

/// Returns the bias of one query and key at absolute positions i and j.
inline double alibi_bias(double slope, double query_position, double key_position, AlibiForm form) {
  const double distance = query_position - key_position;
  return -slope * (form == AlibiForm::Symmetric ? std::abs(distance) : distance);
}

}  // namespace reference
