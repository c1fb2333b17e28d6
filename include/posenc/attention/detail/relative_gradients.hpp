// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/kv_gradients.hpp>
#include <posenc/attention/detail/query_block.hpp>
#include <posenc/attention/detail/relative_columns.hpp>
#include <posenc/attention/detail/relative_products.hpp>
#include <posenc/attention/gradients.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/core/error.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kernels/transposed_sum_kernel.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>

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

/// Gradients of tables that are requested.
struct LearnedTables {
  bool table = false, key_table = false;
};

/// Backward of a RelativeBias: computes the gradients of its queries, of the keys and of its tables
/// from the gradient of scores. Score gradients are first moved to the columns of their distances;
/// the rest are products like those of attention.
template <class Tier, Scalar T, class S>
class RelativeGradients {
 public:
  using Real = Compute<T>;
  using Block = QueryBlock<Tier, T, S>;

  RelativeGradients(const RelativeBias<T>& bias, const LearnedTables& learned, Real scale,
                    Index rows, Index queries, ArenaAllocator& allocator) noexcept
      : bias_(bias),
        columns_(bias.index, is_present(bias.table) ? bias.table.seq : bias.key_table.seq),
        factor_(bias.scale == RelativeScale::Scaled ? scale : Real{1}),
        ring_slots_((queries + tile_keys - 2) / tile_lanes + 2),
        table_(bias.table, columns_, rows / queries, learned.table, allocator),
        key_table_(bias.key_table, columns_, rows / queries, learned.key_table, allocator),
        queries_(allocator.allocate<Real>(rows * table_.dim())),
        grad_queries_(allocator.allocate<Real>(rows * table_.dim())),
        weights_(
            allocator.allocate<Real>(ring_slots_ * (std::max)(queries, tile_lanes) * tile_lanes)),
        ones_(allocator.allocate<Real>((std::max)(queries, tile_lanes) + stats_rows)),
        columns_of_keys_(allocator.allocate<std::int32_t>(queries * tile_keys)) {}

  RelativeGradients(const RelativeGradients&) = delete;  // tables refer to columns_
  RelativeGradients& operator=(const RelativeGradients&) = delete;

  void begin(const Block& block) noexcept {
    group_ = block.plan().group;
    rows_of_head_ = block.rows() / group_;
    first_head_ = block.first_head();
    table_.clear();
    key_table_.clear();
    std::fill_n(ones_, (std::max)(rows_of_head_, tile_lanes) + stats_rows, Real{1});
    if (!is_present(bias_.table)) return;
    finite_ = true;
    const HeadsView<const T>& x = is_present(bias_.queries) ? bias_.queries : block.plan().q;
    for (Index r = 0; r < block.rows(); ++r) {
      const Index i = block.sequence().first_query + block.query(r);
      finite_ &= pack_values<Tier>(x.row(block.sequence().batch, i, block.head(r)), 0, 1, x.dim,
                                   queries_ + head_major_index(r) * table_.dim(), table_.dim());
    }
    std::fill_n(grad_queries_, block.rows() * table_.dim(), Real{0});
  }

  /// Adds the contributions of a tile, from its score gradients, [rows, tile_keys], which are 0 for
  /// invisible keys.
  ///   key_rows: the tile's keys, [tile_keys, padded head_dim]
  ///   finite: true if these keys are finite
  void add(const Block& block, const TileVisibility& seen, const double* key_positions,
           const Real* grad, const S* key_rows, bool finite,
           const KvGradients<Tier, T>& kv_gradients) const noexcept {
    for (Index g = 0; g < (std::min)(group_, block.rows()); ++g) {
      const Range columns = find_columns(block, seen, g, key_positions);
      for (Index t = columns.first / tile_lanes; t * tile_lanes <= columns.last; t += ring_slots_) {
        const Range tiles{t, (std::min)(t + ring_slots_ - 1, columns.last / tile_lanes)};
        if (is_present(bias_.table)) add_to_queries(seen, g, grad, tiles);
        if (is_present(bias_.key_table) && (key_table_.learned() || kv_gradients.has_keys())) {
          add_to_keys(seen, g, grad, tiles, key_rows, finite, kv_gradients);
        }
      }
    }
  }

