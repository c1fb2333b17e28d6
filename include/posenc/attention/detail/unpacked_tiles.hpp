// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/places.hpp>
#include <posenc/attention/detail/row_block.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/slots.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/simd/detail/prefetch.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/detail/unrolled.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/simd/transpose.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <type_traits>

// The way of few queries: products with keys and values that are read where the user's tensors have them. Packing a
// tile for so few products costs more than it saves. A block has rows of several KV heads, and some keys of each head
// come before the next keys: memory is then read as a few ascending streams, which a processor's prefetchers follow.
// The keys of a single head lie pages apart, and reading them one head after the other takes twice as long.
POSENC_BEGIN
namespace detail {

/// Rows of keys or values to prefetch.
template <class T>
struct PrefetchRows {
  const T* first = nullptr;
  Index count = 0;

  /// The next `most` of them from the nth on, `stride` apart.
  PrefetchRows part(Index n, Index most, Index stride) const noexcept {
    if (n >= count) return {};
    return {first + n * stride, (std::min)(most, count - n)};
  }
};

/// out(h, r, key) <- factor * row(h, r) . key(h) for P::width unpacked keys of one KV head, or of several whose chains
/// of multiply-adds are interleaved.
template <class Tier, class Real, class T>
struct UnpackedDotKernel {
  using P = Pack<Real, Tier>;
  /// KV heads per pass where each has few rows: a single chain has no more than half of what the processor can do.
  static constexpr Index heads_per_pass = 2;

  const Real* rows;  ///< [heads, rows, dim]
  const T* keys;     ///< [heads, P::width, dim], head_stride and seq_stride apart
  Index head_stride, seq_stride, dim;
  Index begin, end;  ///< existing keys; the products of others are zeros
  Real factor;
  Real* out;                              ///< [heads, rows, tile_lanes]
  PrefetchRows<T> ahead[heads_per_pass];  ///< of each head

  template <Index Rows>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    run<Rows, 1>(r);
  }
  /// For all rows of `Heads` KV heads, of which each has `Rows`.
  template <Index Rows, Index Heads>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    if (begin <= 0 && end >= P::width) {
      multiply<Rows, Heads>(r, [](Index) { return true; });
    } else {
      multiply<Rows, Heads>(r, [this](Index i) { return begin <= i && i < end; });
    }
  }

 private:
  template <Index Rows, Index Heads, class Exists>
  POSENC_NOINLINE void multiply(Index first_row, const Exists& exists) const noexcept {
    const Real* x = rows + first_row * dim;
    const T* from = keys;
    // Complete rows, distributed over the square blocks: prefetchers do not follow a line here and a line there.
    const Index blocks = (dim + P::width - 1) / P::width;
    const T* next[std::size_t{Heads}];
    Index left[std::size_t{Heads}], due = 0;
    unrolled<Heads>([&](Index h) POSENC_INLINE_LAMBDA {
      next[h] = ahead[h].first;
      left[h] = first_row == 0 ? ahead[h].count : 0;
    });
    P sums[std::size_t{Heads * Rows}];
    unrolled<Heads * Rows>([&](Index i) POSENC_INLINE_LAMBDA { sums[i] = P::zero(); });
    // Inlined by force, with a number of channels that is known: clang++ 14 would call it for each square block, and
    // load channels from memory one after the other.
    const auto add = [&](auto is_full, Index channels) POSENC_INLINE_LAMBDA {
      for (due += P::width; due >= blocks && left[0] > 0; due -= blocks) {
        unrolled<Heads>([&](Index h) POSENC_INLINE_LAMBDA {
          if (left[h] == 0) return;
          prefetch(next[h], dim * Index{sizeof(T)});
          next[h] += seq_stride;
          --left[h];
        });
      }
      unrolled<Heads>([&](Index h) POSENC_INLINE_LAMBDA {
        P block[P::width];
        unrolled<P::width>([&](Index i) POSENC_INLINE_LAMBDA {
          // Addresses of existing keys only: the stride of a single key or head may be anything.
          const auto key = [&] {
            return from + (Heads > 1 ? h * head_stride : 0) + i * seq_stride;
          };
          block[i] = !exists(i) ? P::zero()
                     : is_full  ? load_as<P>(key())
                                : load_partial_as<P>(key(), channels);
        });
        if constexpr (P::width > 1) transpose(block);
        const auto add_channel = [&](Index c) POSENC_INLINE_LAMBDA {
          unrolled<Rows>([&](Index n) POSENC_INLINE_LAMBDA {
            const Index r = h * Rows + n;
            sums[r] = mul_add(P::broadcast(x[r * dim + c]), block[c], sums[r]);
          });
        };
        if constexpr (is_full) {
          unrolled<P::width>(add_channel);
        } else {
          for (Index c = 0; c < channels; ++c) add_channel(c);
        }
      });
      from += P::width;
      x += P::width;
    };
    Index d = 0;
    for (; d + P::width <= dim; d += P::width) add(std::true_type(), P::width);
    if (d < dim) add(std::false_type(), dim - d);
    const P by = P::broadcast(factor);
    unrolled<Heads * Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      (sums[r] * by).store(out + (first_row + r) * tile_lanes);
    });
  }
};

