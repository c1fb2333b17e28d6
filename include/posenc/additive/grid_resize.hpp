// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/additive/resize_weights.hpp>
#include <posenc/core/double_double.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <vector>

POSENC_STABLE_BEGIN

/// Extents of a grid of cells; a grid of one row is a 1-D table.
struct GridShape {
  Index rows = 0;
  Index cols = 0;
};

/// Settings of resize_grid.
struct GridResizeConfig {
  GridShape source = {};                            ///< required
  GridShape target = {};                            ///< required
  ResizeFilter filter = ResizeFilter::Unspecified;  ///< required
  ResizeCoordinates coordinates = ResizeCoordinates::HalfPixel;
  bool antialias = false;   ///< widen the kernel when a grid shrinks, as timm does; HalfPixel only
  Index prefix_tokens = 0;  ///< rows before the grid (class, registers) that are copied
  /// Target cells per source cell, used for the coordinates in place of target / source; the target
  /// must then be floor(source * scale). DINO passes (target + 0.1) / source. HalfPixel only.
  std::optional<double> row_scale = std::nullopt;
  std::optional<double> col_scale = std::nullopt;
};

POSENC_STABLE_END

POSENC_BEGIN

namespace detail {

/// A checked resize: one set of weights an axis.
struct GridResize {
  Index prefix;
  GridShape source, target;
  ResizeWeights rows, cols;
};

inline ResizeAxis resize_axis(const char* function, const char* axis_name, Index source,
                              Index target, std::optional<double> scale,
                              const GridResizeConfig& config) {
  if (source < 1 || target < 1) {
    fail<ConfigError>(function, axis_name,
                      " of source and target must be given and positive but are ", source, " and ",
                      target);
  }
  double step = static_cast<double>(source) / static_cast<double>(target);
  if (scale) {
    if (config.coordinates == ResizeCoordinates::AlignCorners) {
      fail<ConfigError>(function, "AlignCorners takes no scale, but that of the ", axis_name,
                        " is ", *scale);
    }
    if (!(std::floor(static_cast<double>(source) * *scale) == static_cast<double>(target))) {
      fail<ConfigError>(function, "a scale of ", *scale, " does not turn ", source, " ", axis_name,
                        " into ", target, " but into ",
                        std::floor(static_cast<double>(source) * *scale));
    }
    step = 1 / *scale;
  }
  return {source, target, config.filter, config.coordinates, config.antialias, step};
}

inline GridResize make_grid_resize(const char* function, const GridResizeConfig& config) {
  if (config.filter != ResizeFilter::Bilinear && config.filter != ResizeFilter::Bicubic) {
    fail<ConfigError>(function, "filter must be given as Bilinear or Bicubic");
  }
  if (config.antialias && config.coordinates == ResizeCoordinates::AlignCorners) {
    fail<ConfigError>(function, "antialias goes with HalfPixel, not with AlignCorners");
  }
  if (config.prefix_tokens < 0) {
    fail<ConfigError>(function, "prefix_tokens must not be negative but is ", config.prefix_tokens);
  }
  const GridShape source = config.source, target = config.target;
  return {config.prefix_tokens, source, target,
          ResizeWeights(
              resize_axis(function, "rows", source.rows, target.rows, config.row_scale, config)),
          ResizeWeights(
              resize_axis(function, "cols", source.cols, target.cols, config.col_scale, config))};
}

template <class T>
void check_grid_table(const char* function, const char* table_name, const MatrixView<T>& table,
                      Index prefix, GridShape grid) {
  if (table.rows != prefix + grid.rows * grid.cols) {
    fail<ShapeError>(function, table_name, " must have ", prefix, " + ", grid.rows, " * ",
                     grid.cols, " rows but is ", table.extents());
  }
}

/// Checks the two tables of a resize against each other; `in` is read and `out` written.
template <class T>
void check_grid_tables(const char* function, const MatrixView<const T>& in,
                       const MatrixView<T>& out) {
  if (in.cols != out.cols) {
    fail<ShapeError>(function, "both tables must have the same width but are ", in.extents(),
                     " and ", out.extents());
  }
  if (in.data == out.data && !in.empty()) {
    fail<ShapeError>(function, "the tables must not share memory; they are ", in.extents(), " and ",
                     out.extents());
  }
  check_output(function, "the table that is written", out);
  check_overlap<T>(function, in, out);
}

template <class T>
void copy_prefix(const MatrixView<const T>& in, const MatrixView<T>& out, Index prefix) noexcept {
  for (Index r = 0; r < prefix; ++r) std::copy_n(in.row(r), in.cols, out.row(r));
}

/// sum[0 .. count) += weight * in[0 .. count).
template <class T>
void accumulate_weighted(double weight, const T* in, double* sum, Index count) noexcept {
  for (Index i = 0; i < count; ++i) sum[i] = mul_add(weight, static_cast<double>(in[i]), sum[i]);
}

/// Rounds sums to a row of a table: 16-bit types by way of float.
template <Scalar T>
void store_sums(const double* sum, T* out, Index count) noexcept {
  for (Index i = 0; i < count; ++i) out[i] = static_cast<T>(static_cast<Compute<T>>(sum[i]));
}

}  // namespace detail

