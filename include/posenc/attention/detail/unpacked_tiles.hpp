// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/detail/query_block.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/row_products.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <type_traits>

// Path of few queries: products with keys and values that are read unpacked from the user's
// tensors. Packing a tile for so few products costs more than it saves. A block has rows of several
// KV heads, and is computed in small chunks of keys: a chunk of each head comes before the next
// keys. Memory is then read as a few ascending streams, which hardware prefetchers follow. Keys of
// a single head lie pages apart, and reading one head after the other takes twice as long.
POSENC_BEGIN
namespace detail {

/// Reader of unpacked keys and values of tensors, see PackedTiles.
template <class Tier, Scalar T>
class UnpackedTiles {
 public:
  using Real = Compute<T>;
  using Stored = Real;
  static constexpr bool is_unpacked = true;
  static constexpr RowsInPlace rows_in_place = RowsInPlace::Dense;

  UnpackedTiles(const HeadsView<const T>& k, const HeadsView<const T>& v) noexcept : k_(k), v_(v) {}

  /// Memory of a thread: softmax state of the current tile, for blocks of up to `rows` rows.
  struct Scratch {
    SoftmaxState<Real> tile_state;
  };
  Scratch allocate(ArenaAllocator& allocator, Index rows) const noexcept {
    return {SoftmaxState<Real>::allocate(allocator, rows, sum_dim())};
  }

  template <class Block>
  KvTile<Stored> tile(const Block&, const TileVisibility&, const Scratch&) const noexcept {
    return {};
  }

  /// Calls visit(all rows of the block, true).
  template <class Block, class Visit>
  static void for_batches(const Block& block, const TileVisibility&, const Visit& visit) {
    visit(Strip{0, block.rows()}, true);
  }
  /// Calls visit(rows, lanes) for rows of the block with equal visibility, if any lane is active.
  template <class Block, class Visit>
  static void for_uniform_rows(const Block& block, const TileVisibility& seen, const Strip&,
                               const Visit& visit) {
    block.for_uniform_rows([&](const Strip& strip) {
      const ActiveLanes lanes = Block::active_lanes(seen, strip);
      if (!lanes.empty()) visit(strip, lanes);
    });
  }

  /// scores.strip_scores(all rows) <- scale * q k for the active lanes.
  template <class Block, class Scores>
  void compute_products(const Block& block, const TileVisibility& seen, const KvTile<Stored>&,
                        const Strip& batch, const Scores& scores) const noexcept {
    compute_products(block, seen, scores);
    for_uniform_rows(block, seen, batch, [&](const Strip& strip, const ActiveLanes&) {
      scores.apply_pre_bias_epilogue(block, seen, strip);
    });
  }

  /// Returns the softmax state that receives the results of a tile, which is `sums` for the first
  /// tile.
  SoftmaxState<Real> stats(const Strip& batch, const SoftmaxState<Real>& sums, bool first,
                           const Scratch& scratch) const noexcept {
    const SoftmaxState<Real>& tile_state = first ? sums : scratch.tile_state;
    tile_state.clear(batch.rows, sum_dim());
    return tile_state;
  }

  /// Merges the state of a tile into `sums`.
  ///   marks_masked: true if weights of masked keys are negative
  ///   tile_state: result of stats()
  template <class Block, class Scores>
  void add_values(const Block& block, const TileVisibility& seen, const KvTile<Stored>&,
                  const Strip& batch, const Scores& scores, bool marks_masked,
                  const SoftmaxState<Real>& tile_state, const SoftmaxState<Real>& sums,
                  bool first) const noexcept {
    if constexpr (std::is_same_v<Real, float>) {
      if (block.plan().rounds_probabilities) {
        for_uniform_rows(block, seen, batch, [&](const Strip& strip, const ActiveLanes& lanes) {
          round_weights_to_bfloat16<Tier>(lanes, strip.rows, scores.strip_scores(strip));
        });
      }
    }
    dispatch_skip_weights<SkipWeights::Negative>(
        !marks_masked, [&]<SkipWeights Weights>(std::integral_constant<SkipWeights, Weights>) {
          if (block.rows_per_kv_head() == 1) {
            add_values_single_row<Weights>(block, seen, scores, tile_state);
          } else {
            add_values<Weights>(block, seen, scores, tile_state);
          }
        });
    if (!first) merge_softmax_states<Tier>(sums, tile_state, batch.rows, sum_dim());
  }

