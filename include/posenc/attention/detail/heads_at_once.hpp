// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/kernels.hpp>
#include <posenc/attention/detail/row_block.hpp>
#include <posenc/attention/detail/slots.hpp>
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
#include <numeric>
#include <type_traits>

// Products of few queries with the first few keys of a sequence, of several heads at a time. With keys of one head
// in the lanes of a vector, a head takes a chain of multiply-adds for itself, of which few lanes count. Of single
// queries, products with more keys, too: the heads of a key, which lie together, are then read as they lie, while
// keys of one head lie pages apart.
POSENC_BEGIN
namespace detail {

/// out(r, lane) <- factor * query(r, lane) . key(lane): one key of several heads, or a few keys of them, side by
/// side in the lanes of a vector.
template <class Tier, class Real, class T>
struct ProductsOfHeads {
  using P = Pack<Real, Tier>;
  /// The most rows of a key head: each has dim vectors of queries, which a first-level cache has to hold.
  static constexpr Index most_rows = 4;

  const Real* queries;   ///< [rows][dim][P::width]
  const T* keys;         ///< that of the first lane
  const Index* offsets;  ///< [P::width], of each lane's key
  Index lanes, dim;      ///< lanes that there are; the others are zeros
  Real factor;
  Real* out;       ///< [rows][P::width]
  const T* ahead;  ///< that of the lanes that are multiplied next, or nullptr

  template <Index Rows>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    if constexpr (Rows <= most_rows) {
      if (lanes == P::width) {
        multiply<Rows>(r, [](Index) { return true; });
      } else {
        multiply<Rows>(r, [this](Index i) { return i < lanes; });
      }
    }
  }

 private:
  template <Index Rows, class Is>
  POSENC_NOINLINE void multiply(Index first_row, const Is& is_key) const noexcept {
    const Real* x = queries + first_row * dim * P::width;
    const T* from = keys;
    // Whole rows, spread over the squares, as StreamedProducts asks for them.
    const Index squares = (dim + P::width - 1) / P::width;
    Index asked = first_row == 0 && ahead != nullptr ? 0 : P::width, due = 0;
    P sums[std::size_t{Rows}];
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA { sums[r] = P::zero(); });
    // As in StreamedProducts.
    const auto add = [&](auto is_whole, Index channels) POSENC_INLINE_LAMBDA {
      P square[P::width];
      unrolled<P::width>([&](Index i) POSENC_INLINE_LAMBDA {
        const T* const at = from + offsets[i];
        square[i] = !is_key(i) ? P::zero()
                    : is_whole ? load_as<P>(at)
                               : load_partial_as<P>(at, channels);
      });
      if constexpr (P::width > 1) transpose(square);
      for (due += P::width; due >= squares && asked < P::width; due -= squares, ++asked) {
        prefetch(ahead + offsets[asked], dim * Index{sizeof(T)});
      }
      const auto add_channel = [&](Index c) POSENC_INLINE_LAMBDA {
        unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
          sums[r] = mul_add(P::load(x + (r * dim + c) * P::width), square[c], sums[r]);
        });
      };
      if constexpr (is_whole) {
        unrolled<P::width>(add_channel);
      } else {
        for (Index c = 0; c < channels; ++c) add_channel(c);
      }
      from += P::width;
      x += P::width * P::width;
    };
    Index d = 0;
    for (; d + P::width <= dim; d += P::width) add(std::true_type(), P::width);
    if (d < dim) add(std::false_type(), dim - d);
    const P by = P::broadcast(factor);
    unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      (sums[r] * by).store(out + (first_row + r) * P::width);
    });
  }
};

/// What a thread keeps for them.
template <class Tier, Scalar T>
class HeadsAtOnce {
 public:
  using Real = Compute<T>;

  /// For blocks of up to `rows` rows, which are of `key_heads` key heads, or of those that are left of all.
  HeadsAtOnce(const HeadsView<const T>& k, Index rows, Index key_heads, Carver& carver) noexcept
      : k_(k),
        queries_(carver.take<Real>((std::min)(rows, key_heads * Products::most_rows) * k.dim *
                                   most_copies(k.heads, key_heads))) {}

  /// Before the first tile of a block.
  template <class Block>
  void begin(const Block& block) noexcept {
    const Index of_head = block.rows_of_key_head(), key_heads = block.rows() / of_head;
    const Index keys = block.keys().end - block.keys().begin;
    lanes_ = serves(keys, of_head, key_heads) ? lanes_of(key_heads) : 0;
    if (lanes_ == 0) return;
    for (Index i = 0; i < width; ++i) {
      places_[i] = i % lanes_ * of_head * tile_lanes + i / lanes_;
      // The stride of a single key may be anything.
      offsets_[i] = i % lanes_ * k_.head_stride + (std::min)(i / lanes_, keys - 1) * k_.seq_stride;
    }
    Real* to = queries_;
    for (Index head = 0; head < key_heads; head += lanes_) {
      for (Index r = 0; r < of_head; ++r, to += k_.dim * width) {
        for (Index d = 0; d < k_.dim; d += width) {
          const Index channels = (std::min)(width, k_.dim - d);
          P square[P::width];
          for (Index i = 0; i < width; ++i) {
            const Real* const from = block.packed((head + i % lanes_) * of_head + r) + d;
            square[i] = channels == width ? P::load(from) : P::load_partial(from, channels);
          }
          if constexpr (width > 1) transpose(square);
          for (Index c = 0; c < channels; ++c) square[c].store(to + (d + c) * width);
        }
      }
    }
  }