/// sums(r) <- sums(r) + sum over some keys of weights(r, key) values(key), for unpacked values: chains of
/// multiply-adds go on where an earlier piece ended.
template <class Tier, class Real, class T, Skipped Weights>
struct UnpackedWeightedSumKernel {
  using P = Pack<Real, Tier>;

  const Real* weights;  ///< [rows, tile_lanes], from the first of the keys on
  const T* values;      ///< [keys, dim], `stride` apart
  Index stride, keys, dim;
  Real* sums;             ///< [rows, sum_dim]
  Index sum_dim;          ///< whole vectors
  PrefetchRows<T> ahead;  ///< rows that are read soon

  template <Index Rows>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    constexpr Index columns = kernel_columns<Tier>(Rows);
    const auto whole = [](const T* from) { return load_as<P>(from); };
    Index d = 0;
    for (; d + columns * P::width <= dim; d += columns * P::width) add<Rows, columns>(r, d, whole);
    for (; d + P::width <= dim; d += P::width) add<Rows, 1>(r, d, whole);
    if (d < dim) {
      add<Rows, 1>(r, d, [n = dim - d](const T* from) { return load_partial_as<P>(from, n); });
    }
  }

 private:
  /// Key by key, so that what is read of a row lies together.
  template <Index Rows, Index Columns, class Load>
  POSENC_ALWAYS_INLINE void add(Index first_row, Index channel, const Load& load) const noexcept {
    Real* const to = sums + first_row * sum_dim + channel;
    const Real* w = weights + first_row * tile_lanes;
    const T* from = values + channel;
    P parts[std::size_t{Rows}][std::size_t{Columns}];
    const auto for_parts = [&](const auto& visit) POSENC_INLINE_LAMBDA {
      unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
        unrolled<Columns>([&](Index c) POSENC_INLINE_LAMBDA {
          visit(parts[r][c], to + r * sum_dim + c * P::width);
        });
      });
    };
    for_parts([](P& part, const Real* at) POSENC_INLINE_LAMBDA { part = P::load(at); });
    // Each pass asks for what it has of a row itself: whole rows, asked for by the first one, are more than a core can
    // wait for at a time.
    const Index asked = first_row == 0 ? ahead.count : 0;
    for (Index j = 0; j < keys; ++j) {
      if (j < asked) {
        prefetch(ahead.first + j * stride + channel, Columns * P::width * Index{sizeof(T)});
      }
      P value[std::size_t{Columns}];
      unrolled<Columns>([&](Index c)
                            POSENC_INLINE_LAMBDA { value[c] = load(from + c * P::width); });
      unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
        if (is_skipped<Weights>(w[r * tile_lanes])) return;
        const P weight = P::broadcast(w[r * tile_lanes]);
        unrolled<Columns>([&](Index c) POSENC_INLINE_LAMBDA {
          parts[r][c] = mul_add(weight, value[c], parts[r][c]);
        });
      });
      from += stride;
      ++w;
    }
    for_parts([](const P& part, Real* at) POSENC_INLINE_LAMBDA { part.store(at); });
  }
};

