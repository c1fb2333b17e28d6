// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/erased_bias.hpp>
#include <posenc/attention/detail/query_block.hpp>
#include <posenc/concepts.hpp>
#include <posenc/kernels/panel.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/detail/consecutive_positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cstddef>
#include <span>
#include <type_traits>

// Bias stage: adds a bias that is a function of positions or tokens to a tile's scores.
// relative_stage.hpp adds one from products with a table.
POSENC_BEGIN
namespace detail {

/// Rows of one head of a block, and lanes of a tile.
template <class Real>
struct BiasTile {
  Index first_row, queries;  ///< rows of the block; those of a head are `group` rows apart
  Index first_lane, keys;
  const double* key_positions;  ///< positions of these lanes
  MatrixView<Real> scores;      ///< [queries, keys]
};

/// Stage of a bias: an ErasedBias, which computes what it adds, or a RelativeBias.
template <class Tier, Scalar T, class S, class Bias = ErasedBias<T>>
class BiasStage {
  static_assert(std::is_same_v<Bias, ErasedBias<T>>);

 public:
  using Real = Compute<T>;
  using Block = QueryBlock<Tier, T, S>;

  ///   queries: number of queries of a block of `rows` rows of one KV head; 0 if no strip gets its
  ///       bias separately
  BiasStage(const Bias& bias, Real, Index rows, Index queries, ArenaAllocator& allocator) noexcept
      : bias_(bias) {
    if (bias.is_distance_bias() && queries > 1) {
      toeplitz_ = allocator.allocate<Real>(rows / queries * toeplitz_stride(queries));
    }
  }

  void begin(const Block& block) noexcept {
    if (toeplitz_ == nullptr) return;
    const Index group = block.plan().group;
    has_consecutive_queries_ =
        block.rows() > group && block.rows() == block.rows_per_kv_head() &&
        are_consecutive<Tier>({block.positions(), static_cast<std::size_t>(block.rows() / group)});
  }

  /// Computes the values of a DistanceBias for all strips of a tile, if there is one and its queries
  /// and keys are consecutive. Call it before the tile's strips. Returns true if add_to_strip() can then add
  /// them.
  bool prepare(const Block& block, const TileVisibility& seen,
               const double* key_positions) const noexcept {
    if (!has_consecutive_queries_) return false;
    const Index begin = seen.keys.begin - seen.first_key(), end = seen.keys.end - seen.first_key();
    const std::span keys(key_positions + begin, static_cast<std::size_t>(end - begin));
    if (!are_consecutive<Tier>(keys)) return false;
    const Index group = block.plan().group, queries = block.rows() / group;
    // Full panels, because vectors extend beyond the last lane.
    const Index first = begin / panel_lanes * panel_lanes;
    const Index last = (end + panel_lanes - 1) / panel_lanes * panel_lanes;
    const double farthest = block.position(block.rows() - 1) - key_positions[begin] +
                            static_cast<double>(begin - first);
    for (Index i = 0; i < group; ++i) {
      Real* const row = toeplitz_ + i * toeplitz_stride(queries) + first;
      bias_.write_values(block.head(i), farthest,
                         std::span(row, static_cast<std::size_t>(queries - 1 + last - first)));
    }
    return true;
  }

  /// Adds the values that prepare() computed to a strip's scores.
  void add_to_strip(const Block& block, const ActiveLanes& lanes, const Strip& strip,
                    Real* scores) const noexcept {
    using P = Pack<Real, Tier>;
    const Index queries = block.rows() / block.plan().group;
    for (Index i = 0; i < strip.rows; ++i) {
      const Index r = strip.first + i;
      Real* const row = scores + i * tile_keys;
      const Real* const values = toeplitz_ +
                                 (block.head(r) - block.head(0)) * toeplitz_stride(queries) +
                                 (block.query(block.rows() - 1) - block.query(r));
      for_active_vectors<P>(lanes, row,
                            [&](Real* p) { (P::load(p) + P::load(values + (p - row))).store(p); });
    }
  }

  void add(const Block& block, Index first_key, const KvTile<S>&,
           const BiasTile<Real>& tile) const {
    bias_.add(tokens_of(block, first_key, tile), tile.scores);
  }

  /// Returns the tokens of a tile.
  template <class R>
  static TokenTile tokens_of(const Block& block, Index first_key,
                             const BiasTile<R>& tile) noexcept {
    const AttentionSequence& s = block.sequence();
    const Index query = block.query(tile.first_row);
    return {s.batch,
            s.sequence_index,
            block.head(tile.first_row),
            s.first_query + query,
            s.query_offset + query,
            first_key + tile.first_lane,
            {block.positions(tile.first_row), static_cast<std::size_t>(tile.queries)},
            {tile.key_positions, static_cast<std::size_t>(tile.keys)}};
  }

 private:
  /// Returns the padded number of distances between a head's queries and a tile's keys.
  static constexpr Index toeplitz_stride(Index queries) noexcept {
    return (queries - 1 + tile_keys + panel_lanes - 1) / panel_lanes * panel_lanes;
  }

  const Bias& bias_;
  /// [heads of the group, toeplitz_stride(queries)]; lane 0 of a head's query n is at index queries
  /// - 1 - n.
  Real* toeplitz_ = nullptr;
  bool has_consecutive_queries_ = false;  ///< the block's queries are consecutive
};

}  // namespace detail
POSENC_END