  /// Whether the block that was begun has its products from here.
  bool serves() const noexcept { return lanes_ != 0; }

  /// scores.of(strip) <- scale * q k for what strips see of a tile.
  template <class Block, class Scores>
  void multiply(const Block& block, const SeenTile& seen, const Scores& scores) const noexcept {
    const AttentionSequence& s = block.sequence();
    const Index of_head = block.rows_of_key_head(), key_heads = block.rows() / of_head;
    const Index step = width / lanes_;
    const Index begin = seen.keys.begin - seen.first_key(), end = seen.keys.end - seen.first_key();
    Real* const out = scores.of(Strip{0, 0});
    // Whole vectors are read of panels that have a key.
    for (Index r = 0; r < block.rows(); ++r) {
      for (Index j = begin / panel_lanes * panel_lanes; j < end; j += width) {
        P::zero().store(out + r * tile_lanes + j);
      }
    }
    alignas(64) Real products[std::size_t{Products::most_rows * width}];
    const auto row = [&](Index j, Index head) {
      return k_.row(s.batch, s.first_key + seen.first_key() + j, block.key_head() + head);
    };
    const Index later = (pages_ahead * lanes_ + key_heads - 1) / key_heads * step;
    unsigned seen_panels = 0;
    block.for_strips(
        [&](const Strip& strip) { seen_panels |= Block::lanes_of(seen, strip).panels; });
    for (Index j = begin; j < end; j += step) {
      const Index after = (std::min)(j + step, end), lanes = (after - j) * lanes_;
      const auto sees = [=](Index key) { return (seen_panels >> key / panel_lanes & 1u) != 0; };
      if (!sees(j) && !sees(after - 1)) continue;
      const Real* queries = queries_;
      for (Index head = 0; head < key_heads; head += lanes_) {
        // Pages are asked for well before their lines: it takes long to find them.
        if (j + later < end) {
          const T* const there = row(j + later, head);
          prefetch_far(there, 1);
          prefetch_far(there + offsets_[width / 2], 1);
        }
        const T* const ahead = head + lanes_ < key_heads ? row(j, head + lanes_)
                               : after < end             ? row(after, 0)
                                                         : nullptr;
        for_bundles<Tier>(of_head, Products{queries, row(j, head), offsets_, lanes, k_.dim,
                                            scores.scale(), products, ahead});
        queries += of_head * k_.dim * width;
        for (Index r = 0; r < of_head; ++r) {
          Real* const to = out + (head * of_head + r) * tile_lanes + j;
          for (Index i = 0; i < lanes; ++i) to[places_[i]] = products[r * width + i];
        }
      }
    }
  }

 private:
  using P = Pack<Real, Tier>;
  using Products = ProductsOfHeads<Tier, Real, T>;
  static constexpr Index width = P::width;
  /// Keys that a block sees, the most that are multiplied here: of more, a head fills vectors of its own.
  static constexpr Index most_keys = width / 2;
  /// Single rows are multiplied here whatever the number of keys, if the heads of a key lie together: they are then
  /// read in the order of memory. So many bytes of queries, the most, stay in a first-level cache of 48 KiB beside them.
  static constexpr Index most_bytes = Index{32} * 1024;
  /// Vectors of heads between a page's first use and when it is asked for.
  static constexpr Index pages_ahead = 8;

  bool serves(Index keys, Index rows_of_head, Index key_heads) const noexcept {
    if (keys <= 0 || rows_of_head > Products::most_rows) return false;
    if (keys <= most_keys) return true;
    const Index queries = key_heads * copies(key_heads) * k_.dim * Index{sizeof(Real)};
    return rows_of_head == 1 && 2 * lanes_of(key_heads) >= width && queries <= most_bytes &&
           k_.head_stride < k_.seq_stride;
  }

  /// How many of a block's key heads share a vector; what is left of it takes their next keys. 0 where that
  /// would copy each query more than four times, or where no key is one of few.
  static constexpr Index lanes_of(Index key_heads) noexcept {
    const Index common = std::gcd(key_heads, width);
    return most_keys == 0 || 4 * common < width ? 0 : common;
  }
  /// How many times a query is there.
  static constexpr Index copies(Index key_heads) noexcept {
    const Index lanes = key_heads == 0 ? 0 : lanes_of(key_heads);
    return lanes == 0 ? 0 : width / lanes;
  }
  static constexpr Index most_copies(Index all_heads, Index key_heads) noexcept {
    return key_heads == 0 ? 0 : (std::max)(copies(key_heads), copies(all_heads % key_heads));
  }

  const HeadsView<const T>& k_;
  Index lanes_ = 0;
  Index offsets_[std::size_t{width}] = {};  ///< of each lane's key, from that of the first
  Index places_[std::size_t{width}] = {};   ///< of each lane's score
  Real* queries_;                           ///< [heads / lanes_][rows of a head][dim][width]
};

}  // namespace detail
POSENC_END