/// Reads keys and values of tensors unpacked, see PackedTiles.
template <class Tier, Scalar T>
class UnpackedTiles {
 public:
  using Real = Compute<T>;
  using Stored = Real;
  static constexpr bool is_unpacked = true;
  static constexpr RowsInPlace rows_in_place = RowsInPlace::Dense;

  UnpackedTiles(const HeadsView<const T>& k, const HeadsView<const T>& v) noexcept : k_(k), v_(v) {}

  /// State of a thread: softmax state of the current tile, for blocks of up to `rows` rows.
  struct Scratch {
    RowSums<Real> of_tile;
  };
  Scratch carve(Carver& carver, Index rows) const noexcept {
    return {RowSums<Real>::carve(carver, rows, sum_dim())};
  }

  template <class Block>
  KeyTile<Stored> tile(const Block&, const SeenTile&, const Scratch&) const noexcept {
    return {};
  }

  /// Calls visit(all rows of the block, true).
  template <class Block, class Visit>
  static void for_batches(const Block& block, const SeenTile&, const Visit& visit) {
    visit(Strip{0, block.rows()}, true);
  }
  /// Calls visit(rows, lanes) for rows of the block that see the same keys of a tile, if they see any.
  template <class Block, class Visit>
  static void for_uniform_rows(const Block& block, const SeenTile& seen, const Strip&,
                               const Visit& visit) {
    block.for_uniform_rows([&](const Strip& strip) {
      const Lanes lanes = Block::lanes_of(seen, strip);
      if (!lanes.empty()) visit(strip, lanes);
    });
  }

  /// scores.of(all rows) <- scale * q k for what they see of a tile.
  template <class Block, class Scores>
  void multiply(const Block& block, const SeenTile& seen, const KeyTile<Stored>&,
                const Strip& batch, const Scores& scores) const noexcept {
    multiply(block, seen, scores);
    for_uniform_rows(block, seen, batch, [&](const Strip& strip, const Lanes&) {
      scores.finish_products(block, seen, strip);
    });
  }

  /// Returns the softmax state that takes what a tile yields: `sums`, where the tile is the first.
  RowSums<Real> stats(const Strip& batch, const RowSums<Real>& sums, bool first,
                      const Scratch& scratch) const noexcept {
    const RowSums<Real>& of_tile = first ? sums : scratch.of_tile;
    of_tile.clear(batch.rows, sum_dim());
    return of_tile;
  }

  /// sums <- the tile's with those of earlier tiles.
  ///   hides: true if weights of masked keys are negative
  ///   of_tile: what stats() returned
  template <class Block, class Scores>
  void add_values(const Block& block, const SeenTile& seen, const KeyTile<Stored>&,
                  const Strip& batch, const Scores& scores, bool hides,
                  const RowSums<Real>& of_tile, const RowSums<Real>& sums,
                  bool first) const noexcept {
    skip_unless_finite<Skipped::Negative>(
        !hides, [&]<Skipped Weights>(std::integral_constant<Skipped, Weights>) {
          if (block.rows_of_key_head() == 1) {
            add_values_of_single<Weights>(block, seen, scores, of_tile);
          } else {
            add_values<Weights>(block, seen, scores, of_tile);
          }
        });
    if (!first) merge_all<Tier>(sums, of_tile, batch.rows, sum_dim());
  }

