// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/kernels.hpp>
#include <posenc/attention/detail/pack_panel.hpp>
#include <posenc/attention/detail/places.hpp>
#include <posenc/attention/detail/row_block.hpp>
#include <posenc/attention/detail/slots.hpp>
#include <posenc/attention/detail/softmax.hpp>
#include <posenc/attention/detail/tile.hpp>
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

// The stage of few queries: their products with keys and values that are read where the user's tensors have
// them. Panels, which other stages read, would be copied for so few products that the copy costs more than it
// saves. A few keys of every head of the block come before the next keys: memory is then read as a few ascending
// streams, which a processor's prefetchers follow. The keys of a single head lie pages apart, and reading them
// one head after the other takes twice as long. Within such a piece, rows are read one after the other.
POSENC_BEGIN
namespace detail {

/// Keys of a head, or their values, as a tensor has them.
template <class T>
struct RowsAhead {
  const T* first = nullptr;
  Index count = 0;

  /// The next `most` of them from the nth on, `stride` apart.
  RowsAhead part(Index n, Index most, Index stride) const noexcept {
    if (n >= count) return {};
    return {first + n * stride, (std::min)(most, count - n)};
  }
};

/// out(r, key) <- factor * row(r) . key for P::width keys: PanelProducts from keys as a tensor has them.
template <class Tier, class Real, class T>
struct StreamedProducts {
  using P = Pack<Real, Tier>;

  const Real* rows;  ///< [rows, dim]
  const T* keys;     ///< [P::width, dim], `stride` apart
  Index stride, dim;
  Index begin, end;  ///< keys that there are; the others are zeros
  Real factor;
  Real* out;           ///< [rows, tile_lanes]
  RowsAhead<T> ahead;  ///< what is soon multiplied

  template <Index Rows>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    if (begin <= 0 && end >= P::width) {
      multiply<Rows>(r, [](Index) { return true; });
    } else {
      multiply<Rows>(r, [this](Index i) { return begin <= i && i < end; });
    }
  }

 private:
  template <Index Rows, class Is>
  POSENC_NOINLINE void multiply(Index first_row, const Is& is_key) const noexcept {
    const Real* x = rows + first_row * dim;
    const T* from = keys;
    // Whole rows, spread over the squares: squares alone take a line here and a line there, which prefetchers
    // do not follow.
    const Index squares = (dim + P::width - 1) / P::width;
    const T* next = ahead.first;
    Index left = first_row == 0 ? ahead.count : 0, due = 0;
    P sums[std::size_t{Rows}];
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA { sums[r] = P::zero(); });
    // Inlined by force, with a number of channels that is known: clang++ 14 would call it for each square, and take
    // channels from memory one after the other.
    const auto add = [&](auto is_whole, Index channels) POSENC_INLINE_LAMBDA {
      for (due += P::width; due >= squares && left > 0; due -= squares, --left) {
        prefetch(next, dim * Index{sizeof(T)});
        next += stride;
      }
      P square[P::width];
      unrolled<P::width>([&](Index i) POSENC_INLINE_LAMBDA {
        // Addresses of keys alone: the stride of a single key may be anything.
        square[i] = !is_key(i) ? P::zero()
                    : is_whole ? load_as<P>(from + i * stride)
                               : load_partial_as<P>(from + i * stride, channels);
      });
      if constexpr (P::width > 1) transpose(square);
      const auto add_channel = [&](Index c) POSENC_INLINE_LAMBDA {
        unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
          sums[r] = mul_add(P::broadcast(x[r * dim + c]), square[c], sums[r]);
        });
      };
      if constexpr (is_whole) {
        unrolled<P::width>(add_channel);
      } else {
        for (Index c = 0; c < channels; ++c) add_channel(c);
      }
      from += P::width;
      x += P::width;
    };
    Index d = 0;
    for (; d + P::width <= dim; d += P::width) add(std::true_type(), P::width);
    if (d < dim) add(std::false_type(), dim - d);
    const P by = P::broadcast(factor);
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      (sums[r] * by).store(out + (first_row + r) * tile_lanes);
    });
  }
};

/// sums(r) <- sums(r) + sum over some keys of weights(r, key) values(key): WeightedSums from rows as a tensor
/// has them, and in pieces, whose chains go on where they ended.
template <class Tier, class Real, class T, Skipped Weights>
struct StreamedSums {
  using P = Pack<Real, Tier>;

