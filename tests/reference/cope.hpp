// SPDX-License-Identifier: MIT
#pragma once

#include "matrix.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace reference {

/// Returns the positions that CoPE (arXiv 2405.18719) gives to the keys up to the query's own: the
/// sum of the sigmoids of the scaled scores from the key to the end, at most positions - 1.
inline std::vector<double> cope_positions(const std::vector<double>& scores,
                                          std::int64_t positions) {
  std::vector<double> result(scores.size());
  long double sum = 0;
  for (std::size_t j = scores.size(); j-- > 0;) {
    sum += 1 / (1 + std::exp(-static_cast<long double>(scores[j])));
    const auto last = static_cast<long double>(positions - 1);
    result[j] = static_cast<double>(sum < last ? sum : last);
  }
  return result;
}

/// Returns the bias after the scale: q . e, interpolated between the two rows of the table next to
/// each key's position, for one query and its scaled scores with the keys up to its own.
inline std::vector<double> cope_row(const std::vector<double>& q, const Matrix& table,
                                    const std::vector<double>& scores) {
  if (static_cast<std::int64_t>(q.size()) != table.cols) {
    throw std::invalid_argument("cope_row: the table has another width");
  }
  const auto product = [&](double row) {
    long double sum = 0;
    for (std::size_t c = 0; c < q.size(); ++c) {
      sum += static_cast<long double>(q[c]) *
             static_cast<long double>(
                 table(static_cast<std::int64_t>(row), static_cast<std::int64_t>(c)));
    }
    return sum;
  };
  std::vector<double> part;
  for (const double position : cope_positions(scores, table.rows)) {
    const long double low = product(std::floor(position)), high = product(std::ceil(position));
    const auto weight = static_cast<long double>(position - std::floor(position));
    part.push_back(static_cast<double>((1 - weight) * low + weight * high));
  }
  return part;
}

}  // namespace reference