 private:
  using P = Pack<Real, Tier>;
  static constexpr Index width = P::width;
  using DotKernel = UnpackedDotKernel<Tier, Real, T>;
  template <SkipWeights Weights>
  using SumKernel = UnpackedWeightedSumKernel<Tier, Real, T, Weights>;

  /// Keys per chunk, which is the number of memory streams. Hardware prefetchers do not follow
  /// more, and more rows with a stride of a multiple of 4 KiB conflict in L1.
  static constexpr Index keys_per_chunk = 16;
  /// Returns the number of values per chunk. With a few rows, each row reads the chunk in two
  /// halves of the channels, and only a shorter chunk is still in L1 when the next row reads it.
  /// With more rows the kernel is compute-bound.
  static constexpr Index values_per_chunk(Index rows_per_kv_head) noexcept {
    return rows_per_kv_head > 1 && rows_per_kv_head <= 4 ? keys_per_chunk / 2 : keys_per_chunk;
  }
  /// Values per chunk if each KV head has one row. The kernel is then memory-bound.
  static constexpr Index values_per_chunk_single_row = 8;
  /// Prefetch distance in chunks.
  static constexpr Index prefetch_chunks = 2;
  /// Maximum rows per KV head for which products of several KV heads are interleaved.
  static constexpr Index max_interleaved_rows = 1;

  Index sum_dim() const noexcept { return padded_value_dim(v_.dim); }

  template <class Block, class Scores>
  void compute_products(const Block& block, const TileVisibility& seen,
                        const Scores& scores) const noexcept {
    const Index interleaved =
        block.rows_per_kv_head() <= max_interleaved_rows && block.has_uniform_visibility()
            ? DotKernel::heads_per_pass
            : 1;
    for_chunks(keys_per_chunk, interleaved, block, seen,
               [&](Index head, Index heads, Index first, const KeyRange& keys) {
                 const T* const from =
                     row(k_, block, block.kv_head() + head, seen.first_key() + first);
                 PrefetchRows<T> ahead[DotKernel::heads_per_pass];
                 for (Index h = 0; h < heads; ++h) {
                   ahead[h] = rows_to_prefetch(keys_per_chunk, k_, block, seen, head + h, first);
                 }
                 for_strips_of_kv_head(block, head, [&](const Strip& strip) {
                   const ActiveLanes lanes = Block::active_lanes(seen, strip);
                   if (!lanes.has_panel(first / panel_lanes)) return;
                   for (Index n = 0; n < keys_per_chunk && first + n < lanes.end; n += width) {
                     DotKernel kernel{.rows = block.packed(strip.first),
                                      .keys = from + n * k_.seq_stride,
                                      .head_stride = k_.head_stride,
                                      .seq_stride = k_.seq_stride,
                                      .dim = k_.dim,
                                      .begin = keys.begin - first - n,
                                      .end = keys.end - first - n,
                                      .factor = scores.scale(),
                                      .out = scores.strip_scores(strip) + first + n,
                                      .ahead = {}};
                     if (block.is_first_of_kv_head(strip)) {
                       for (Index h = 0; h < heads; ++h) {
                         kernel.ahead[h] = ahead[h].part(n, width, k_.seq_stride);
                       }
                     }
                     if (heads > 1) {
                       kernel.template run<1, DotKernel::heads_per_pass>(0);
                     } else {
                       for_register_tiles<Tier>(strip.rows, kernel);
                     }
                   }
                 });
               });
  }

  template <SkipWeights Weights, class Block, class Scores>
  void add_values(const Block& block, const TileVisibility& seen, const Scores& scores,
                  const SoftmaxState<Real>& tile_state) const noexcept {
    const Index size = values_per_chunk(block.rows_per_kv_head());
    for_chunks(size, 1, block, seen, [&](Index head, Index, Index first, const KeyRange& keys) {
      const PrefetchRows<T> ahead = rows_to_prefetch(size, v_, block, seen, head, first);
      for_strips_of_kv_head(block, head, [&](const Strip& strip) {
        const ActiveLanes lanes = Block::active_lanes(seen, strip);
        if (!lanes.has_panel(first / panel_lanes)) return;
        const Index begin = (std::max)(keys.begin, lanes.begin);
        const Index end = (std::min)(keys.end, lanes.end);
        if (begin >= end) return;
        for_register_tiles<Tier>(
            strip.rows,
            SumKernel<Weights>{
                .weights = scores.strip_scores(strip) + begin,
                .values = row(v_, block, block.kv_head() + head, seen.first_key() + begin),
                .stride = v_.seq_stride,
                .keys = end - begin,
                .dim = v_.dim,
                .sums = tile_state.out + strip.first * sum_dim(),
                .sum_dim = sum_dim(),
                .ahead = block.is_first_of_kv_head(strip) ? ahead : PrefetchRows<T>{}});
      });
    });
  }

