// SPDX-License-Identifier: MIT
#pragma once

#include "matrix.hpp"

#include <cmath>
#include <cstdint>
#include <stdexcept>

namespace reference {

enum class SinusoidalLayout {
  Interleaved,               ///< sin, cos, sin, cos, ... with f_i = base^(-2i/D), arXiv 1706.03762.
  Concatenated,              ///< D/2 sines, then D/2 cosines, with f_i = base^(-i/(D/2)).
  ConcatenatedEndInclusive,  ///< As above with f_i = base^(-i/(D/2-1)), so the last is 1/base.
};

/// Returns one channel of the 1-D encoding of width D at a real position.
///
/// For odd D, Interleaved omits the last cosine. The concatenated layouts have D/2 rounded down
/// sines and cosines, then a zero channel. End-inclusive with one frequency (D = 2 or 3): that
/// frequency is 1.
inline double sinusoidal_channel(SinusoidalLayout layout, std::int64_t width, std::int64_t channel,
                                 double position, double base) {
  const long double b = static_cast<long double>(base);
  const long double p = static_cast<long double>(position);

  if (layout == SinusoidalLayout::Interleaved) {
    const std::int64_t i = channel / 2;
    const long double angle =
        p * std::pow(b, -2.0L * static_cast<long double>(i) / static_cast<long double>(width));
    return static_cast<double>(channel % 2 == 0 ? std::sin(angle) : std::cos(angle));
  }

  const std::int64_t half = width / 2;
  if (channel == 2 * half) return 0.0;
  const std::int64_t i = channel % half;
  const std::int64_t steps = layout == SinusoidalLayout::Concatenated ? half : half - 1;
  const long double exponent =
      steps == 0 ? 0.0L : -static_cast<long double>(i) / static_cast<long double>(steps);
  const long double angle = p * std::pow(b, exponent);
  return static_cast<double>(channel < half ? std::sin(angle) : std::cos(angle));
}

/// Returns the rows start, start + 1, ... of scale * PE: [rows, width].
inline Matrix sinusoidal_table(SinusoidalLayout layout, std::int64_t width, std::int64_t rows,
                               double start = 0.0, double base = 10000.0, double scale = 1.0) {
  Matrix table(rows, width);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < width; ++c) {
      table(r, c) =
          scale * sinusoidal_channel(layout, width, c, start + static_cast<double>(r), base);
    }
  }
  return table;
}

/// Coordinate that the first half of the channels encodes. MAE: the column.
enum class GridAxisOrder { ColumnFirst, RowFirst };

/// Returns the 2-D encoding of a grid, flattened row by row: [prefix + grid_rows * grid_cols,
/// width].
///
/// Each axis has width / 2 channels in the given 1-D layout. Prefix rows are zero.
inline Matrix sinusoidal_grid(SinusoidalLayout layout, GridAxisOrder order, std::int64_t width,
                              std::int64_t grid_rows, std::int64_t grid_cols, double base = 10000.0,
                              double scale = 1.0, std::int64_t prefix = 0) {
  if (width % 2 != 0) throw std::invalid_argument("sinusoidal_grid: odd width");
  const std::int64_t half = width / 2;
  Matrix table(prefix + grid_rows * grid_cols, width);
  for (std::int64_t y = 0; y < grid_rows; ++y) {
    for (std::int64_t x = 0; x < grid_cols; ++x) {
      const double first = static_cast<double>(order == GridAxisOrder::ColumnFirst ? x : y);
      const double second = static_cast<double>(order == GridAxisOrder::ColumnFirst ? y : x);
      const std::int64_t row = prefix + y * grid_cols + x;
      for (std::int64_t c = 0; c < half; ++c) {
        table(row, c) = scale * sinusoidal_channel(layout, half, c, first, base);
        table(row, half + c) = scale * sinusoidal_channel(layout, half, c, second, base);
      }
    }
  }
  return table;
}

}  // namespace reference
