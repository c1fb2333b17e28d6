// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace reference {

/// Returns ln(1 / (1 + e^-x)).
inline double log_sigmoid(double x) {
  const auto real = static_cast<long double>(x);
  return static_cast<double>((real < 0 ? real : 0.0L) - std::log1p(std::exp(-std::fabs(real))));
}

/// Returns forgetting attention's bias (FoX, arXiv 2503.02130), after the scale: the sum of the log
/// gates of the tokens j + 1 .. i of one sequence and query head. It is 0 for the query's own key,
/// and -inf, which masks, for later keys.
inline double forgetting_bias(const std::vector<double>& log_gates, std::int64_t i,
                              std::int64_t j) {
  if (j > i) return -std::numeric_limits<double>::infinity();
  long double sum = 0;
  for (std::int64_t t = j + 1; t <= i; ++t) {
    sum += static_cast<long double>(log_gates.at(static_cast<std::size_t>(t)));
  }
  return static_cast<double>(sum);
}

}  // namespace reference
