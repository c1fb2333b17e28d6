// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/detail/attention_plan.hpp>
#include <posenc/attention/detail/block_sizes.hpp>
#include <posenc/core/config.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <numeric>

POSENC_BEGIN
namespace detail {

/// Strategy of a forward call: packed tiles or pieces of them, and the blocks of rows.
struct ForwardStrategy {
  bool reads_pieces = false;  ///< few queries read pieces of tiles, see ForwardWorker
  Index queries_per_block = 1;
  Index kv_heads_per_block = 1;
  Index kv_head_blocks = 0;  ///< number of groups of kv_heads_per_block KV heads
  Index rows_per_block = 0;
  Index blocks = 0;
  /// Split-K: number of tiles of a block that threads compute concurrently. 0 if one thread
  /// computes all tiles of a block.
  Index split_k_tiles = 0;

  Index query_blocks(const AttentionSequence& s) const noexcept {
    return (s.queries + queries_per_block - 1) / queries_per_block;
  }
  Index blocks_of(const AttentionSequence& s) const noexcept {
    return kv_head_blocks * query_blocks(s);
  }
};

/// Returns the number of queries of a block, at most `max_queries`, so that blocks are balanced and
/// have full strips. Balance matters because a last block of few rows packs as many tiles as a
/// block of many.
template <class Tier>
constexpr Index balanced_block_queries(Index queries, Index max_queries, Index group) noexcept {
  const Index blocks = (queries - 1) / max_queries + 1, share = (queries - 1) / blocks + 1;
  const Index strip = register_tile_rows<Tier> / std::gcd(register_tile_rows<Tier>, group);
  return (std::min)(max_queries, (share + strip - 1) / strip * strip);
}

/// Returns the strategy of a call on `threads` threads.
///   can_use_pieces: the source has pieces, and no stage reads complete tiles
template <class Tier, Scalar T>
POSENC_COLD ForwardStrategy choose_strategy(const AttentionPlan<T>& plan, bool can_use_pieces,
                                            Index threads) noexcept {
  const AttentionGeometry<T>& geometry = plan.geometry;
  const Index queries = (std::max)(geometry.max_queries(), Index{1});
  ForwardStrategy chosen;
  chosen.reads_pieces = can_use_pieces && queries * plan.group <= max_piece_rows;
  const auto count_blocks = [&] {
    chosen.rows_per_block = chosen.queries_per_block * plan.group * chosen.kv_heads_per_block;
    chosen.kv_head_blocks =
        (plan.kv_heads + chosen.kv_heads_per_block - 1) / chosen.kv_heads_per_block;
    chosen.blocks = 0;
    for (Index n = 0; n < geometry.sequences(); ++n) {
      chosen.blocks += chosen.blocks_of(geometry.sequence(n));
    }
  };
  const auto set_block_rows = [&](Index rows) {
    const Index max_queries = (std::clamp)(rows / plan.group, Index{1}, queries);
    chosen.queries_per_block = balanced_block_queries<Tier>(queries, max_queries, plan.group);
    count_blocks();
  };
  set_block_rows(max_long_block_rows);
  if (plan.has_bias || chosen.blocks < 4 * threads) set_block_rows(max_block_rows);
  // If there are fewer blocks than threads, smaller blocks may give each thread one. They also
  // bound the softmax states that split-K keeps.
  if (chosen.blocks < threads) set_block_rows(max_split_k_rows);
  if (chosen.reads_pieces && chosen.blocks > 0) {
    // Each thread keeps at least one block.
    const Index max_kv_heads = (std::max)(chosen.blocks / threads, Index{1});
    chosen.kv_heads_per_block =
        (std::min)(plan.kv_heads,
                   (std::clamp)(max_block_rows / chosen.rows_per_block, Index{1}, max_kv_heads));
    count_blocks();
  }
  if (chosen.blocks < threads) {
    const Index tiles = (geometry.max_keys() + tile_keys - 1) / tile_keys;
    const Index kept = (std::min)(tiles, max_split_k_state_rows / chosen.rows_per_block);
    chosen.split_k_tiles = kept > 1 ? kept : 0;
  }
  return chosen;
}

}  // namespace detail
POSENC_END