  const Real* weights;  ///< [rows, tile_lanes], from the first of the keys on
  const T* values;      ///< [keys, dim], `stride` apart
  Index stride, keys, dim;
  Real* sums;          ///< [rows, sum_dim]
  Index sum_dim;       ///< whole vectors
  RowsAhead<T> ahead;  ///< what is soon multiplied

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

/// A source whose tiles may be read from rows.
template <class Source>
concept StreamedSource = requires(const Source& source) {
  source.keys();
  source.values();
};

/// In place of StreamedRows where there are none.
struct NotStreamed {
  template <class Source>
  NotStreamed(const Source&, Index, Carver&) noexcept {}
};

/// State of a thread that reads tiles from rows: the maximum, sum and values of the current tile for each row of a
/// block.
template <class Tier, Scalar T>
class StreamedRows {
 public:
  using Real = Compute<T>;

  /// Whether calls are served here: for more rows of a key head, a copy that their kernels read at their own pace is
  /// worth its time.
  static constexpr bool serves(Index queries, Index group) noexcept {
    return queries * group <= 16;
  }

  /// For blocks of up to `rows` rows.
  template <StreamedSource Source>
  StreamedRows(const Source& source, Index rows, Carver& carver) noexcept
      : k_(source.keys()),
        v_(source.values()),
        tile_(RowSums<Real>::carve(carver, rows, sum_dim())) {}

  /// A tile at hand of which no row has seen anything yet.
  template <class Block>
  void begin_tile(const Block& block) const noexcept {
    tile_.clear(block.rows(), sum_dim());
  }
  /// Of the tile at hand, at a row.
  Real* highest(Index r) const noexcept { return tile_.highest + r; }
  Real* sum(Index r) const noexcept { return tile_.sum + r; }

  /// scores.of(strip) <- scale * q k for what strips see of a tile.
  template <class Block, class Scores>
  void multiply(const Block& block, const SeenTile& seen, const Scores& scores) const noexcept {
    for_pieces(keys_at_once, block, seen, [&](Index key_head, Index first, const KeyRange& keys) {
      const T* const from = row(k_, block, block.key_head() + key_head, seen.first_key() + first);
      const RowsAhead<T> ahead = rows_ahead(keys_at_once, k_, block, seen, key_head, first);
      for_strips_of(block, key_head, [&](const Strip& strip) {
        const Lanes lanes = Block::lanes_of(seen, strip);
        if (!lanes.panel(first / panel_lanes)) return;
        for (Index n = 0; n < keys_at_once && first + n < lanes.end; n += width) {
          for_bundles<Tier>(
              strip.rows,
              StreamedProducts<Tier, Real, T>{
                  block.packed(strip.first), from + n * k_.seq_stride, k_.seq_stride, k_.dim,
                  keys.begin - first - n, keys.end - first - n, scores.scale(),
                  scores.of(strip) + first + n,
                  is_first(block, strip) ? ahead.part(n, width, k_.seq_stride) : RowsAhead<T>{}});
        }
      });
    });
  }

  /// sums <- the tile at hand with those before it.
  ///   weights: scores.of(strip), those of hidden keys negative where Weights says so
  template <Skipped Weights, class Block, class Scores>
  void add_values(const Block& block, const SeenTile& seen, const Scores& scores,
                  const RowSums<Real>& sums) const noexcept {
    add_values_of_tile<Weights>(block, seen, scores);
    merge_all<Tier>(sums, tile_, block.rows(), sum_dim());
  }

 private:
  /// Values of the tile at hand <- the sum of weights times values.
  template <Skipped Weights, class Block, class Scores>
  void add_values_of_tile(const Block& block, const SeenTile& seen,
                          const Scores& scores) const noexcept {
    if (block.rows_of_key_head() == 1) return add_values_of_single<Weights>(block, seen, scores);
    const Index at_once = values_at_once(block);
    for_pieces(at_once, block, seen, [&](Index key_head, Index first, const KeyRange& keys) {
      const RowsAhead<T> ahead = rows_ahead(at_once, v_, block, seen, key_head, first);
      for_strips_of(block, key_head, [&](const Strip& strip) {
        const Lanes lanes = Block::lanes_of(seen, strip);
        if (!lanes.panel(first / panel_lanes)) return;
        const Index begin = (std::max)(keys.begin, lanes.begin);
        const Index end = (std::min)(keys.end, lanes.end);
        if (begin >= end) return;
        const T* const values =
            row(v_, block, block.key_head() + key_head, seen.first_key() + begin);
        for_bundles<Tier>(strip.rows,
                          StreamedSums<Tier, Real, T, Weights>{
                              scores.of(strip) + begin, values, v_.seq_stride, end - begin, v_.dim,
                              tile_.out + strip.first * sum_dim(), sum_dim(),
                              is_first(block, strip) ? ahead : RowsAhead<T>{}});
      });
    });
  }

