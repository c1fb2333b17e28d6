// SPDX-License-Identifier: MIT
#pragma once

#include "matrix.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>

namespace reference {

enum class Interpolation { Bilinear, Bicubic };

struct GridSize {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

struct ResizeRule {
  Interpolation interpolation = Interpolation::Bicubic;
  bool align_corners = false;
  bool antialias = false;
  double row_scale = 0;  ///< Out per in, for coordinates; 0: the ratio of the sizes.
  double col_scale = 0;
};

/// Returns the size that explicit scale factors give, rounded down.
inline GridSize scaled_size(GridSize from, double row_scale, double col_scale) {
  return {static_cast<std::int64_t>(std::floor(static_cast<double>(from.rows) * row_scale)),
          static_cast<std::int64_t>(std::floor(static_cast<double>(from.cols) * col_scale))};
}

/// Returns the linear hat or Keys' cubic with parameter a, at distance x from the sample.
inline double resize_kernel(Interpolation interpolation, double a, double x) {
  x = std::abs(x);
  if (interpolation == Interpolation::Bilinear) return x < 1 ? 1 - x : 0;
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  if (x < 2) return a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a;
  return 0;
}

/// Returns the weights of one axis, [out, in]. Samples beyond the border are replaced by the border
/// sample.
inline Matrix axis_weights_clamped(Interpolation interpolation, std::int64_t in, std::int64_t out,
                                   double scale, bool align_corners) {
  const std::int64_t reach = interpolation == Interpolation::Bicubic ? 2 : 1;
  const double step = scale > 0 ? 1 / scale : static_cast<double>(in) / static_cast<double>(out);
  Matrix weights(out, in);
  for (std::int64_t o = 0; o < out; ++o) {
    double u = (static_cast<double>(o) + 0.5) * step - 0.5;
    if (align_corners) {
      u = out == 1 ? 0.0 : static_cast<double>(o * (in - 1)) / static_cast<double>(out - 1);
    }
    const std::int64_t left = static_cast<std::int64_t>(std::floor(u));
    for (std::int64_t tap = left - reach + 1; tap <= left + reach; ++tap) {
      weights(o, std::clamp<std::int64_t>(tap, 0, in - 1)) +=
          resize_kernel(interpolation, -0.75, u - static_cast<double>(tap));
    }
  }
  return weights;
}

/// Returns antialiased weights of one axis, [out, in]. The kernel (cubic: a = -0.5) is stretched by
/// the step if that is above 1. Only samples inside the grid count, scaled to sum to 1.
inline Matrix axis_weights_antialias(Interpolation interpolation, std::int64_t in, std::int64_t out,
                                     double scale) {
  const double step = scale > 0 ? 1 / scale : static_cast<double>(in) / static_cast<double>(out);
  const double stretch = std::max(step, 1.0);
  Matrix weights(out, in);
  for (std::int64_t o = 0; o < out; ++o) {
    const double centre = (static_cast<double>(o) + 0.5) * step - 0.5;
    double sum = 0;
    for (std::int64_t i = 0; i < in; ++i) {
      weights(o, i) =
          resize_kernel(interpolation, -0.5, (static_cast<double>(i) - centre) / stretch);
      sum += weights(o, i);
    }
    for (std::int64_t i = 0; i < in; ++i) weights(o, i) /= sum;
  }
  return weights;
}

inline Matrix axis_weights(const ResizeRule& rule, std::int64_t in, std::int64_t out,
                           double scale) {
  if (!rule.antialias) {
    return axis_weights_clamped(rule.interpolation, in, out, scale, rule.align_corners);
  }
  if (rule.align_corners) {
    throw std::invalid_argument("grid resize: antialias with align_corners is not defined here");
  }
  return axis_weights_antialias(rule.interpolation, in, out, scale);
}

/// Returns the resized table: prefix rows are copied, then out(r, c) = sum over (y, x) of wr(r, y)
/// wc(c, x) in(y, x).
///
/// Tables are [prefix + grid rows * grid cols, D], the grid flattened row by row. A 1-D linear
/// resize is Bilinear from {1, n} to {1, m}.
inline Matrix resize_grid(const Matrix& table, GridSize from, GridSize to, const ResizeRule& rule,
                          std::int64_t prefix = 0) {
  if (table.rows != prefix + from.rows * from.cols) {
    throw std::invalid_argument("resize_grid: the table does not hold the prefix and the grid");
  }
  const Matrix wr = axis_weights(rule, from.rows, to.rows, rule.row_scale);
  const Matrix wc = axis_weights(rule, from.cols, to.cols, rule.col_scale);
  Matrix resized(prefix + to.rows * to.cols, table.cols);
  for (std::int64_t row = 0; row < prefix; ++row) resized.set_row(row, table.row(row));
  for (std::int64_t r = 0; r < to.rows; ++r) {
    for (std::int64_t c = 0; c < to.cols; ++c) {
      for (std::int64_t y = 0; y < from.rows; ++y) {
        for (std::int64_t x = 0; x < from.cols; ++x) {
          const double weight = wr(r, y) * wc(c, x);
          if (weight == 0) continue;
          for (std::int64_t d = 0; d < table.cols; ++d) {
            resized(prefix + r * to.cols + c, d) += weight * table(prefix + y * from.cols + x, d);
          }
        }
      }
    }
  }
  return resized;
}

/// Returns the gradient of the table from that of the resized one, with the transposed weights.
inline Matrix resize_grid_adjoint(const Matrix& dy, GridSize from, GridSize to,
                                  const ResizeRule& rule, std::int64_t prefix = 0) {
  if (dy.rows != prefix + to.rows * to.cols) {
    throw std::invalid_argument("resize_grid_adjoint: dy does not hold the prefix and the grid");
  }
  const Matrix wr = axis_weights(rule, from.rows, to.rows, rule.row_scale);
  const Matrix wc = axis_weights(rule, from.cols, to.cols, rule.col_scale);
  Matrix gradient(prefix + from.rows * from.cols, dy.cols);
  for (std::int64_t row = 0; row < prefix; ++row) gradient.set_row(row, dy.row(row));
  for (std::int64_t r = 0; r < to.rows; ++r) {
    for (std::int64_t c = 0; c < to.cols; ++c) {
      for (std::int64_t y = 0; y < from.rows; ++y) {
        for (std::int64_t x = 0; x < from.cols; ++x) {
          const double weight = wr(r, y) * wc(c, x);
          if (weight == 0) continue;
          for (std::int64_t d = 0; d < dy.cols; ++d) {
            gradient(prefix + y * from.cols + x, d) += weight * dy(prefix + r * to.cols + c, d);
          }
        }
      }
    }
  }
  return gradient;
}

}  // namespace reference
