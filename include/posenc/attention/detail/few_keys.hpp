// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/kernels.hpp>
#include <posenc/attention/detail/row_block.hpp>
#include <posenc/attention/detail/slots.hpp>
#include <posenc/attention/detail/softmax.hpp>
#include <posenc/attention/detail/tile.hpp>
#include <posenc/simd/detail/unrolled.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <cstddef>

// The stage of single queries that meet few keys of a cache. A key head then has one chain of multiply-adds or a few,
// each of which waits for itself, so those of several heads are under way at once.
POSENC_BEGIN
namespace detail {

/// out(h, r, lane) <- factor * row(h, r) . lane of h, for one vector of lanes of several key heads.
template <class Tier, class Real>
struct ProductsOfTiles {
  using P = Pack<Real, Tier>;
  /// Chains that are under way at once, the most: as many as hide what a multiply-add takes, with registers to spare
  /// for what they are multiplied with.
  static constexpr Index chains = 8;

  const Real* rows;            ///< [heads, rows of a head, dim]
  const KeyTile<Real>* tiles;  ///< [heads]
  Index heads, dim;
  Real factor;
  Real* out;  ///< [heads, rows of a head, tile_lanes]

  /// For Rows rows of a head, which divide `chains`, and the vector that begins at `lane` of the first panel.
  template <Index Rows>
  void run(Index lane) const noexcept {
    run_from<chains / Rows, Rows>(0, lane);
  }

 private:
  template <Index Heads, Index Rows>
  void run_from(Index head, Index lane) const noexcept {
    for (; head + Heads <= heads; head += Heads) multiply<Heads, Rows>(head, lane);
    if constexpr (Heads > 1) run_from<Heads / 2, Rows>(head, lane);
  }

  template <Index Heads, Index Rows>
  POSENC_NOINLINE void multiply(Index head, Index lane) const noexcept {
    const Real* from[std::size_t{Heads}];
    for (Index h = 0; h < Heads; ++h) from[h] = tiles[head + h].keys + lane;
    const Real* x = rows + head * Rows * dim;
    P sums[std::size_t{Heads * Rows}];
    for (Index i = 0; i < Heads * Rows; ++i) sums[i] = P::zero();
    const auto add = [&](Index d) POSENC_INLINE_LAMBDA {
      for (Index h = 0; h < Heads; ++h) {
        const P key = P::load(from[h] + d * panel_lanes);
        for (Index i = h * Rows; i < (h + 1) * Rows; ++i) {
          sums[i] = mul_add(P::broadcast(x[i * dim + d]), key, sums[i]);
        }
      }
    };
    // A processor that takes what a load reads for a stream brings all lines of a panel, where every other one is
    // wanted, and the others take as long to come. It finds no stream where a loop has so many loads.
    constexpr Index at_once = Heads * Rows == chains ? 16 : 1;
    Index d = 0;
    for (; d + at_once <= dim; d += at_once) {
      unrolled<at_once>([&](Index i) POSENC_INLINE_LAMBDA { add(d + i); });
    }
    for (; d < dim; ++d) add(d);
    Real* const to = out + head * Rows * tile_lanes + lane;
    const P by = P::broadcast(factor);
    for (Index i = 0; i < Heads * Rows; ++i) (sums[i] * by).store(to + i * tile_lanes);
  }
};

/// A source that has its tiles as kernels read them, by the place in its list of sequences, head and tile.
template <class Source>
concept StoredSource = requires(const Source& source) {
  source.stored_tile(Index{}, Index{}, Index{});
};

/// What a thread keeps to take the few keys of several heads at once: where they lie, and the maximum and sum of
/// each row of a block.
template <class Tier, Scalar T, StoredSource Source>
class FewKeys {
 public:
  using Real = Compute<T>;

  /// Whether calls are served here. A head that has more rows, or more keys, has enough to do for itself, and of more
  /// keys, tiles are better read in the order of memory.
  static constexpr bool serves(Index queries, Index group, Index key_heads, Index keys) noexcept {
    return queries == 1 && (group == 1 || group == 2 || group == 4) &&
           key_heads * group >= Products::chains && keys <= panel_lanes / 2;
  }