  /// Keys that are taken at a time: streams that memory is read in. More are not followed, and more rows
  /// that lie a multiple of 4 KiB apart find no place in a first-level cache.
  static constexpr Index keys_at_once = 16;
  /// The same of values: where a few rows take their turns with a value, half of it after the other half, fewer
  /// of them are still in a first-level cache when the next row comes. More rows wait for arithmetic.
  template <class Block>
  static Index values_at_once(const Block& block) noexcept {
    const Index rows = block.rows_of_key_head();
    return rows > 1 && rows <= 4 ? keys_at_once / 2 : keys_at_once;
  }
  /// How many values are taken at a time where each key head has one row: memory alone holds that up.
  static constexpr Index values_of_single = 8;
  /// How far they are asked for ahead of their use.
  static constexpr Index pieces_ahead = 2;
  using P = Pack<Real, Tier>;
  static constexpr Index width = P::width;

  Index sum_dim() const noexcept { return padded_value_dim(v_.dim); }

  /// add_values() where each key head has one row: work for a row of values is so short that what decides which one
  /// comes next has to be, too.
  template <Skipped Weights, class Block, class Scores>
  void add_values_of_single(const Block& block, const SeenTile& seen,
                            const Scores& scores) const noexcept {
    const T* const values = row(v_, block, block.key_head(), seen.first_key());
    const Real* const weights = scores.of(Strip{0, 1});
    const Index stride = v_.seq_stride, head_stride = v_.head_stride, dim = v_.dim;
    const Index padded = sum_dim();
    Real* const sums = tile_.out;
    for_pieces(values_of_single, block, seen, [&](Index r, Index first, const KeyRange& keys) {
      const Lanes& lanes = seen.of_strips[r];
      if (!lanes.panel(first / panel_lanes)) return;
      const Index begin = (std::max)(keys.begin, lanes.begin);
      const Index end = (std::min)(keys.end, lanes.end);
      if (begin >= end) return;
      StreamedSums<Tier, Real, T, Weights>{weights + r * tile_lanes + begin,
                                           values + r * head_stride + begin * stride,
                                           stride,
                                           end - begin,
                                           dim,
                                           sums + r * padded,
                                           padded,
                                           {}}
          .template run<1>(0);
    });
  }

  /// Calls work(key head of the block, first lane of the piece, lanes of it that some row sees) piece by piece.
  template <class Block, class Work>
  static void for_pieces(Index size, const Block& block, const SeenTile& seen,
                         const Work& work) noexcept {
    const KeyRange lanes{seen.keys.begin - seen.first_key(), seen.keys.end - seen.first_key()};
    const Index key_heads = block.rows() / block.rows_of_key_head();
    // From the start of a panel, as others make scores.
    for (Index first = lanes.begin / panel_lanes * panel_lanes; first < lanes.end; first += size) {
      const KeyRange keys{(std::max)(first, lanes.begin), (std::min)(first + size, lanes.end)};
      for (Index h = 0; h < key_heads; ++h) work(h, first, keys);
    }
  }

  /// Whether a strip is the first of its key head.
  template <class Block>
  static bool is_first(const Block& block, const Strip& strip) noexcept {
    return strip.first % block.rows_of_key_head() == 0;
  }

  /// The rows of the piece pieces_ahead after this one, if the tile has one.
  template <class Block>
  static RowsAhead<T> rows_ahead(Index size, const HeadsView<const T>& x, const Block& block,
                                 const SeenTile& seen, Index key_head, Index first) noexcept {
    const Index key_heads = block.rows() / block.rows_of_key_head();
    const Index then = key_head + pieces_ahead;
    const Index key = seen.first_key() + first + then / key_heads * size;
    if (key >= seen.keys.end) return {};
    return {row(x, block, block.key_head() + then % key_heads, key),
            (std::min)(size, seen.keys.end - key)};
  }

  template <class Block, class Visit>
  static void for_strips_of(const Block& block, Index key_head, const Visit& visit) noexcept {
    const Index begin = key_head * block.rows_of_key_head(), end = begin + block.rows_of_key_head();
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
  RowSums<Real> tile_;
};

}  // namespace detail
POSENC_END
