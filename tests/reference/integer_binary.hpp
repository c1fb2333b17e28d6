// SPDX-License-Identifier: MIT
#pragma once

#include "matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

namespace reference {

/// Returns the position itself, divided by max_len if given, in one channel or (without a channel)
/// in all.
inline Matrix integer_encoding(const std::vector<std::int64_t>& positions, std::int64_t width,
                               std::optional<std::int64_t> max_len = std::nullopt,
                               std::optional<std::int64_t> only_channel = std::nullopt) {
  Matrix table(static_cast<std::int64_t>(positions.size()), width);
  for (std::int64_t t = 0; t < table.rows; ++t) {
    double value = static_cast<double>(positions[static_cast<std::size_t>(t)]);
    if (max_len) value /= static_cast<double>(*max_len);
    for (std::int64_t c = 0; c < width; ++c) {
      if (!only_channel || *only_channel == c) table(t, c) = value;
    }
  }
  return table;
}

/// Returns bits of the position: channel k is bit k, lowest bit first, as zero or one.
///
/// Throws std::out_of_range for a negative position, or one that needs more bits than the width.
inline Matrix binary_encoding(const std::vector<std::int64_t>& positions, std::int64_t width,
                              double zero = 0.0, double one = 1.0) {
  Matrix table(static_cast<std::int64_t>(positions.size()), width);
  for (std::int64_t t = 0; t < table.rows; ++t) {
    std::int64_t rest = positions[static_cast<std::size_t>(t)];
    if (rest < 0) throw std::out_of_range("binary_encoding: negative position");
    for (std::int64_t k = 0; k < width; ++k) {
      table(t, k) = rest % 2 == 1 ? one : zero;
      rest /= 2;
    }
    if (rest != 0) throw std::out_of_range("binary_encoding: the position needs more bits");
  }
  return table;
}

}  // namespace reference