 private:
  using P = Pack<Real, Tier>;
  static constexpr Index width = P::width;
  using DotKernel = UnpackedDotKernel<Tier, Real, T>;
  template <Skipped Weights>
  using WeightedSumKernel = UnpackedWeightedSumKernel<Tier, Real, T, Weights>;

  /// Keys per piece: streams that memory is read in. More are not followed, and more rows that lie a multiple of
  /// 4 KiB apart find no place in L1.
  static constexpr Index keys_per_piece = 16;
  /// Values per piece. Where a few rows read a value in turn, half of it after the other half, fewer of them are
  /// still in L1 when the next row comes. More rows are bound by arithmetic.
  static constexpr Index values_per_piece(Index rows_per_kv_head) noexcept {
    return rows_per_kv_head > 1 && rows_per_kv_head <= 4 ? keys_per_piece / 2 : keys_per_piece;
  }
  /// Values per piece where each KV head has one row, which is bound by memory.
  static constexpr Index values_per_piece_single_row = 8;
  /// Prefetch distance in pieces.
  static constexpr Index prefetch_pieces = 2;
  /// KV heads whose products are interleaved have so many rows each, at most.
  static constexpr Index max_interleaved_rows = 1;

  Index sum_dim() const noexcept { return padded_value_dim(v_.dim); }

  template <class Block, class Scores>
  void multiply(const Block& block, const SeenTile& seen, const Scores& scores) const noexcept {
    const Index interleaved =
        block.rows_of_key_head() <= max_interleaved_rows && block.has_uniform_visibility()
            ? DotKernel::heads_per_pass
            : 1;
    for_pieces(keys_per_piece, interleaved, block, seen,
               [&](Index head, Index heads, Index first, const KeyRange& keys) {
                 const T* const from =
                     row(k_, block, block.key_head() + head, seen.first_key() + first);
                 PrefetchRows<T> ahead[DotKernel::heads_per_pass];
                 for (Index h = 0; h < heads; ++h) {
                   ahead[h] = rows_to_prefetch(keys_per_piece, k_, block, seen, head + h, first);
                 }
                 for_strips_of(block, head, [&](const Strip& strip) {
                   const Lanes lanes = Block::lanes_of(seen, strip);
                   if (!lanes.panel(first / panel_lanes)) return;
                   for (Index n = 0; n < keys_per_piece && first + n < lanes.end; n += width) {
                     DotKernel kernel{.rows = block.packed(strip.first),
                                      .keys = from + n * k_.seq_stride,
                                      .head_stride = k_.head_stride,
                                      .seq_stride = k_.seq_stride,
                                      .dim = k_.dim,
                                      .begin = keys.begin - first - n,
                                      .end = keys.end - first - n,
                                      .factor = scores.scale(),
                                      .out = scores.of(strip) + first + n,
                                      .ahead = {}};
                     if (block.begins_key_head(strip)) {
                       for (Index h = 0; h < heads; ++h) {
                         kernel.ahead[h] = ahead[h].part(n, width, k_.seq_stride);
                       }
                     }
                     if (heads > 1) {
                       kernel.template run<1, DotKernel::heads_per_pass>(0);
                     } else {
                       for_bundles<Tier>(strip.rows, kernel);
                     }
                   }
                 });
               });
  }

