// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/panel.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/slots.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>

POSENC_BEGIN
namespace detail {

/// A token's features, tokens counted through all batch rows.
template <class T>
POSENC_ALWAYS_INLINE T* row_of_token(const EmbeddingsView<T>& x, Index token) noexcept {
  return x.row(token / x.seq, token % x.seq);
}

/// to [count, depth], whose rows are `stride` apart <- features feature .. feature + depth - 1 of
/// tokens from `first` on, counted through all batch rows.
template <class T>
void copy_rows(const EmbeddingsView<const T>& x, Index first, Index count, Index feature,
               Index depth, T* to, Index stride) noexcept {
  for (Index r = first; r < first + count; ++r, to += stride) {
    std::copy_n(row_of_token(x, r) + feature, depth, to);
  }
}

/// How deep products are made at a time that need not be one chain: a tile of panels and a strip of rows fit into
/// a second-level cache then, in 300 KiB.
template <class T>
inline constexpr Index product_depth = 2048 / Index{sizeof(T)};

/// The product of a matrix [rows, depth] with one [depth, columns]: each number is one chain of multiply-adds over
/// the depth, in its order, whatever is computed beside it. Columns are packed into tiles, as attention has its
/// keys, which threads share out.
template <class Tier, class T>
class TiledProduct {
 public:
  static constexpr Index strip_rows = kernel_rows<Tier>;

  ///   loaded_rows: how many load_rows() is asked for at a time, a multiple of strip_rows
  TiledProduct(Index rows, Index columns, Index depth, Index loaded_rows = strip_rows) noexcept
      : rows_(rows), columns_(columns), depth_(depth), loaded_rows_(loaded_rows) {}

  /// What run() does first.
  ///   Throws: std::bad_alloc
  template <Device D>
  void reserve(const D& device, Slots& workspace) const {
    Carver measure(nullptr);
    (void)Scratch(measure, *this);
    workspace.reserve(slot_count(device), measure.used());
  }

  ///   pack_columns(first, count, panel): puts count <= panel_lanes columns into a panel of zeros, see panel.hpp
  ///   load_rows(first, count, to, stride): puts rows into to [count, depth], which are `stride` apart
  ///   take(row, first, count, products): is given `count` numbers of a row, from column `first` on
  ///   Throws: std::bad_alloc, before any of these is called
  template <Device D, class PackColumns, class LoadRows, class Take>
  void run(const D& device, Slots& workspace, const PackColumns& pack_columns,
           const LoadRows& load_rows, const Take& take) const {
    reserve(device, workspace);
    const Index tiles = (columns_ + tile_lanes - 1) / tile_lanes;
    const double products =
        static_cast<double>(rows_) * static_cast<double>(depth_) * double{tile_lanes};
    parallel_for(device, tiles, 0, products / 16, [&](Index first, Index last) {
      Carver carver(workspace.slot(slot_index(device)));
      const Scratch scratch(carver, *this);
      for (Index tile = first; tile < last; ++tile) {
        const Index column = tile * tile_lanes;
        multiply(
            pack(column, pack_columns, scratch.columns), scratch, load_rows,
            [&](Index row, Index count, const T* of_row) { take(row, column, count, of_row); });
      }
    });
  }

 private:
  struct Scratch {
    Scratch(Carver& carver, const TiledProduct& product)
        : columns(carver.take<T>(tile_lanes * product.depth_)),
          rows(carver.take<T>(product.loaded_rows_ * product.row_stride())),
          products(carver.take<T>(strip_rows * tile_lanes)) {}

    T* columns;   ///< panels of a tile
    T* rows;      ///< [loaded_rows, depth], row_stride() apart
    T* products;  ///< [strip_rows, tile_lanes]
  };

  /// An odd number of cache lines: where it is a power of two, the rows of a strip drive each other out of a
  /// first-level cache.
  Index row_stride() const noexcept {
    constexpr Index line = 64 / Index{sizeof(T)};
    return ((depth_ + line - 1) / line | 1) * line;
  }

  template <class PackColumns>
  Lanes pack(Index first, const PackColumns& pack_columns, T* tile) const {
    Lanes lanes{0, (std::min)(tile_lanes, columns_ - first), 0};
    for (Index n = 0; n * panel_lanes < lanes.end; ++n) {
      const Index begin = n * panel_lanes;
      const Index count = (std::min)(panel_lanes, lanes.end - begin);
      T* const panel = tile + begin * depth_;
      if (count < panel_lanes) std::fill_n(panel, panel_lanes * depth_, T{0});
      pack_columns(first + begin, count, panel);
      lanes.panels |= 1u << n;
    }
    return lanes;
  }

  template <class LoadRows, class Take>
  void multiply(const Lanes& lanes, const Scratch& scratch, const LoadRows& load_rows,
                const Take& take) const {
    for (Index r = 0; r < rows_; r += loaded_rows_) {
      const Index loaded = (std::min)(loaded_rows_, rows_ - r);
      load_rows(r, loaded, scratch.rows, row_stride());
      for (Index s = 0; s < loaded; s += strip_rows) {
        const Index strip = (std::min)(strip_rows, loaded - s);
        for_bundles<Tier>(strip, PanelProducts<Tier, T, T>{scratch.rows + s * row_stride(),
                                                           scratch.columns,
                                                           depth_,
                                                           T{1},
                                                           lanes,
                                                           scratch.products,
                                                           {scratch.columns},
                                                           row_stride() - depth_});
        for (Index i = 0; i < strip; ++i) {
          take(r + s + i, lanes.end, scratch.products + i * tile_lanes);
        }
      }
    }
  }

  Index rows_, columns_, depth_, loaded_rows_;
};

}  // namespace detail
POSENC_END
