// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/additive/resize_weights.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/mul_add.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <vector>

POSENC_STABLE_BEGIN

/// Extents of a grid of cells. A grid of one row is a 1-D table.
struct GridShape {
  Index rows = 0;  ///< number of rows of cells
  Index cols = 0;  ///< number of columns of cells
};

/// Settings of resize_grid().
struct GridResizeConfig {
  GridShape source = {};                            ///< required
  GridShape target = {};                            ///< required
  ResizeFilter filter = ResizeFilter::Unspecified;  ///< required
  /// Source points of the target cells.
  ResizeCoordinates coordinates = ResizeCoordinates::HalfPixel;
  bool antialias = false;   ///< widen the filter if a grid shrinks, as timm does; HalfPixel only
  Index prefix_tokens = 0;  ///< rows before the grid (class, registers) that are copied
  /// Rows after the grid (BEiT's rows for its class token) that are copied.
  Index suffix_tokens = 0;
  /// Target rows per source row. If given, it replaces target / source in the coordinates, and
  /// target.rows must be floor(source.rows * row_scale). DINO passes
  /// (target.rows + 0.1) / source.rows. HalfPixel only.
  std::optional<double> row_scale = std::nullopt;
  /// Target columns per source column, with the rules of row_scale.
  std::optional<double> col_scale = std::nullopt;
};

static_assert(std::is_trivially_copyable_v<GridShape>);
static_assert(std::is_trivially_copyable_v<GridResizeConfig>);

POSENC_STABLE_END

POSENC_BEGIN

namespace detail {

/// A resize whose settings are checked.
struct GridResize {
  Index prefix, suffix;
  GridShape source, target;
  ResizeAxis rows, cols;
};

inline const char* name_of(ResizeCoordinates coordinates) noexcept {
  return coordinates == ResizeCoordinates::Geometric ? "Geometric" : "AlignCorners";
}

inline ResizeAxis checked_resize_axis(const char* function, const char* axis_name, Index source,
                                      Index target, std::optional<double> scale,
                                      const GridResizeConfig& config) {
  if (source < 1 || target < 1) {
    fail<ConfigError>(function, axis_name,
                      " of source and target must be set and positive but are ", source, " and ",
                      target);
  }
  double step = static_cast<double>(source) / static_cast<double>(target);
  if (scale) {
    if (config.coordinates != ResizeCoordinates::HalfPixel) {
      fail<ConfigError>(function, name_of(config.coordinates),
                        " does not use a scale, but the scale of the ", axis_name, " is ", *scale);
    }
    if (!(std::floor(static_cast<double>(source) * *scale) == static_cast<double>(target))) {
      fail<ConfigError>(function, "a scale of ", *scale, " must resize ", source, " ", axis_name,
                        " to ", target, ", not to ",
                        std::floor(static_cast<double>(source) * *scale));
    }
    step = 1 / *scale;
  }
  if (config.coordinates == ResizeCoordinates::Geometric && (source % 2 == 0 || target % 2 == 0)) {
    fail<ConfigError>(function, "Geometric needs a middle cell, so ", axis_name, " of source and ",
                      "target must be odd but are ", source, " and ", target);
  }
  return {.source = source,
          .target = target,
          .filter = config.filter,
          .coordinates = config.coordinates,
          .antialias = config.antialias,
          .step = step};
}

template <class T>
void check_grid_table(const char* function, const char* table_name, const MatrixView<T>& table,
                      Index extra_rows, GridShape grid) {
  check_extents(function, table_name, table);
  const auto cells = checked_mul({grid.rows, grid.cols});
  if (!cells || checked_add(extra_rows, *cells) != table.rows) {
    fail<ShapeError>(function, table_name, " must have ", extra_rows, " + ", grid.rows, " * ",
                     grid.cols, " rows but is ", table.extents());
  }
}

/// Checks the settings of a resize and the shapes of both tables. Messages use the given names of
/// the tables.
template <class Source, class Target>
GridResize checked_grid_resize(const char* function, const GridResizeConfig& config,
                               const char* source_name, const MatrixView<Source>& source_table,
                               const char* target_name, const MatrixView<Target>& target_table) {
  if (config.filter != ResizeFilter::Bilinear && config.filter != ResizeFilter::Bicubic) {
    fail<ConfigError>(function, "filter must be set to Bilinear or Bicubic");
  }
  if (config.antialias && config.coordinates != ResizeCoordinates::HalfPixel) {
    fail<ConfigError>(function, "antialias requires HalfPixel, not ", name_of(config.coordinates));
  }
  const bool geometric = config.coordinates == ResizeCoordinates::Geometric;
  if (geometric && config.filter != ResizeFilter::Bilinear) {
    fail<ConfigError>(function, "Geometric requires Bilinear, not Bicubic");
  }
  if (config.prefix_tokens < 0) {
    fail<ConfigError>(function, "prefix_tokens must not be negative but is ", config.prefix_tokens);
  }
  if (config.suffix_tokens < 0) {
    fail<ConfigError>(function, "suffix_tokens must not be negative but is ", config.suffix_tokens);
  }
  const auto extra_rows = checked_add(config.prefix_tokens, config.suffix_tokens);
  if (!extra_rows) {
    fail<ConfigError>(function, "prefix_tokens (", config.prefix_tokens, ") and suffix_tokens (",
                      config.suffix_tokens, ") exceed 2^63 - 1 together");
  }
  const GridShape source = config.source, target = config.target;
  ResizeAxis rows =
      checked_resize_axis(function, "rows", source.rows, target.rows, config.row_scale, config);
  ResizeAxis cols =
      checked_resize_axis(function, "cols", source.cols, target.cols, config.col_scale, config);
  // In timm a grid that keeps its size is copied. An axis that keeps its size is resampled if the
  // other axis changes.
  if (geometric && source.rows == target.rows && source.cols == target.cols) {
    rows.coordinates = cols.coordinates = ResizeCoordinates::AlignCorners;
  }
  check_grid_table(function, source_name, source_table, *extra_rows, source);
  check_grid_table(function, target_name, target_table, *extra_rows, target);
  return {.prefix = config.prefix_tokens,
          .suffix = config.suffix_tokens,
          .source = source,
          .target = target,
          .rows = rows,
          .cols = cols};
}

/// Checks the two tables of a resize against each other; `in` is read and `out` is written.
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
  check_overlap(function, in, out);
}

