// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/kernel_tile.hpp>
#include <posenc/attention/detail/relative_columns.hpp>
#include <posenc/attention/detail/relative_products.hpp>
#include <posenc/kernels/convert_row.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kernels/transposed_sum_kernel.hpp>
#include <posenc/kernels/weighted_sum_kernel.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

POSENC_BEGIN
namespace detail {

/// Backward of the products with one table: packs its columns, and accumulates the gradient of the
/// table.
template <class Tier, Scalar T>
class RelativeTableBackward {
 public:
  using Real = Compute<T>;

  /// heads: heads of the block, each of which has a separate gradient if the table has heads
  /// learned: the table's gradient is requested
  RelativeTableBackward(const HeadsView<const T>& table, const RelativeColumns& columns,
                        Index heads, bool learned, ArenaAllocator& allocator) noexcept
      : table_(table),
        columns_(columns),
        learned_(learned),
        dim_(padded_value_dim(dim_of(table))),
        heads_(table.heads == 1 ? 1 : heads),
        packed_(allocator.allocate<Real>(tile_lanes * dim_)),
        grad_(allocator.allocate<Real>(size())) {}

  Index dim() const noexcept { return dim_; }  ///< padded
  bool learned() const noexcept { return learned_; }

  void clear() noexcept { std::fill_n(grad_, size(), Real{0}); }
  /// Returns the gradient of the columns of tile t, for head g of the block.
  Real* grad(Index g, Index t) const noexcept {
    return grad_ + ((heads_ == 1 ? 0 : g) * columns_.count() + t * tile_lanes) * dim_;
  }
  Index columns_of(Index t) const noexcept {
    return (std::min)(tile_lanes, columns_.count() - t * tile_lanes);
  }

  /// Packs the columns of tile t into padded rows, [columns, dim]. Returns true if all are finite.
  bool pack(Index t, Index head) const noexcept {
    return pack_values<Tier>(
        table_.row(0, columns_.table_row(t * tile_lanes), table_.heads == 1 ? 0 : head),
        table_.seq_stride * columns_.row_step(), columns_of(t), table_.dim, packed_, dim_);
  }
  const Real* packed() const noexcept { return packed_; }

  /// Adds the gradient to `to`, for the heads that start at first_head.
  void add_to(const HeadsView<Real>& to, Index first_head) const noexcept {
    if (to.data == nullptr || to.empty()) return;
    for (Index g = 0; g < heads_; ++g) {
      for (Index c = 0; c < columns_.count(); ++c) {
        const Real* const from = grad(g, 0) + c * dim_;
        Real* const row =
            to.row(0, columns_.table_row(c), heads_ == 1 && to.heads == 1 ? 0 : first_head + g);
        for (Index d = 0; d < to.dim; ++d) row[d] += from[d];
      }
    }
  }

 private:
  Index size() const noexcept { return learned_ ? heads_ * columns_.count() * dim_ : 0; }

  HeadsView<const T> table_;
  const RelativeColumns& columns_;
  bool learned_;
  Index dim_, heads_;
  Real* packed_;
  Real* grad_;
};

/// Backward of a RelativeBias: computes the gradients of its queries, of the keys and of its tables
/// from the gradient of scores. Score gradients are first moved to the columns of their distances;
/// the rest are products like those of attention.
template <class Tier, Scalar T, class S>
class RelativeGradients {
 public:
  using Real = Compute<T>;
  using Block = KernelBlock<Tier, T, S>;
  using Tile = KernelTile<Tier, T, S>;

  RelativeGradients(const Block& block, const RelativeBias<T>& bias,
                    const RelativeGradient<T>& gradient, ArenaAllocator& allocator) noexcept
      : bias_(bias),
        columns_(columns_of(bias)),
        factor_(factor_of(bias, block)),
        ring_slots_(column_ring_slots(block.queries)),
        has_own_queries_(is_present(bias.queries)),
        table_(bias.table, columns_, block.heads, gradient.table.data != nullptr, allocator),
        key_table_(bias.key_table, columns_, block.heads, gradient.key_table.data != nullptr,
                   allocator),
        queries_(allocator.allocate<Real>(block.queries * block.heads * table_.dim())),
        grad_queries_(allocator.allocate<Real>(
            has_own_queries_ ? block.queries * block.heads * table_.dim() : 0)),
        weights_(allocator.allocate<Real>(ring_slots_ * (std::max)(block.queries, tile_lanes) *
                                          tile_lanes)),
        ones_(allocator.allocate<Real>((std::max)(block.queries, tile_lanes) + stats_rows)),
        columns_of_keys_(allocator.allocate<std::int32_t>(block.queries * tile_keys)) {}

