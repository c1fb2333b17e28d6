// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/tensor/positions.hpp>

#include <type_traits>
#include <vector>

// Positions of image patches in the orders of vision models. Row-major order with axes (row,
// column) is Positions::grid.
POSENC_STABLE_BEGIN

/// The patch grid of an image or video. A later layer merges each block of merge x merge patches to
/// one token.
struct PatchGrid {
  Index frames = 1;  ///< frames of a video; 1 for an image
  Index rows = 0;    ///< required; a multiple of merge
  Index cols = 0;    ///< required; a multiple of merge
  Index merge = 1;   ///< patches per side of a merge block; 2 in Qwen2-VL
};

static_assert(std::is_trivially_copyable_v<PatchGrid>);

POSENC_STABLE_END

POSENC_BEGIN

namespace detail {

/// Returns the number of cells.
///   Throws: ShapeError for a negative extent, or more cells than Positions can hold
inline Index checked_cells(const char* function, ListView<Index> extents) {
  for (const Index extent : extents) {
    if (extent < 0) {
      fail<ShapeError>(function, "extents must not be negative but are ", extents);
    }
  }
  const auto cells = checked_mul(extents);
  if (!cells || *cells > (Index{1} << 53)) {
    fail<ShapeError>(function, "a grid of ", extents, " has too many cells");
  }
  return *cells;
}

/// Returns an empty vector with capacity for all cells. A grid that does not fit into memory fails
/// here, before any cell is written.
template <class T>
std::vector<T> vector_with_capacity(Index cells) {
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(cells));
  return values;
}

}  // namespace detail

/// Returns rows (axis 0) and columns (axis 1) of patches in the order of Qwen2-VL's vision tower.
/// Frames follow each other. Merge blocks of a frame and patches of a block are in row-major order.
///   Throws: ShapeError, also if merge does not divide rows and columns
inline Positions merge_block_grid(const PatchGrid& grid) {
  constexpr auto function = "merge_block_grid";
  const Index cells = detail::checked_cells(function, {grid.frames, grid.rows, grid.cols});
  if (grid.merge < 1 || grid.rows % grid.merge != 0 || grid.cols % grid.merge != 0) {
    detail::fail<ShapeError>(function, "merge (", grid.merge, ") must divide the ", grid.rows,
                             " rows and ", grid.cols, " columns");
  }
  auto rows = detail::vector_with_capacity<Index>(cells),
       cols = detail::vector_with_capacity<Index>(cells);
  for (Index frame = 0; cells != 0 && frame < grid.frames; ++frame) {
    for (Index block_row = 0; block_row < grid.rows; block_row += grid.merge) {
      for (Index block_col = 0; block_col < grid.cols; block_col += grid.merge) {
        for (Index i = 0; i < grid.merge * grid.merge; ++i) {
          rows.push_back(block_row + i / grid.merge);
          cols.push_back(block_col + i % grid.merge);
        }
      }
    }
  }
  return Positions::axes({Positions::ids(rows), Positions::ids(cols)})
      .with_kind(PositionKind::RowsColumns);
}

/// Returns columns (axis 0, x) and rows (axis 1, y) of a grid in row-major order, counted from 0,
/// as in RoPE-ViT.
///   Throws: ShapeError
inline Positions xy_grid(Index rows, Index cols) {
  const Index cells = detail::checked_cells("xy_grid", {rows, cols});
  auto x = detail::vector_with_capacity<Index>(cells),
       y = detail::vector_with_capacity<Index>(cells);
  for (Index cell = 0; cell < cells; ++cell) {
    x.push_back(cell % cols);
    y.push_back(cell / cols);
  }
  return Positions::axes({Positions::ids(x), Positions::ids(y)})
      .with_kind(PositionKind::ColumnsRows);
}

/// Returns a grid of any number of axes in row-major order, lucidrains' pixel coordinates. Cells
/// are evenly spaced from -1 to 1 on each axis, both ends included; a single cell is at -1.
/// offsets[i] is added to axis i.
///   Throws: ShapeError; PositionError for an offset that is not finite
inline Positions pixel_grid(ListView<Index> extents, ListView<double> offsets = {}) {
  constexpr auto function = "pixel_grid";
  const Index cells = detail::checked_cells(function, extents);
  if (extents.empty() || (!offsets.empty() && offsets.size() != extents.size())) {
    detail::fail<ShapeError>(function, "there must be one offset per axis, or none, and at least ",
                             "one axis, but there are ", offsets.size(), " for the axes ", extents);
  }
  Positions p(function, Positions::Form::Table, 1, cells, static_cast<Index>(extents.size()));
  p.kind_ = PositionKind::Pixels;
  Index inner = cells;
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    const Index extent = extents[axis];
    if (extent != 0) inner /= extent;
    const double offset = offsets.empty() ? 0 : offsets[axis];
    for (Index cell = 0; cell < cells; ++cell) {
      const auto at = static_cast<double>(cell / inner % extent);
      const double coordinate = extent == 1 ? -1 : 2 * at / static_cast<double>(extent - 1) - 1;
      p.push_finite(function, coordinate + offset);
    }
  }
  return p;
}

/// Returns positions with one more axis that is 0 everywhere, such as the fourth axis of ggml's
/// M-RoPE.
inline Positions with_zero_axis(const Positions& positions) {
  Positions p("with_zero_axis", Positions::Form::Table, positions.batch(), positions.count(),
              positions.axis_count() + 1);
  p.kind_ = positions.kind();
  for (Index axis = 0; axis <= positions.axis_count(); ++axis) {
    for (Index b = 0; positions.count() != 0 && b < positions.batch(); ++b) {
      for (Index s = 0; s < positions.count(); ++s) {
        p.push(axis < positions.axis_count() ? positions.at(b, s, axis) : 0.0);
      }
    }
  }
  return p;
}

POSENC_END