template <class T>
void copy_prefix_and_suffix(const MatrixView<const T>& in, const MatrixView<T>& out,
                            const GridResize& resize) noexcept {
  for (Index r = 0; r < resize.prefix; ++r) std::copy_n(in.row(r), in.cols, out.row(r));
  for (Index r = 1; r <= resize.suffix; ++r) {
    std::copy_n(in.row(in.rows - r), in.cols, out.row(out.rows - r));
  }
}

/// Adds weight * in[i] to sum[i] for i < count.
template <class T>
void accumulate_weighted(double weight, const T* in, double* sum, Index count) noexcept {
  for (Index i = 0; i < count; ++i) sum[i] = mul_add(weight, static_cast<double>(in[i]), sum[i]);
}

/// Returns the bytes of both tables per column.
template <class T>
double bytes_per_column(const GridResize& resize) noexcept {
  return (static_cast<double>(resize.source.rows) * static_cast<double>(resize.source.cols) +
          static_cast<double>(resize.target.rows) * static_cast<double>(resize.target.cols)) *
         sizeof(T);
}

/// Rounds sums to a row of a table; 16-bit types are rounded to float first.
template <detail::Writable T>
void store_sums(const double* sum, T* out, Index count) noexcept {
  for (Index i = 0; i < count; ++i) out[i] = static_cast<T>(static_cast<Compute<T>>(sum[i]));
}

}  // namespace detail

