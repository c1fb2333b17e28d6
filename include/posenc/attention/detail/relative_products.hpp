// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/relative_columns.hpp>
#include <posenc/kernels/diagonals.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/panel.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

POSENC_BEGIN
namespace detail {

/// Returns the bit mask of the panels with lanes from .. to, see ActiveLanes.
constexpr unsigned panel_mask_of(Index from, Index to) noexcept {
  return (2u << to / panel_lanes) - (1u << from / panel_lanes);
}

/// Products of a block's queries with a relative table. They are computed once per block, 128
/// columns at a time, each panel when a tile of keys first needs it. Columns ascend with tiles of
/// keys, so a ring of a few tiles of columns holds all products that a tile of keys needs.
///   Layout: [ring slot][row][tile_lanes]; rows head by head, because each head may have its own
///           table
template <class Tier, Scalar T>
class RelativeProducts {
 public:
  using Real = Compute<T>;
  using Row = PackedRowElement<Tier, T, T>;

  RelativeProducts(const RelativeBias<T>& bias, const RelativeColumns& columns, Real factor,
                   Index ring_slots, Index rows, ArenaAllocator& allocator) noexcept
      : bias_(bias),
        columns_(columns),
        factor_(factor),
        ring_slots_(ring_slots),
        max_rows_(rows),
        packed_(allocator.allocate<Row>(rows * row_size())),
        panels_(allocator.allocate<Row>(tile_lanes * row_size())),
        // gather() reads full vectors.
        products_(allocator.allocate<Real>(ring_slots * rows * tile_lanes + tile_lanes)),
        computed_(allocator.allocate<ComputedPanels>(ring_slots)) {}

  /// Packs the rows of a block and discards all products.
  template <class Block>
  void begin(const Block& block) noexcept {
    const HeadsView<const T>& x = is_present(bias_.queries) ? bias_.queries : block.q;
    rows_of_head_ = block.queries;
    heads_ = block.heads;
    first_head_ = block.first_head;
    for (Index g = 0; g < heads_; ++g) {
      for (Index n = 0; n < rows_of_head_; ++n) {
        pack_row<Tier>(x.row(block.batch, block.first_query + n, first_head_ + g), x.dim,
                       packed_ + (g * rows_of_head_ + n) * row_size(), row_size());
      }
    }
    std::fill_n(computed_, ring_slots_, ComputedPanels{});
  }

  /// Computes the products of columns from .. to of tile t of columns, unless they are present.
  void compute(Index t, Index from, Index to) const noexcept {
    ComputedPanels& computed = computed_[t % ring_slots_];
    if (computed.tile != t) computed = {t, 0};
    const unsigned panels = panel_mask_of(from, to) & ~computed.panel_mask;
    if (panels == 0) return;
    computed.panel_mask |= panels;
    Real* const out = products_ + t % ring_slots_ * max_rows_ * tile_lanes;
    const bool shared = bias_.table.heads == 1;
    for (Index g = 0; g < (shared ? 1 : heads_); ++g) {
      pack(t, panels, shared ? 0 : first_head_ + g);
      const Index first = g * rows_of_head_, rows = rows_of_head_ * (shared ? heads_ : 1);
      const ActiveLanes lanes{0, tile_lanes, panels};
      for_register_tiles<Tier>(
          rows, PanelDotKernel<Tier, Real, Row, Row>{.rows = packed_ + first * row_size(),
                                                     .panels = panels_,
                                                     .dim = bias_.table.dim,
                                                     .factor = factor_,
                                                     .lanes = lanes,
                                                     .out = out + first * tile_lanes,
                                                     .ahead = {.next_region = panels_}});
    }
  }

  /// Returns the products of query n of the block's head g, at the first column of slot 0.
  /// offset_of_column() is an offset from there.
  const Real* row(Index g, Index n) const noexcept {
    return products_ + (g * rows_of_head_ + n) * tile_lanes;
  }
  /// Returns the offset of a column whose products are present.
  Index offset_of_column(Index column) const noexcept {
    return column / tile_lanes % ring_slots_ * max_rows_ * tile_lanes + column % tile_lanes;
  }