  template <Skipped Weights, class Block, class Scores>
  void add_values(const Block& block, const SeenTile& seen, const Scores& scores,
                  const RowSums<Real>& of_tile) const noexcept {
    const Index size = values_per_piece(block.rows_of_key_head());
    for_pieces(size, 1, block, seen, [&](Index head, Index, Index first, const KeyRange& keys) {
      const PrefetchRows<T> ahead = rows_to_prefetch(size, v_, block, seen, head, first);
      for_strips_of(block, head, [&](const Strip& strip) {
        const Lanes lanes = Block::lanes_of(seen, strip);
        if (!lanes.panel(first / panel_lanes)) return;
        const Index begin = (std::max)(keys.begin, lanes.begin);
        const Index end = (std::min)(keys.end, lanes.end);
        if (begin >= end) return;
        for_bundles<Tier>(
            strip.rows,
            WeightedSumKernel<Weights>{
                .weights = scores.of(strip) + begin,
                .values = row(v_, block, block.key_head() + head, seen.first_key() + begin),
                .stride = v_.seq_stride,
                .keys = end - begin,
                .dim = v_.dim,
                .sums = of_tile.out + strip.first * sum_dim(),
                .sum_dim = sum_dim(),
                .ahead = block.begins_key_head(strip) ? ahead : PrefetchRows<T>{}});
      });
    });
  }

  /// add_values() where each KV head has one row: work for a row of values is so short that what decides which one
  /// comes next has to be, too.
  template <Skipped Weights, class Block, class Scores>
  void add_values_of_single(const Block& block, const SeenTile& seen, const Scores& scores,
                            const RowSums<Real>& of_tile) const noexcept {
    const T* const values = row(v_, block, block.key_head(), seen.first_key());
    const Real* const weights = scores.of(Strip{0, 1});
    const Index stride = v_.seq_stride, head_stride = v_.head_stride, dim = v_.dim;
    const Index padded = sum_dim();
    Real* const sums = of_tile.out;
    for_pieces(values_per_piece_single_row, 1, block, seen,
               [&](Index r, Index, Index first, const KeyRange& keys) {
                 const Lanes& lanes = seen.of_strips[r];
                 if (!lanes.panel(first / panel_lanes)) return;
                 const Index begin = (std::max)(keys.begin, lanes.begin);
                 const Index end = (std::min)(keys.end, lanes.end);
                 if (begin >= end) return;
                 WeightedSumKernel<Weights>{.weights = weights + r * tile_lanes + begin,
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

  /// Calls work(first KV head, heads, first lane, lanes of it that some row sees) for each piece: `size` keys of
  /// `interleaved` KV heads, or of one where fewer are left.
  template <class Block, class Work>
  static void for_pieces(Index size, Index interleaved, const Block& block, const SeenTile& seen,
                         const Work& work) noexcept {
    const KeyRange lanes{seen.keys.begin - seen.first_key(), seen.keys.end - seen.first_key()};
    const Index kv_heads = block.rows() / block.rows_of_key_head();
    // From the start of a panel, as panels are multiplied.
    for (Index first = lanes.begin / panel_lanes * panel_lanes; first < lanes.end; first += size) {
      const KeyRange keys{(std::max)(first, lanes.begin), (std::min)(first + size, lanes.end)};
      for (Index h = 0; h < kv_heads;) {
        const Index heads = h + interleaved <= kv_heads ? interleaved : 1;
        work(h, heads, first, keys);
        h += heads;
      }
    }
  }

  /// Returns the rows of the piece that is prefetch_pieces after this one, if the tile has it.
  template <class Block>
  static PrefetchRows<T> rows_to_prefetch(Index size, const HeadsView<const T>& x,
                                          const Block& block, const SeenTile& seen, Index head,
                                          Index first) noexcept {
    const Index kv_heads = block.rows() / block.rows_of_key_head();
    const Index then = head + prefetch_pieces;
    const Index key = seen.first_key() + first + then / kv_heads * size;
    if (key >= seen.keys.end) return {};
    return {row(x, block, block.key_head() + then % kv_heads, key),
            (std::min)(size, seen.keys.end - key)};
  }

  template <class Block, class Visit>
  static void for_strips_of(const Block& block, Index head, const Visit& visit) noexcept {
    const Index begin = head * block.rows_of_key_head(), end = begin + block.rows_of_key_head();
    for (Index r = begin; r < end;) {
      const Strip strip{r, block.rows_of_strip(r - begin)};
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