/// Resizes the grid of a learned position table (ViT): out = W table, W a fixed sparse matrix.
///
/// Computes what torch.nn.functional.interpolate computes for the grid, and copies the prefix and
/// suffix rows. Cells are in row-major order. The grid need not be square. A 1-D table of n rows is
/// the grid {.rows = 1, .cols = n}; Bilinear is then torch's "linear".
///
/// A table of relative positions (WindowBias) of a window of h by w is a grid of 2 h - 1 by 2 w -
/// 1. timm has three functions to resize it, with three results:
///   resize_rel_pos_bias_table (Swin, BEiT)  Bilinear and Geometric, except that timm rounds
///                                           distances to float; BEiT's own code has a cubic
///                                           spline instead, which posenc does not have
///   resize_rel_pos_bias_table_simple        Bicubic
///   resize_rel_pos_bias_table_levit         Bicubic with antialias
///   Shapes:   table [prefix + source.rows * source.cols + suffix, D], out [prefix + target.rows *
///             target.cols + suffix, D]
///   Types:    float, double, half, bfloat16; sums in double, rounded once (16-bit: through float)
///   Aliasing: table and out share no memory
///   Throws:   ConfigError, ShapeError. Nothing is written then
///   Accuracy: sums within 1e-14 of the largest input; torch's float results are off by some 3e-6.
///             Geometric: in addition, weights come from distances that are summed up in double
///   Device:   the threads of the device share the channels; results are bit-identical
///   Cost:     4 products per axis and value (antialiased: 4 times the shrinking), rows first;
///             scratch of (source.cols + 1) * D doubles
///   Source:   torch's interpolate; timm's layers/pos_embed_rel.py at aa4b585
template <detail::Writable T, Device D = detail::CallingThread>
void resize_grid(MatrixView<const std::type_identity_t<T>> table, MatrixView<T> out,
                 const GridResizeConfig& config, const D& device = {}) {
  constexpr auto function = "resize_grid";
  const detail::GridResize resize =
      detail::checked_grid_resize(function, config, "table", table, "out", out);
  detail::check_grid_tables<T>(function, table, out);
  if (out.empty()) return;  // before weights of so many cells are allocated

  const detail::ResizeWeights row_weights(resize.rows), col_weights(resize.cols);
  const Index source_cols = resize.source.cols;
  std::vector<double> memory(static_cast<std::size_t>((source_cols + 1) * table.cols));
  detail::copy_prefix_and_suffix<T>(table, out, resize);
  const auto resize_columns = [&](Index column, Index dim) {
    const MatrixView<double> line{memory.data() + column, source_cols, dim, table.cols};
    double* const cell = line.row(source_cols);
    for (Index r = 0; r < resize.target.rows; ++r) {
      for (Index x = 0; x < source_cols; ++x) std::fill_n(line.row(x), dim, 0.0);
      const detail::ResizeTaps row = row_weights[r];
      for (std::size_t t = 0; t < row.weights.size(); ++t) {
        const Index y = resize.prefix + (row.first + static_cast<Index>(t)) * source_cols;
        for (Index x = 0; x < source_cols; ++x) {
          detail::accumulate_weighted(row.weights[t], table.row(y + x) + column, line.row(x), dim);
        }
      }
      for (Index c = 0; c < resize.target.cols; ++c) {
        std::fill_n(cell, dim, 0.0);
        const detail::ResizeTaps col = col_weights[c];
        for (std::size_t t = 0; t < col.weights.size(); ++t) {
          detail::accumulate_weighted(col.weights[t], line.row(col.first + static_cast<Index>(t)),
                                      cell, dim);
        }
        detail::store_sums(cell, out.row(resize.prefix + r * resize.target.cols + c) + column, dim);
      }
    }
  };
  const double bytes = detail::bytes_per_column<T>(resize);
  detail::parallel_for_columns(device, table.cols, bytes, bytes, resize_columns);
}

/// Computes the transpose of resize_grid(), its backward pass: grad_table = W^T grad_out. It
/// overwrites grad_table; the caller adds it to an earlier gradient. Types, aliasing and errors are
/// those of resize_grid().
///   Shapes: those of resize_grid(), with grad_out for out and grad_table for table
///   Cost:   that of resize_grid(), with scratch of source.rows * source.cols * D doubles and one
///           more row
template <detail::Writable T, Device D = detail::CallingThread>
void resize_grid_adjoint(MatrixView<const std::type_identity_t<T>> grad_out,
                         MatrixView<T> grad_table, const GridResizeConfig& config,
                         const D& device = {}) {
  constexpr auto function = "resize_grid_adjoint";
  const detail::GridResize resize =
      detail::checked_grid_resize(function, config, "grad_table", grad_table, "grad_out", grad_out);
  detail::check_grid_tables<T>(function, grad_out, grad_table);
  if (grad_table.empty()) return;

  const detail::ResizeWeights row_weights(resize.rows), col_weights(resize.cols);
  const Index source_cols = resize.source.cols, cells = resize.source.rows * source_cols;
  std::vector<double> memory(static_cast<std::size_t>((cells + source_cols) * grad_out.cols));
  detail::copy_prefix_and_suffix<T>(grad_out, grad_table, resize);
  const auto sum_columns = [&](Index column, Index dim) {
    const MatrixView<double> sums{memory.data() + column, cells, dim, grad_out.cols};
    const MatrixView<double> line{sums.row(cells), source_cols, dim, grad_out.cols};
    for (Index r = 0; r < resize.target.rows; ++r) {
      for (Index x = 0; x < source_cols; ++x) std::fill_n(line.row(x), dim, 0.0);
      for (Index c = 0; c < resize.target.cols; ++c) {
        const detail::ResizeTaps col = col_weights[c];
        const Index cell = resize.prefix + r * resize.target.cols + c;
        for (std::size_t t = 0; t < col.weights.size(); ++t) {
          detail::accumulate_weighted(col.weights[t], grad_out.row(cell) + column,
                                      line.row(col.first + static_cast<Index>(t)), dim);
        }
      }
      const detail::ResizeTaps row = row_weights[r];
      for (std::size_t t = 0; t < row.weights.size(); ++t) {
        const Index y = (row.first + static_cast<Index>(t)) * source_cols;
        for (Index x = 0; x < source_cols; ++x) {
          detail::accumulate_weighted(row.weights[t], line.row(x), sums.row(y + x), dim);
        }
      }
    }
    for (Index cell = 0; cell < cells; ++cell) {
      detail::store_sums(sums.row(cell), grad_table.row(resize.prefix + cell) + column, dim);
    }
  };
  const double bytes = detail::bytes_per_column<T>(resize);
  detail::parallel_for_columns(device, grad_out.cols, bytes, bytes, sum_columns);
}

POSENC_END