  /// Returns the gradient of row r of the block's queries, or null if the bias has its own queries.
  const Real* query_gradient(Index r) const noexcept {
    return is_present(bias_.table) && !is_present(bias_.queries)
               ? grad_queries_ + head_major_index(r) * table_.dim()
               : nullptr;
  }

  /// Writes the gradient of the bias's own queries. Call it after the block's last tile.
  void write(const Block& block, const HeadsView<T>& grad) const noexcept {
    if (grad.data == nullptr) return;
    for (Index r = 0; r < block.rows(); ++r) {
      convert_row<Tier>(grad_queries_ + head_major_index(r) * table_.dim(), grad.dim,
                        grad.row(block.sequence().batch,
                                 block.sequence().first_query + block.query(r), block.head(r)));
    }
  }
  /// Adds the gradients of the tables to `to`. Call it in block order.
  void add_tables(const RelativeGradient<T>& to) const noexcept {
    table_.add_to(to.table, first_head_);
    key_table_.add_to(to.key_table, first_head_);
  }

 private:
  struct Range {
    Index first, last;  ///< none if first > last
  };

  /// Returns the index of row r in head-major order.
  Index head_major_index(Index r) const noexcept { return r % group_ * rows_of_head_ + r / group_; }

  /// Stores the column of each query and key of head g, and returns their range.
  Range find_columns(const Block& block, const TileVisibility& seen, Index g,
                     const double* key_positions) const noexcept {
    const Index first = seen.keys.begin - seen.first_key(), end = seen.keys.end - seen.first_key();
    Range columns{(std::numeric_limits<Index>::max)(), -1};
    for (Index n = 0; n < rows_of_head_; ++n) {
      const double query = block.position(n * group_ + g);
      for (Index j = first; j < end; ++j) {
        const Index column = columns_.column(columns_.offset(query, key_positions[j]));
        columns_of_keys_[n * tile_keys + j] = static_cast<std::int32_t>(column);
        if (column == RelativeColumns::none) continue;
        columns.first = (std::min)(columns.first, column);
        columns.last = (std::max)(columns.last, column);
      }
    }
    return columns;
  }

  /// Adds the score gradients of head g to the sums of their columns.
  ///   put(tile of columns, query, key, column in the tile): returns the sum to add to
  template <class Put>
  void scatter_add(const TileVisibility& seen, Index g, const Real* grad, const Range& tiles,
                   Index rows, const Put& put) const noexcept {
    const Index first = seen.keys.begin - seen.first_key(), end = seen.keys.end - seen.first_key();
    std::fill_n(weights_, (tiles.last - tiles.first + 1) * rows * tile_lanes, Real{0});
    for (Index n = 0; n < rows_of_head_; ++n) {
      const Real* const row_grad = grad + (n * group_ + g) * tile_keys;
      for (Index j = first; j < end; ++j) {
        const Index column = columns_of_keys_[n * tile_keys + j], t = column / tile_lanes;
        if (column == RelativeColumns::none || t < tiles.first || t > tiles.last) continue;
        Real& sum =
            put(weights_ + (t - tiles.first) * rows * tile_lanes, n, j, column % tile_lanes);
        sum = mul_add(factor_, row_grad[j], sum);
      }
    }
  }

  void add_to_queries(const TileVisibility& seen, Index g, const Real* grad,
                      const Range& tiles) const noexcept {
    scatter_add(seen, g, grad, tiles, rows_of_head_,
                [](Real* tile_weights, Index n, Index, Index column) -> Real& {
                  return tile_weights[n * tile_lanes + column];
                });
    const Index dim = table_.dim();
    const Index first_row = g * rows_of_head_;
    for (Index t = tiles.first; t <= tiles.last; ++t) {
      const Real* const weights = weights_ + (t - tiles.first) * rows_of_head_ * tile_lanes;
      const Index count = table_.columns_of(t);
      const ActiveLanes lanes{0, count, panel_mask_of(0, count - 1)};
      dispatch_skip_weights<SkipWeights::Zero>(
          table_.pack(t, first_head_ + g),
          [&]<SkipWeights W>(std::integral_constant<SkipWeights, W>) {
            for_register_tiles<Tier>(rows_of_head_, WeightedSumKernel<Tier, Real, Real, W>{
                                                        weights,
                                                        table_.packed(),
                                                        dim,
                                                        dim,
                                                        lanes,
                                                        ones_,
                                                        ones_,
                                                        grad_queries_ + first_row * dim,
                                                        {table_.packed()}});
          });
      if (!table_.learned()) continue;
      const auto rows = all_panels(rows_of_head_);
      dispatch_skip_weights<SkipWeights::Zero>(
          finite_, [&]<SkipWeights W>(std::integral_constant<SkipWeights, W>) {
            for_register_tiles<Tier>(
                count, TransposedSumKernel<Tier, Real, W>{weights, queries_ + first_row * dim, dim,
                                                          0, rows.data(), table_.grad(g, t)});
          });
    }
  }

