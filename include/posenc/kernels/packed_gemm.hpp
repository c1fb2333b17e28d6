// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/panel.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/simd/detail/add_values.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>

POSENC_BEGIN
namespace detail {

/// Returns the features of a token; tokens are counted through all batch rows.
template <class T>
POSENC_ALWAYS_INLINE T* token_row(const EmbeddingsView<T>& x, Index token) noexcept {
  return x.row(token / x.seq, token % x.seq);
}

/// Copies features feature .. feature + depth - 1 of `count` tokens, starting at token `first`, to
/// rows of `to`. Tokens are counted through all batch rows.
///   Shapes: to [count, depth] with row stride `stride`
template <class T>
void copy_rows(const EmbeddingsView<const T>& x, Index first, Index count, Index feature,
               Index depth, T* to, Index stride) noexcept {
  for (Index r = first; r < first + count; ++r, to += stride) {
    std::copy_n(token_row(x, r) + feature, depth, to);
  }
}

/// Product of a matrix [rows, depth] with a matrix [depth, columns], for many rows. Columns are
/// packed into tiles, as keys of attention are, and tiles are distributed over threads.
///   Bits: the depth is cut into slices. In a slice, a number is one dependency chain of FMAs in
///         the order of the depth; slices are added in order. Neither the device nor other rows and
///         columns change a bit
template <class Tier, class T>
class PackedGemm {
 public:
  static constexpr Index strip_rows = register_tile_rows<Tier>;
  /// Depth of a slice for which a tile of panels and a strip of rows fit into L2, in 300 KiB.
  static constexpr Index cached_depth = 2048 / Index{sizeof(T)};

  ///   slice: maximum depth of a slice
  ///   loaded_rows: maximum number of rows per call of load_rows(); a multiple of strip_rows
  PackedGemm(Index rows, Index columns, Index depth, Index slice = cached_depth,
             Index loaded_rows = strip_rows) noexcept
      : rows_(rows),
        columns_(columns),
        depth_(depth),
        slice_((std::min)(depth, slice)),
        loaded_rows_(loaded_rows) {}

  /// Allocates the memory of run().
  ///   Throws: std::bad_alloc
  template <Device D>
  void reserve(const D& device, ScratchArenas& workspace) const {
    ArenaAllocator measure(nullptr);
    (void)Scratch(measure, *this);
    workspace.reserve(arena_count(device), measure.bytes_used());
  }

  /// Computes the product.
  ///   adds: the product is added to the existing rows
  ///   pack_columns(from, depth, first, count, panel): packs rows from .. from + depth - 1 of
  ///       columns first .. first + count - 1, at most panel_lanes, into a panel of zeros, see
  ///       panel.hpp
  ///   load_rows(from, depth, first, count, to, stride): copies columns from .. from + depth - 1 of
  ///       `count` rows to `to`, with row stride `stride`
  ///   row_of(row): returns the address of a row of the product
  ///   Throws: std::bad_alloc, before any of these is called
  template <Device D, class PackColumns, class LoadRows, class RowOf>
  void run(const D& device, ScratchArenas& workspace, bool adds, const PackColumns& pack_columns,
           const LoadRows& load_rows, const RowOf& row_of) const {
    reserve(device, workspace);
    const Index tiles = (columns_ + tile_lanes - 1) / tile_lanes;
    Index from = 0;
    do {
      const Index depth = (std::min)(slice_, depth_ - from);
      const double products =
          static_cast<double>(rows_) * static_cast<double>(depth) * double{tile_lanes};
      parallel_for(device, tiles, 0, products / 16, [&](Index first, Index last) {
        ArenaAllocator allocator(workspace.arena(arena_index(device)));
        const Scratch scratch(allocator, *this);
        for (Index column = first * tile_lanes; column < last * tile_lanes; column += tile_lanes) {
          const ActiveLanes lanes = pack(from, depth, column, pack_columns, scratch.columns);
          multiply(from, depth, lanes, scratch, load_rows,
                   [&](Index row, const T* products_of_row) {
                     T* const to = row_of(row) + column;
                     if (adds || from > 0) {
                       add_values<Tier>(products_of_row, to, lanes.end);
                     } else {
                       std::copy_n(products_of_row, lanes.end, to);
                     }
                   });
        }
      });
      from += slice_;
    } while (from < depth_);
  }

 private:
  struct Scratch {
    Scratch(ArenaAllocator& allocator, const PackedGemm& gemm)
        : columns(allocator.allocate<T>(tile_lanes * gemm.slice_)),
          rows(allocator.allocate<T>(gemm.loaded_rows_ * gemm.row_stride())),
          products(allocator.allocate<T>(strip_rows * tile_lanes)) {}

    T* columns;   ///< panels of a tile
    T* rows;      ///< [loaded_rows, depth] with row stride row_stride()
    T* products;  ///< [strip_rows, tile_lanes]
  };

  /// Returns an odd number of cache lines. With a power of two, rows of a strip would evict each
  /// other from L1.
  Index row_stride() const noexcept {
    constexpr Index line = 64 / Index{sizeof(T)};
    return ((slice_ + line - 1) / line | 1) * line;
  }

  template <class PackColumns>
  ActiveLanes pack(Index from, Index depth, Index first, const PackColumns& pack_columns,
                   T* tile) const {
    ActiveLanes lanes{0, (std::min)(tile_lanes, columns_ - first), 0};
    for (Index n = 0; n * panel_lanes < lanes.end; ++n) {
      const Index begin = n * panel_lanes;
      const Index count = (std::min)(panel_lanes, lanes.end - begin);
      T* const panel = tile + begin * depth;
      if (count < panel_lanes) std::fill_n(panel, panel_lanes * depth, T{0});
      pack_columns(from, depth, first + begin, count, panel);
      lanes.panel_mask |= 1u << n;
    }
    return lanes;
  }

  template <class LoadRows, class Store>
  void multiply(Index from, Index depth, const ActiveLanes& lanes, const Scratch& scratch,
                const LoadRows& load_rows, const Store& store) const {
    const Index stride = row_stride();
    for (Index r = 0; r < rows_; r += loaded_rows_) {
      const Index loaded = (std::min)(loaded_rows_, rows_ - r);
      load_rows(from, depth, r, loaded, scratch.rows, stride);
      for (Index s = 0; s < loaded; s += strip_rows) {
        const Index strip = (std::min)(strip_rows, loaded - s);
        for_register_tiles<Tier>(
            strip, PanelDotKernel<Tier, T, T>{.rows = scratch.rows + s * stride,
                                              .panels = scratch.columns,
                                              .dim = depth,
                                              .factor = T{1},
                                              .lanes = lanes,
                                              .out = scratch.products,
                                              .ahead = {.next_region = scratch.columns},
                                              .row_padding = stride - depth});
        for (Index i = 0; i < strip; ++i) store(r + s + i, scratch.products + i * tile_lanes);
      }
    }
  }

  Index rows_, columns_, depth_, slice_, loaded_rows_;
};

}  // namespace detail
POSENC_END