  /// Like add_values(), for one row per KV head: the work per row of values is so short that the
  /// selection of the next one must be short as well.
  template <SkipWeights Weights, class Block, class Scores>
  void add_values_single_row(const Block& block, const TileVisibility& seen, const Scores& scores,
                             const SoftmaxState<Real>& tile_state) const noexcept {
    const T* const values = row(v_, block, block.kv_head(), seen.first_key());
    const Real* const weights = scores.strip_scores(Strip{0, 1});
    const Index stride = v_.seq_stride, head_stride = v_.head_stride, dim = v_.dim;
    const Index padded = sum_dim();
    Real* const sums = tile_state.out;
    for_chunks(values_per_chunk_single_row, 1, block, seen,
               [&](Index r, Index, Index first, const KeyRange& keys) {
                 const ActiveLanes& lanes = seen.strip_lanes[r];
                 if (!lanes.has_panel(first / panel_lanes)) return;
                 const Index begin = (std::max)(keys.begin, lanes.begin);
                 const Index end = (std::min)(keys.end, lanes.end);
                 if (begin >= end) return;
                 SumKernel<Weights>{.weights = weights + r * tile_lanes + begin,
                                    .values = values + r * head_stride + begin * stride,
                                    .stride = stride,
                                    .keys = end - begin,
                                    .dim = dim,
                                    .sums = sums + r * padded,
                                    .sum_dim = padded,
                                    .ahead = {}}
                     .template run<1>(0);
               });
  }

  /// Calls work(first KV head, heads, first lane, lanes of it that some row sees) for each chunk:
  /// `size` keys of `interleaved` KV heads, or of one KV head if fewer are left.
  template <class Block, class Work>
  static void for_chunks(Index size, Index interleaved, const Block& block,
                         const TileVisibility& seen, const Work& work) noexcept {
    const KeyRange lanes{seen.keys.begin - seen.first_key(), seen.keys.end - seen.first_key()};
    const Index kv_heads = block.rows() / block.rows_per_kv_head();
    // Chunks start at the start of a panel, because a panel is multiplied completely.
    for (Index first = lanes.begin / panel_lanes * panel_lanes; first < lanes.end; first += size) {
      const KeyRange keys{(std::max)(first, lanes.begin), (std::min)(first + size, lanes.end)};
      for (Index h = 0; h < kv_heads;) {
        const Index heads = h + interleaved <= kv_heads ? interleaved : 1;
        work(h, heads, first, keys);
        h += heads;
      }
    }
  }

  /// Returns the rows of the chunk that is prefetch_chunks after this one, if the tile has it.
  template <class Block>
  static PrefetchRows<T> rows_to_prefetch(Index size, const HeadsView<const T>& x,
                                          const Block& block, const TileVisibility& seen,
                                          Index head, Index first) noexcept {
    const Index kv_heads = block.rows() / block.rows_per_kv_head();
    const Index then = head + prefetch_chunks;
    const Index key = seen.first_key() + first + then / kv_heads * size;
    if (key >= seen.keys.end) return {};
    return {row(x, block, block.kv_head() + then % kv_heads, key),
            (std::min)(size, seen.keys.end - key)};
  }

  template <class Block, class Visit>
  static void for_strips_of_kv_head(const Block& block, Index head, const Visit& visit) noexcept {
    const Index begin = head * block.rows_per_kv_head(), end = begin + block.rows_per_kv_head();
    for (Index r = begin; r < end;) {
      const Strip strip{r, block.strip_size_at(r - begin)};
      visit(strip);
      r += strip.rows;
    }
  }

  template <class Block>
  static const T* row(const HeadsView<const T>& x, const Block& block, Index head,
                      Index key) noexcept {
    const AttentionSequence& s = block.sequence();
    return x.row(s.batch, s.first_key + key, head);
  }

  const HeadsView<const T>&k_, &v_;
};

}  // namespace detail
POSENC_END