  /// For blocks of up to `rows` rows, which are of `key_heads` key heads, or of those that are left of all.
  FewKeys(const Source& source, Index rows, Index key_heads, Carver& carver) noexcept
      : source_(source),
        tiles_(carver.take<KeyTile<Real>>(rows == 0 ? 0 : key_heads)),
        sums_(RowSums<Real>::carve(carver, rows, 0)),
        old_factors_(carver.take<Real>(rows + rows_at_once)),
        new_factors_(carver.take<Real>(rows + rows_at_once)) {}

  template <class Block>
  void begin(const Block&) const noexcept {}

  /// A tile at hand of which no row has seen anything yet.
  template <class Block>
  void begin_tile(const Block& block) const noexcept {
    sums_.clear(block.rows(), 0);
  }
  /// Of the tile at hand, at a row.
  Real* highest(Index r) const noexcept { return sums_.highest + r; }
  Real* sum(Index r) const noexcept { return sums_.sum + r; }

  /// Whether all values of the tile at hand are known to be finite, after multiply().
  template <class Block>
  bool finite(const Block& block) const noexcept {
    const Index key_heads = block.rows() / block.rows_of_key_head();
    return std::all_of(tiles_, tiles_ + key_heads,
                       [](const KeyTile<Real>& tile) { return tile.finite; });
  }

  /// scores.of(strip) <- scale * q k for what strips see of a tile.
  template <class Block, class Scores>
  void multiply(const Block& block, const SeenTile& seen, const Scores& scores) const noexcept {
    const Index of_head = block.rows_of_key_head(), key_heads = block.rows() / of_head;
    for (Index h = 0; h < key_heads; ++h) {
      tiles_[h] = source_.stored_tile(block.sequence().key_row, block.key_head() + h, seen.tile);
    }
    const Index dim = block.setting().q.dim;
    const Products products{block.packed(0), tiles_,           key_heads, dim,
                            scores.scale(),  scores.of({0, 0})};
    for (Index lane = 0; lane < seen.keys.end - seen.first_key(); lane += Pack<Real, Tier>::width) {
      if (of_head == 1) products.template run<1>(lane);
      if (of_head == 2) products.template run<2>(lane);
      if (of_head == 4) products.template run<4>(lane);
    }
  }

  /// sums <- the tile at hand with those before it.
  ///   weights: scores.of(strip), those of hidden keys negative where Weights says so
  template <Skipped Weights, class Block, class Scores>
  void add_values(const Block& block, const SeenTile& seen, const Scores& scores,
                  const RowSums<Real>& sums) const noexcept {
    for (Index r = 0; r < block.rows(); r += rows_at_once) {
      merge_rows<Tier>(sums_.highest + r, sums_.sum + r, sums.highest + r, sums.sum + r,
                       old_factors_ + r, new_factors_ + r);
    }
    block.for_strips([&](const Strip& strip) {
      const Lanes lanes = Block::lanes_of(seen, strip);
      if (lanes.empty()) return;
      const Index head = strip.first / block.rows_of_key_head();
      const KeyTile<Real>& tile = tiles_[head];
      for_bundles<Tier>(strip.rows, WeightedSums<Tier, Real, Real, Weights>{
                                        scores.of(strip),
                                        tile.values,
                                        tile.value_stride,
                                        tile.value_stride,
                                        lanes,
                                        old_factors_ + strip.first,
                                        new_factors_ + strip.first,
                                        sums.out + strip.first * tile.value_stride,
                                        {after(block, head).values}});
    });
  }

 private:
  using Products = ProductsOfTiles<Tier, Real>;

  /// The tile of the next key head, if the block has one.
  template <class Block>
  const KeyTile<Real>& after(const Block& block, Index head) const noexcept {
    return tiles_[(std::min)(head + 1, block.rows() / block.rows_of_key_head() - 1)];
  }

  const Source& source_;
  KeyTile<Real>* tiles_;  ///< of each key head of the block
  RowSums<Real> sums_;    ///< but for values
  Real *old_factors_, *new_factors_;
};

}  // namespace detail
POSENC_END