/// Resizes the grid of a learned position table (ViT): out = W table, W a fixed sparse matrix.
///
/// Gives what torch.nn.functional.interpolate gives for the grid, and keeps the prefix rows. Cells
/// are flattened row by row. A 1-D table of n rows is the grid {.rows = 1, .cols = n}, and Bilinear
/// then torch's "linear". The grid need not be square.
///   Shapes:   table [prefix + source.rows * source.cols, D], out [prefix + target.rows *
///             target.cols, D]
///   Types:    float, double, half, bfloat16; sums in double, rounded once (16-bit: through float)
///   Aliasing: table and out share no memory
///   Throws:   ConfigError, ShapeError; nothing is written then.
///   Accuracy: sums within 1e-14 of the largest input; torch's float results are off by some 3e-6
///   Cost:     4 products an axis and value (antialiased: 4 times the shrinking), rows first;
///             scratch of source.cols * D doubles
template <detail::Written T>
void resize_grid(MatrixView<const std::type_identity_t<T>> table, MatrixView<T> out,
                 const GridResizeConfig& config) {
  constexpr auto function = "resize_grid";
  const detail::GridResize resize = detail::make_grid_resize(function, config);
  detail::check_grid_table(function, "table", table, resize.prefix, resize.source);
  detail::check_grid_table(function, "out", out, resize.prefix, resize.target);
  detail::check_grid_tables<T>(function, table, out);

  const Index dim = table.cols, source_cols = resize.source.cols;
  std::vector<double> line(static_cast<std::size_t>(source_cols * dim));
  std::vector<double> cell(static_cast<std::size_t>(dim));
  detail::copy_prefix<T>(table, out, resize.prefix);
  for (Index r = 0; r < resize.target.rows; ++r) {
    std::fill(line.begin(), line.end(), 0.0);
    const detail::ResizeTaps row = resize.rows[r];
    for (std::size_t t = 0; t < row.weights.size(); ++t) {
      const Index y = row.first + static_cast<Index>(t);
      for (Index x = 0; x < source_cols; ++x) {
        detail::accumulate_weighted(row.weights[t], table.row(resize.prefix + y * source_cols + x),
                                    line.data() + x * dim, dim);
      }
    }
    for (Index c = 0; c < resize.target.cols; ++c) {
      std::fill(cell.begin(), cell.end(), 0.0);
      const detail::ResizeTaps col = resize.cols[c];
      for (std::size_t t = 0; t < col.weights.size(); ++t) {
        detail::accumulate_weighted(col.weights[t],
                                    line.data() + (col.first + static_cast<Index>(t)) * dim,
                                    cell.data(), dim);
      }
      detail::store_sums(cell.data(), out.row(resize.prefix + r * resize.target.cols + c), dim);
    }
  }
}

/// The transpose of resize_grid, its backward pass: grad_table = W^T grad_out. It overwrites
/// grad_table; add it to an earlier gradient yourself.
///   Shapes, Types, Aliasing, Throws: as resize_grid, with grad_out in out's place and grad_table
///   in
///             table's
///   Cost:     as resize_grid; scratch of source.rows * source.cols * D doubles
template <detail::Written T>
void resize_grid_adjoint(MatrixView<const std::type_identity_t<T>> grad_out,
                         MatrixView<T> grad_table, const GridResizeConfig& config) {
  constexpr auto function = "resize_grid_adjoint";
  const detail::GridResize resize = detail::make_grid_resize(function, config);
  detail::check_grid_table(function, "grad_out", grad_out, resize.prefix, resize.target);
  detail::check_grid_table(function, "grad_table", grad_table, resize.prefix, resize.source);
  detail::check_grid_tables<T>(function, grad_out, grad_table);

  const Index dim = grad_out.cols, source_cols = resize.source.cols;
  const Index cells = resize.source.rows * source_cols;
  std::vector<double> sums(static_cast<std::size_t>(cells * dim));
  std::vector<double> line(static_cast<std::size_t>(source_cols * dim));
  for (Index r = 0; r < resize.target.rows; ++r) {
    std::fill(line.begin(), line.end(), 0.0);
    for (Index c = 0; c < resize.target.cols; ++c) {
      const detail::ResizeTaps col = resize.cols[c];
      for (std::size_t t = 0; t < col.weights.size(); ++t) {
        detail::accumulate_weighted(col.weights[t],
                                    grad_out.row(resize.prefix + r * resize.target.cols + c),
                                    line.data() + (col.first + static_cast<Index>(t)) * dim, dim);
      }
    }
    const detail::ResizeTaps row = resize.rows[r];
    for (std::size_t t = 0; t < row.weights.size(); ++t) {
      const Index y = row.first + static_cast<Index>(t);
      detail::accumulate_weighted(row.weights[t], line.data(), sums.data() + y * source_cols * dim,
                                  source_cols * dim);
    }
  }
  detail::copy_prefix<T>(grad_out, grad_table, resize.prefix);
  for (Index cell = 0; cell < cells; ++cell) {
    detail::store_sums(sums.data() + cell * dim, grad_table.row(resize.prefix + cell), dim);
  }
}

POSENC_END