  void add_to_keys(const TileVisibility& seen, Index g, const Real* grad, const Range& tiles,
                   const S* key_rows, bool finite,
                   const KvGradients<Tier, T>& kv_gradients) const noexcept {
    scatter_add(seen, g, grad, tiles, tile_lanes,
                [](Real* tile_weights, Index, Index j, Index column) -> Real& {
                  return tile_weights[column * tile_keys + j];
                });
    const Index dim = key_table_.dim(), first = seen.keys.begin - seen.first_key();
    const Index keys = seen.keys.end - seen.keys.begin;
    const ActiveLanes lanes{first, first + keys, panel_mask_of(first, first + keys - 1)};
    for (Index t = tiles.first; t <= tiles.last; ++t) {
      const Real* const weights = weights_ + (t - tiles.first) * tile_lanes * tile_lanes;
      const Index count = key_table_.columns_of(t);
      const auto rows = all_panels(count);
      if (kv_gradients.has_keys()) {
        dispatch_skip_weights<SkipWeights::Zero>(
            key_table_.pack(t, first_head_ + g),
            [&]<SkipWeights W>(std::integral_constant<SkipWeights, W>) {
              for_register_tiles<Tier>(
                  keys, TransposedSumKernel<Tier, Real, W>{
                            weights + first, key_table_.packed(), dim, first, rows.data(),
                            kv_gradients.key_gradient(seen.keys.begin)});
            });
      }
      if (!key_table_.learned()) continue;
      dispatch_skip_weights<SkipWeights::Zero>(finite, [&]<SkipWeights W>(
                                                           std::integral_constant<SkipWeights, W>) {
        for_register_tiles<Tier>(count, WeightedSumKernel<Tier, Real, S, W>{weights,
                                                                            key_rows,
                                                                            dim,
                                                                            dim,
                                                                            lanes,
                                                                            ones_,
                                                                            ones_,
                                                                            key_table_.grad(g, t),
                                                                            {key_rows}});
      });
    }
  }

  static typename KvGradients<Tier, T>::PanelRowRanges all_panels(Index rows) noexcept {
    typename KvGradients<Tier, T>::PanelRowRanges all;
    all.fill({0, rows});
    return all;
  }

  const RelativeBias<T>& bias_;
  RelativeColumns columns_;
  Real factor_;
  Index ring_slots_;
  RelativeTableBackward<Tier, T> table_, key_table_;
  Real* queries_;       ///< [rows, padded width], head by head
  Real* grad_queries_;  ///< [rows, padded width], head by head
  Real* weights_;       ///< [tiles of columns][queries][columns], or [columns][keys]
  Real* ones_;
  std::int32_t* columns_of_keys_;  ///< columns [queries, tile_keys]
  Index group_ = 1, rows_of_head_ = 0, first_head_ = 0;
  bool finite_ = true;
};

/// Checks that requested gradients have the shapes of their tensors.
///   Throws: ShapeError
template <Scalar T>
void check_relative_gradient(const char* function, const RelativeBias<T>& bias,
                             const RelativeGradient<T>& gradient) {
  const auto check = [function](const char* name, const auto& of, const HeadsView<const T>& view) {
    if (of.data == nullptr) return;
    check_extents(function, name, of);
    if (!is_present(view)) {
      fail<ShapeError>(function, name, " ", of.extents(), " needs the tensor, which is omitted");
    }
    if (of.extents() != view.extents()) {
      fail<ShapeError>(function, name, " ", of.extents(), " must have the shape of its tensor ",
                       view.extents());
    }
    check_output(function, name, of);
  };
  check("RelativeGradient::table", gradient.table, bias.table);
  check("RelativeGradient::key_table", gradient.key_table, bias.key_table);
  check("RelativeGradient::queries", gradient.queries, bias.queries);
}

}  // namespace detail
POSENC_END
