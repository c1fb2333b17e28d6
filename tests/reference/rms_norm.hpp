// SPDX-License-Identifier: MIT
#pragma once

#include "matrix.hpp"

#include <cmath>
#include <cstddef>
#include <vector>

namespace reference {

/// RMS norm of one vector: y_i = factor_i x_i / sqrt(mean of squares + epsilon).
inline std::vector<double> rms_norm(const std::vector<double>& x, const std::vector<double>& factor,
                                    double epsilon) {
  long double sum = 0;
  for (const double value : x) {
    const auto number = static_cast<long double>(value);
    sum += number * number;
  }
  const long double mean = sum / static_cast<long double>(x.size());
  const long double root = std::sqrt(mean + static_cast<long double>(epsilon));
  std::vector<double> y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto scaled = static_cast<long double>(factor[i]) * static_cast<long double>(x[i]);
    y.push_back(static_cast<double>(scaled / root));
  }
  return y;
}

/// RMS norm of each block of factor.size() columns of each row: one head, or all of them.
inline Matrix rms_norm(const Matrix& x, const std::vector<double>& factor, double epsilon) {
  Matrix y = x;
  const auto size = static_cast<std::int64_t>(factor.size());
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (std::int64_t first = 0; first < x.cols; first += size) {
      std::vector<double> block;
      for (std::int64_t i = 0; i < size; ++i) block.push_back(x(t, first + i));
      const auto normalised = rms_norm(block, factor, epsilon);
      for (std::int64_t i = 0; i < size; ++i) {
        y(t, first + i) = normalised[static_cast<std::size_t>(i)];
      }
    }
  }
  return y;
}

}  // namespace reference