  RelativeGradients(const RelativeGradients&) = delete;  // tables refer to columns_
  RelativeGradients& operator=(const RelativeGradients&) = delete;

  void begin(const Block& block) noexcept {
    rows_of_head_ = block.queries;
    first_head_ = block.first_head;
    table_.clear();
    key_table_.clear();
    std::fill_n(ones_, (std::max)(rows_of_head_, tile_lanes) + stats_rows, Real{1});
    if (!is_present(bias_.table)) return;
    finite_ = true;
    const HeadsView<const T>& x = has_own_queries_ ? bias_.queries : block.q;
    for (Index g = 0; g < block.heads; ++g) {
      for (Index n = 0; n < rows_of_head_; ++n) {
        finite_ &= pack_values<Tier>(x.row(block.batch, block.first_query + n, first_head_ + g), 0,
                                     1, x.dim, queries_ + (g * rows_of_head_ + n) * table_.dim(),
                                     table_.dim());
      }
    }
    if (has_own_queries_) {
      std::fill_n(grad_queries_, block.heads * rows_of_head_ * table_.dim(), Real{0});
    }
  }

  /// Adds the contributions of a tile, from its score gradients, which are 0 for invisible keys.
  void add(const Tile& tile, const MatrixView<const Real>& grad,
           const QueryBiasGradients<T>& to) const noexcept {
    const Range columns = find_columns(tile);
    for (Index t = columns.first / tile_lanes; t * tile_lanes <= columns.last; t += ring_slots_) {
      const Range tiles{t, (std::min)(t + ring_slots_ - 1, columns.last / tile_lanes)};
      if (is_present(bias_.table)) add_to_queries(tile, grad, tiles, to);
      if (is_present(bias_.key_table) && (key_table_.learned() || to.keys.data != nullptr)) {
        add_to_keys(tile, grad, tiles, to);
      }
    }
  }

  /// Writes the gradient of the bias's own queries, and adds those of the tables. Call it in block
  /// order, after the block's last tile.
  void end(const Block& block, const RelativeGradient<T>& to) const noexcept {
    if (to.queries.data != nullptr) {
      for (Index g = 0; g < block.heads; ++g) {
        for (Index n = 0; n < rows_of_head_; ++n) {
          convert_row<Tier>(grad_queries_ + (g * rows_of_head_ + n) * table_.dim(), to.queries.dim,
                            to.queries.row(block.batch, block.first_query + n, first_head_ + g));
        }
      }
    }
    table_.add_to(to.table, first_head_);
    key_table_.add_to(to.key_table, first_head_);
  }

 private:
  struct Range {
    Index first, last;  ///< none if first > last
  };

  /// Stores the column of each query and key of a tile, and returns their range.
  Range find_columns(const Tile& tile) const noexcept {
    Range columns{(std::numeric_limits<Index>::max)(), -1};
    std::int32_t* to = columns_of_keys_;
    for (const double query : tile.tokens.query_positions) {
      for (const double key : tile.tokens.key_positions) {
        const Index column = columns_.column(columns_.offset(query, key));
        *to++ = static_cast<std::int32_t>(column);
        if (column == RelativeColumns::none) continue;
        columns.first = (std::min)(columns.first, column);
        columns.last = (std::max)(columns.last, column);
      }
    }
    return columns;
  }

