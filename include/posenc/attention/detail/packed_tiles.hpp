// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/row_block.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/slots.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/tensor/scalar.hpp>

// The way of most calls: products with tiles that a source packs, or has packed, strip by strip of a block's rows.
POSENC_BEGIN
namespace detail {

/// Reads packed tiles of a source. A reader forms a block's products with a tile in batches of rows, and the schedule
/// does the same with any: tile(), then for each of for_batches() multiply(), and from the scores of its
/// for_uniform_rows() weights, with maxima and sums in stats(), then add_values().
template <class Tier, Scalar T, class Source>
class PackedTiles {
 public:
  using Real = Compute<T>;
  using Stored = typename Source::Stored;
  using Scratch = typename Source::Scratch;
  /// True if a block has rows of several KV heads, whose scores of a tile are all kept, and it only shows in the
  /// weights whether values of masked keys have to be skipped.
  static constexpr bool is_unpacked = false;
  static constexpr RowsInPlace rows_in_place = RowsInPlace::Padded;

  explicit PackedTiles(const Source& source) noexcept : source_(source) {}

  Scratch carve(Carver& carver, Index) const noexcept { return source_.carve(carver); }

  template <class Block>
  KeyTile<Stored> tile(const Block& block, const SeenTile& seen,
                       const Scratch& scratch) const noexcept {
    return source_.tile(block.sequence(), block.key_head(), seen.tile, seen.keys, scratch);
  }

  /// Calls visit(batch, true if its rows see keys of the tile) for each strip.
  template <class Block, class Visit>
  static void for_batches(const Block& block, const SeenTile& seen, const Visit& visit) {
    block.for_strips(
        [&](const Strip& strip) { visit(strip, !Block::lanes_of(seen, strip).empty()); });
  }
  /// Calls visit(strip, lanes that it sees).
  template <class Block, class Visit>
  static void for_uniform_rows(const Block&, const SeenTile& seen, const Strip& strip,
                               const Visit& visit) {
    visit(strip, Block::lanes_of(seen, strip));
  }

  /// scores.of(strip) <- scale * q k for what a strip sees of a tile.
  template <class Block, class Scores>
  static void multiply(const Block& block, const SeenTile& seen, const KeyTile<Stored>& keys,
                       const Strip& strip, const Scores& scores) noexcept {
    scores.multiply(block, seen, keys, strip);
  }

  static StripSums<Real> stats(const Strip&, const RowSums<Real>&, bool, const Scratch&) noexcept {
    return {};
  }

  /// sums(strip) <- the tile's with those of earlier tiles.
  ///   hides: true if weights of masked keys are negative
  ///   of_tile: what stats() returned, with the strip's maxima and sums
  ///   first: true if there is no earlier tile; sums.out may hold anything then
  template <class Block, class Scores>
  static void add_values(const Block& block, const SeenTile& seen, const KeyTile<Stored>& keys,
                         const Strip& strip, const Scores& scores, bool hides,
                         const StripSums<Real>& of_tile, const RowSums<Real>& sums,
                         bool first) noexcept {
    alignas(64) Real old_factor[rows_at_once], new_factor[rows_at_once];
    merge_rows<Tier>(of_tile.highest, of_tile.sum, sums.highest + strip.first,
                     sums.sum + strip.first, old_factor, new_factor);
    skip_unless_finite<Skipped::Negative>(
        !hides, [&]<Skipped Weights>(std::integral_constant<Skipped, Weights>) {
          for_bundles<Tier>(strip.rows, WeightedSums<Tier, Real, Stored, Weights>{
                                            .weights = scores.of(strip),
                                            .values = keys.values,
                                            .stride = keys.value_stride,
                                            .dim = keys.value_stride,
                                            .lanes = Block::lanes_of(seen, strip),
                                            .old_factor = first ? nullptr : old_factor,
                                            .new_factor = new_factor,
                                            .out = sums.out + strip.first * keys.value_stride,
                                            .ahead = {.after = keys.next_keys,
                                                      .brought = !block.begins_key_head(strip)}});
        });
  }

 private:
  const Source& source_;
};

}  // namespace detail
POSENC_END