 private:
  struct ComputedPanels {
    Index tile = -1;
    unsigned panel_mask = 0;
  };

  Index row_size() const noexcept { return packed_dim<Row>(dim_of(bias_.table)); }

  void pack(Index t, unsigned panels, Index head) const noexcept {
    const Index size = panel_lanes * row_size();
    for (Index p = 0; p < tile_panels; ++p) {
      if ((panels >> p & 1u) == 0) continue;
      const Index first = t * tile_lanes + p * panel_lanes;
      const Index count = (std::min)(panel_lanes, columns_.count() - first);
      pack_zeroed_panel<Tier>(bias_.table.row(0, columns_.table_row(first), head),
                              bias_.table.seq_stride * columns_.row_step(), 0, count,
                              bias_.table.dim, panels_ + p * size);
    }
  }

  const RelativeBias<T>& bias_;
  const RelativeColumns& columns_;
  Real factor_;
  Index ring_slots_, max_rows_;
  Row* packed_;
  Row* panels_;
  Real* products_;
  ComputedPanels* computed_;
  Index rows_of_head_ = 0, heads_ = 0, first_head_ = 0;
};

/// Products of a tile of keys with a relative table of keys, for one head and some tiles of
/// columns.
///   Layout: [ring slot][column][tile_keys]
template <class Tier, Scalar T, class S>
class RelativeKeyProducts {
 public:
  using Real = Compute<T>;
  using Row = PackedRowElement<Tier, T, S>;

  RelativeKeyProducts(const RelativeBias<T>& bias, const RelativeColumns& columns, Real factor,
                      Index ring_slots, ArenaAllocator& allocator) noexcept
      : table_(bias.key_table),
        columns_(columns),
        factor_(factor),
        packed_(allocator.allocate<Row>(tile_lanes * packed_dim<S>(dim_of(table_)))),
        products_(allocator.allocate<Real>(ring_slots * tile_lanes * tile_keys)) {}

  /// Computes the products of columns from .. to of tile t of columns with lanes [begin, end) of
  /// keys, and stores them in a slot.
  void compute(Index t, Index slot, Index from, Index to, Index head, const S* keys, Index begin,
               Index end) const noexcept {
    const Index row_size = packed_dim<S>(table_.dim);
    for (Index c = from; c <= to; ++c) {
      pack_row<Tier>(
          table_.row(0, columns_.table_row(t * tile_lanes + c), table_.heads == 1 ? 0 : head),
          table_.dim, packed_ + c * row_size, row_size);
    }
    for_register_tiles<Tier>(to - from + 1,
                             PanelDotKernel<Tier, Real, S, Row>{
                                 .rows = packed_ + from * row_size,
                                 .panels = keys,
                                 .dim = table_.dim,
                                 .factor = factor_,
                                 .lanes = {begin, end, panel_mask_of(begin, end - 1)},
                                 .out = products_ + (slot * tile_lanes + from) * tile_keys,
                                 .ahead = {.next_region = keys}});
  }

  /// Adds products to scores [P::width queries, P::width keys], starting at key `lane`. The keys of
  /// the first query have the columns `columns`, counted from the first one of slot 0. Those of
  /// each further query are one index earlier.
  template <class P>
  void add_square_block(const std::int32_t* columns, Index lane, Real* scores,
                        Index stride) const noexcept {
    P rows[std::size_t{2 * P::width - 1}];
    for (Index t = 0; t < 2 * P::width - 1; ++t) {
      rows[t] = P::load(column(columns[t - (P::width - 1)]) + lane);
    }
    extract_diagonals<Real>(rows);
    for (Index i = 0; i < P::width; ++i) {
      Real* const to = scores + i * stride;
      (P::load(to) + rows[P::width - 1 - i]).store(to);
    }
  }

  /// Returns the products of a column, counted from the first one of slot 0, with the keys.
  const Real* column(Index c) const noexcept { return products_ + c * tile_keys; }

 private:
  HeadsView<const T> table_;
  const RelativeColumns& columns_;
  Real factor_;
  Row* packed_;
  Real* products_;
};

}  // namespace detail
POSENC_END