  /// Adds score gradients to the sums of their columns.
  ///   put(tile of columns, query, key, column in the tile): returns the sum to add to
  template <class Put>
  void scatter_add(const MatrixView<const Real>& grad, const Range& tiles, Index rows,
                   const Put& put) const noexcept {
    std::fill_n(weights_, (tiles.last - tiles.first + 1) * rows * tile_lanes, Real{0});
    for (Index n = 0; n < grad.rows; ++n) {
      for (Index j = 0; j < grad.cols; ++j) {
        const Index column = columns_of_keys_[n * grad.cols + j], t = column / tile_lanes;
        if (column == RelativeColumns::none || t < tiles.first || t > tiles.last) continue;
        Real& sum =
            put(weights_ + (t - tiles.first) * rows * tile_lanes, n, j, column % tile_lanes);
        sum = mul_add(factor_, grad.row(n)[j], sum);
      }
    }
  }

  void add_to_queries(const Tile& tile, const MatrixView<const Real>& grad, const Range& tiles,
                      const QueryBiasGradients<T>& to) const noexcept {
    scatter_add(grad, tiles, rows_of_head_,
                [](Real* tile_weights, Index n, Index, Index column) -> Real& {
                  return tile_weights[n * tile_lanes + column];
                });
    const Index dim = table_.dim();
    const Index g = tile.tokens.head - first_head_, first_row = g * rows_of_head_;
    Real* const grad_queries = has_own_queries_ ? grad_queries_ + first_row * dim : to.queries.data;
    for (Index t = tiles.first; t <= tiles.last; ++t) {
      const Real* const weights = weights_ + (t - tiles.first) * rows_of_head_ * tile_lanes;
      const Index count = table_.columns_of(t);
      const ActiveLanes lanes{0, count, panel_mask_of(0, count - 1)};
      add_weighted_sums<Tier>(table_.pack(t, tile.tokens.head), rows_of_head_, weights,
                              table_.packed(), dim, lanes, ones_, grad_queries);
      if (table_.learned()) {
        add_transposed(finite_, count, weights, 0, rows_of_head_, queries_ + first_row * dim, dim,
                       table_.grad(g, t));
      }
    }
  }

  void add_to_keys(const Tile& tile, const MatrixView<const Real>& grad, const Range& tiles,
                   const QueryBiasGradients<T>& to) const noexcept {
    const Index dim = key_table_.dim(), first = tile.first_lane(), keys = grad.cols;
    const Index g = tile.tokens.head - first_head_;
    scatter_add(grad, tiles, tile_lanes,
                [first](Real* tile_weights, Index, Index j, Index column) -> Real& {
                  return tile_weights[column * tile_keys + first + j];
                });
    const ActiveLanes lanes{first, first + keys, panel_mask_of(first, first + keys - 1)};
    for (Index t = tiles.first; t <= tiles.last; ++t) {
      const Real* const weights = weights_ + (t - tiles.first) * tile_lanes * tile_lanes;
      const Index count = key_table_.columns_of(t);
      if (to.keys.data != nullptr) {
        add_transposed(key_table_.pack(t, tile.tokens.head), keys, weights, first, count,
                       key_table_.packed(), dim, to.keys.data);
      }
      if (key_table_.learned()) {
        add_weighted_sums<Tier>(tile.rows_are_finite, count, weights, tile.rows, dim, lanes, ones_,
                                key_table_.grad(g, t));
      }
    }
  }

  /// Adds the transposed weights of `count` lanes, starting at `first`, times `rows` numbers,
  /// [rows, dim], to the sums [count, dim].
  void add_transposed(bool finite, Index count, const Real* weights, Index first, Index rows,
                      const Real* numbers, Index dim, Real* sums) const noexcept {
    std::array<PanelRowRange, static_cast<std::size_t>(tile_panels)> all;
    all.fill({0, rows});
    add_transposed_sums<Tier>(finite, first, count, weights, numbers, dim, all.data(), sums);
  }

  const RelativeBias<T>& bias_;
  RelativeColumns columns_;
  Real factor_;
  Index ring_slots_;
  bool has_own_queries_;
  RelativeTableBackward<Tier, T> table_, key_table_;
  Real* queries_;       ///< [rows, padded width], head by head
  Real* grad_queries_;  ///< of the bias's own queries, [rows, padded width], head by head
  Real* weights_;       ///< [tiles of columns][queries][columns], or [columns][keys]
  Real* ones_;
  std::int32_t* columns_of_keys_;  ///< columns [queries, tile_keys]
  Index rows_of_head_ = 0, first_head_ = 0;
  bool finite_ = true;
};

}  // namespace detail
POSENC_END
