// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>

namespace reference {

/// KERPLE's bias, arXiv 2205.09921: conditionally positive definite kernels of the distance.
inline double kerple_bias(bool power, double r1, double r2, double query, double key) {
  const auto distance = static_cast<long double>(std::abs(query - key));
  const auto rate = static_cast<long double>(r2);
  const long double falls = power ? std::pow(distance, rate) : std::log1p(rate * distance);
  return static_cast<double>(static_cast<long double>(-r1) * falls);
}

}  // namespace reference
