// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/query_block.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/tensor/scalar.hpp>

// Default path: products with packed tiles of a source, strip by strip.
POSENC_BEGIN
namespace detail {

/// Reader of packed tiles. A reader computes a block's products with a tile in batches of rows.
/// Here a batch is a strip. The schedule calls the same functions for every reader:
///   - tile(), once per tile
///   - compute_products(), for each batch of for_batches()
///   - stats(), which returns memory for the batch's maxima and sums. The schedule then computes
///     weights from the scores of for_uniform_rows()
///   - add_values(), which multiplies these weights with the values
template <class Tier, Scalar T, class Source>
class PackedTiles {
 public:
  using Real = Compute<T>;
  using Stored = typename Source::Stored;
  using Scratch = typename Source::Scratch;
  /// True for a reader of unpacked keys and values. Its blocks have rows of several KV heads, and
  /// it keeps the scores of all rows for a tile. It does not know whether values are finite, so
  /// masked keys are found by their scores.
  static constexpr bool is_unpacked = false;
  static constexpr RowsInPlace rows_in_place = RowsInPlace::Padded;

  explicit PackedTiles(const Source& source) noexcept : source_(source) {}

  Scratch allocate(ArenaAllocator& allocator, Index) const noexcept {
    return source_.allocate(allocator);
  }

  template <class Block>
  KvTile<Stored> tile(const Block& block, const TileVisibility& seen,
                      const Scratch& scratch) const noexcept {
    return source_.tile(block.sequence(), block.kv_head(), seen.tile, seen.keys, scratch);
  }

  /// Calls visit(strip, true if its rows see keys of the tile) for each strip.
  template <class Block, class Visit>
  static void for_batches(const Block& block, const TileVisibility& seen, const Visit& visit) {
    block.for_strips(
        [&](const Strip& strip) { visit(strip, !Block::active_lanes(seen, strip).empty()); });
  }
  /// Calls visit(strip, its active lanes).
  template <class Block, class Visit>
  static void for_uniform_rows(const Block&, const TileVisibility& seen, const Strip& strip,
                               const Visit& visit) {
    visit(strip, Block::active_lanes(seen, strip));
  }

  /// scores.strip_scores(strip) <- scale * q k for the active lanes of a strip.
  template <class Block, class Scores>
  static void compute_products(const Block& block, const TileVisibility& seen,
                               const KvTile<Stored>& keys, const Strip& strip,
                               const Scores& scores) noexcept {
    scores.compute_products(block, seen, keys, strip);
  }

  static StripStats<Real> stats(const Strip&, const SoftmaxState<Real>&, bool,
                                const Scratch&) noexcept {
    return {};
  }

  /// Merges the strip's state of a tile into `sums`.
  ///   marks_masked: true if weights of masked keys are negative
  ///   tile_state: result of stats(), with the strip's maxima and sums
  ///   first: true if there is no earlier tile; sums.out is then uninitialised
  template <class Block, class Scores>
  static void add_values(const Block& block, const TileVisibility& seen, const KvTile<Stored>& keys,
                         const Strip& strip, const Scores& scores, bool marks_masked,
                         const StripStats<Real>& tile_state, const SoftmaxState<Real>& sums,
                         bool first) noexcept {
    alignas(64) Real accumulator_scale[stats_rows], tile_scale[stats_rows];
    update_softmax_stats<Tier>(tile_state.row_max, tile_state.sum, sums.row_max + strip.first,
                               sums.sum + strip.first, accumulator_scale, tile_scale);
    const ActiveLanes lanes = Block::active_lanes(seen, strip);
    Real* const weights = scores.strip_scores(strip);
    const auto add = [&](const auto* factors) {
      using W = std::remove_cvref_t<decltype(*factors)>;
      dispatch_skip_weights<SkipWeights::Negative>(
          !marks_masked, [&]<SkipWeights Weights>(std::integral_constant<SkipWeights, Weights>) {
            for_register_tiles<Tier>(strip.rows,
                                     WeightedSumKernel<Tier, Real, Stored, Weights, W>{
                                         .weights = factors,
                                         .values = keys.values,
                                         .stride = keys.value_stride,
                                         .dim = keys.value_stride,
                                         .lanes = lanes,
                                         .accumulator_scale = first ? nullptr : accumulator_scale,
                                         .tile_scale = tile_scale,
                                         .out = sums.out + strip.first * keys.value_stride,
                                         .ahead = {.next_region = keys.prefetch_hint,
                                                   .is_cached = !block.is_first_of_kv_head(strip),
                                                   .is_stored = keys.is_stored}});
          });
    };
    if (block.plan().rounds_probabilities) {
      if constexpr (pair_products<Tier, Stored, Stored>) {
        alignas(64) Stored pairs[Block::strip_rows * tile_lanes];
        store_bfloat16_weights<Tier>(lanes, strip.rows, weights, pairs);
        return add(pairs);
      } else if constexpr (std::is_same_v<Real, float>) {
        round_weights_to_bfloat16<Tier>(lanes, strip.rows, weights);
      }
    }
    add(weights);
  }

 private:
  const Source& source_;
};

}  // namespace detail
POSENC_END
