// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_plan.hpp>
#include <posenc/attention/detail/erased_bias.hpp>
#include <posenc/attention/detail/kernel_tile.hpp>
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

// Bias stage: adds a bias to a tile's scores.
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

/// Sets the members of a QueryBias's block that all blocks of a call share, and allocates scratch
/// memory.
///   queries: maximum number of queries of a block
///   bias: ErasedBias or its BiasGradients
template <class Bias, Scalar T>
void set_up_block(const AttentionPlan<T>& plan, Index queries, const Bias& bias,
                  ArenaAllocator& allocator, QueryBiasBlock<T>& to) {
  to.q = plan.q;
  to.scale = plan.scale;
  to.queries = queries;
  to.heads = plan.group;
  to.scratch = allocator.allocate<std::byte>(static_cast<Index>(bias.scratch_bytes(to)));
}

/// Describes a block of rows to a QueryBias.
template <class Block, Scalar T>
void describe_block(const Block& block, QueryBiasBlock<T>& to) noexcept {
  to.batch = block.sequence().batch;
  to.queries = block.rows() / block.plan().group;
  to.first_query = block.sequence().first_query + (to.queries == 0 ? 0 : block.query(0));
  to.first_head = block.first_head();
}

/// Stage of a bias.
template <class Tier, Scalar T, class S>
class BiasStage {
 public:
  using Real = Compute<T>;
  using Block = QueryBlock<Tier, T, S>;
  using Tile = KernelTile<Tier, T, S>;

  ///   rows, queries: those of a block of one KV head
  ///   by_strip: strips may get their bias separately
  BiasStage(const AttentionPlan<T>& plan, const ErasedBias<T>& bias, Index rows, Index queries,
            bool by_strip, ArenaAllocator& allocator)
      : bias_(bias) {
    if (bias.is_distance_bias() && by_strip && queries > 1) {
      toeplitz_ = allocator.allocate<Real>(rows / queries * toeplitz_stride(queries));
    }
    if (!bias.reads_queries()) return;
    if (bias.reads_keys()) unpacked_keys_ = allocator.allocate<Real>(tile_keys * plan.q.dim);
    set_up_block(plan, queries, bias, allocator, block_);
  }

  void begin(const Block& block) {
    if (bias_.reads_queries()) {
      describe_block(block, block_);
      bias_.begin(block_);
    }
    if (toeplitz_ == nullptr) return;
    const Index group = block.plan().group;
    has_consecutive_queries_ =
        block.rows() > group && block.rows() == block.rows_per_kv_head() &&
        are_consecutive<Tier>({block.positions(), static_cast<std::size_t>(block.rows() / group)});
  }

  /// Computes the values of a DistanceBias for all strips of a tile, if there is one and its
  /// queries and keys are consecutive. Call it before the tile's strips. Returns true if
  /// add_to_strip() can then add them.
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

  ///   panels: keys of the tile, which only a QueryBias reads
  void add(const Block& block, Index first_key, const S* panels, const BiasTile<Real>& tile) const {
    const TokenTile tokens = tokens_of(block, first_key, tile);
    if (!bias_.reads_queries()) return bias_.add(tokens, tile.scores);
    bias_.add(query_tile(block_, tokens, panels), tile.scores);
  }

  /// Returns the tile of a QueryBias.
  Tile query_tile(const QueryBiasBlock<T>& block, const TokenTile& tokens,
                  const S* panels) const noexcept {
    return {{block, tokens}, panels, unpacked_keys_};
  }

  /// Returns the tokens of a tile.
  template <class R>
  static TokenTile tokens_of(const Block& block, Index first_key,
                             const BiasTile<R>& tile) noexcept {
    const AttentionSequence& s = block.sequence();
    const Index query = block.query(tile.first_row);
    return {.batch = s.batch,
            .sequence = s.sequence_index,
            .head = block.head(tile.first_row),
            .first_query = s.first_query + query,
            .aligned_key = s.query_offset + query,
            .first_key = first_key + tile.first_lane,
            .query_positions = {block.positions(tile.first_row),
                                static_cast<std::size_t>(tile.queries)},
            .key_positions = {tile.key_positions, static_cast<std::size_t>(tile.keys)}};
  }

 private:
  /// Returns the padded number of distances between a head's queries and a tile's keys.
  static constexpr Index toeplitz_stride(Index queries) noexcept {
    return (queries - 1 + tile_keys + panel_lanes - 1) / panel_lanes * panel_lanes;
  }

  const ErasedBias<T>& bias_;
  KernelBlock<Tier, T, S> block_;  ///< of a QueryBias
  Real* unpacked_keys_ = nullptr;
  /// [heads of the group, toeplitz_stride(queries)]; lane 0 of a head's query n is at index queries
  /// - 1 - n.
  Real* toeplitz_ = nullptr;
  bool has_consecutive_queries_ = false;  ///< the block's queries are consecutive
};

}  // namespace detail
POSENC_END
