// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/key_tile.hpp>
#include <posenc/simd/prefetch.hpp>
#include <posenc/simd/storage.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <type_traits>

// The two products of attention for a few rows and one tile of keys. Every score is one chain of
// fma over d, every output one over the keys: how many rows go side by side changes no bit.
POSENC_BEGIN
namespace detail {

/// Rows that go side by side at most: with two accumulators each, they fill a tier's registers.
template <class Tier>
inline constexpr Index kernel_rows =
    std::same_as<Tier, tier::Avx512> || std::same_as<Tier, tier::Neon> ? 12 : 6;

/// Accumulators a row. Few rows take more of them, so that enough chains are under way.
template <class Tier>
constexpr Index kernel_columns(Index rows) noexcept {
  const Index most = 2 * kernel_rows<Tier> / rows;
  return most >= 8 ? 8 : most >= 4 ? 4 : 2;
}

/// Few rows are done with a tile before memory has brought the next one, so they ask for it early.
template <class Tier, Index Rows>
inline constexpr bool few_rows = Rows < kernel_rows<Tier>;

/// Calls kernel.run<Rows>(first) for parts of `rows` rows, Rows being 12 (where the registers allow),
/// 6, 4, 2 or 1.
template <class Tier, class Kernel>
POSENC_ALWAYS_INLINE void for_row_groups(Index rows, const Kernel& kernel) noexcept {
  Index r = 0;
  if constexpr (kernel_rows<Tier> >= 12) {
    for (; r + 12 <= rows; r += 12) kernel.template run<12>(r);
  }
  for (; r + 6 <= rows; r += 6) kernel.template run<6>(r);
  for (; r + 4 <= rows; r += 4) kernel.template run<4>(r);
  for (; r + 2 <= rows; r += 2) kernel.template run<2>(r);
  for (; r < rows; ++r) kernel.template run<1>(r);
}

/// Lanes of a tile's keys that some row sees.
struct VisibleKeys {
  Index begin = 0, end = 0;  ///< [begin, end) of the tile's keys; nothing outside is seen
  unsigned blocks = 0;       ///< bit n: keys n tile_lanes .. (n + 1) tile_lanes - 1

  bool block(Index n) const noexcept { return (blocks >> n & 1u) != 0; }
};

inline constexpr Index tile_blocks = tile_keys / tile_lanes;

/// Whether queries of T meet keys stored as S in products of pairs, both in bfloat16.
template <class Tier, class T, class S>
inline constexpr bool pair_products = in_pairs<T>&& in_pairs<S>&& requires(Pack<float, Tier> p) {
  add_pair_products(p, p, p);
};

/// What queries of T become before they meet keys stored as S.
template <class Tier, class T, class S>
using PackedQuery = std::conditional_t<pair_products<Tier, T, S>, T, Compute<T>>;

/// scores(r, j) <- scale * q(r) . k(j), for the visible blocks.
///   Q: Real, or bfloat16 in pairs as the keys are where pair_products
template <class Tier, class Real, class S, class Q = Real>
struct ScoreKernel {
  using P = Pack<Real, Tier>;

  const Q* q;  ///< [rows, stored_dim<S>(D)]
  const S* keys;
  Index dim;
  Real scale;
  VisibleKeys visible;
  Real* scores;    ///< [rows, tile_keys]
  const S* ahead;  ///< what is read after the keys

  template <Index Rows>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    constexpr Index of_block = tile_lanes / P::width;
    constexpr Index columns = (std::min)(kernel_columns<Tier>(Rows), Index{4});
    // Wide kernels go over several blocks of keys, narrow ones over part of a block.
    constexpr Index blocks = columns > of_block ? columns / of_block : 1;
    constexpr Index in_block = columns > of_block ? of_block : columns;
    for (Index n = 0; n < tile_blocks; ++n) {
      if (!visible.block(n)) continue;
      if constexpr (blocks > 1) {
        constexpr unsigned all = (1u << blocks) - 1;
        if (n % blocks == 0 && (visible.blocks >> n & all) == all) {
          multiply<Rows, blocks, in_block>(r, n, 0);
          n += blocks - 1;
          continue;
        }
      }
      const Index lanes = (std::min)(tile_lanes, visible.end - n * tile_lanes);
      Index lane = 0;
      for (; lane + in_block / 2 * P::width < lanes; lane += in_block * P::width) {
        multiply<Rows, 1, in_block>(r, n, lane);
      }
      // Where half of a kernel's width will do; the lanes beyond are hidden from every row.
      if (lane < lanes) multiply<Rows, 1, in_block / 2>(r, n, lane);
    }
  }

 private:
  /// What one load of keys brings.
  static constexpr Index channels = in_pairs<S> ? 2 : 1;

  // Not inlined: what surrounds it must not take its registers.
  template <Index Rows, Index Blocks, Index InBlock>
  POSENC_NOINLINE void multiply(Index first_row, Index block, Index lane) const noexcept {
    constexpr Index columns = Blocks * InBlock;
    const Index row_size = stored_dim<S>(dim), block_size = row_size * tile_lanes;
    const S* k = keys + block * block_size + lane * channels;
    const Q* x = q + first_row * row_size;
    P sums[std::size_t{Rows}][std::size_t{columns}];
    for (Index r = 0; r < Rows; ++r) {
      for (Index c = 0; c < columns; ++c) sums[r][c] = P::zero();
    }
    const S* next = ahead + (k - keys);
    for (Index d = 0; d < row_size; d += channels) {
      if constexpr (few_rows<Tier, Rows>) {
        for (Index n = 0; n < Blocks; ++n) {
          prefetch_far(next + n * block_size, channels * InBlock * P::width * Index{sizeof(S)});
        }
        next += channels * tile_lanes;
      }
      P key[std::size_t{columns}], other[std::size_t{columns}];
      for (Index c = 0; c < columns; ++c) {
        load(k + c / InBlock * block_size + c % InBlock * P::width * channels, key[c], other[c]);
      }
      for (Index r = 0; r < Rows; ++r) {
        if constexpr (in_pairs<Q>) {
          const P pair = P::broadcast_pair(x + r * row_size);
          for (Index c = 0; c < columns; ++c) {
            sums[r][c] = add_pair_products(sums[r][c], pair, key[c]);
          }
        } else {
          const P value = P::broadcast(x[r * row_size]);
          for (Index c = 0; c < columns; ++c) sums[r][c] = mul_add(value, key[c], sums[r][c]);
        }
      }
      if constexpr (channels > 1 && !in_pairs<Q>) {
        for (Index r = 0; r < Rows; ++r) {
          const P value = P::broadcast(x[r * row_size + 1]);
          for (Index c = 0; c < columns; ++c) sums[r][c] = mul_add(value, other[c], sums[r][c]);
        }
      }
      k += channels * tile_lanes;
      x += channels;
    }
    Real* out = scores + first_row * tile_keys + block * tile_lanes + lane;
    const P factor = P::broadcast(scale);
    for (Index r = 0; r < Rows; ++r) {
      for (Index c = 0; c < columns; ++c) {
        (sums[r][c] * factor).store(out + r * tile_keys + c * P::width);
      }
    }
  }

  /// One channel, or two as a pair in `key`, or one each in `key` and `other`.
  POSENC_ALWAYS_INLINE static void load(const S* k, P& key, [[maybe_unused]] P& other) noexcept {
    if constexpr (in_pairs<Q>) {
      key = P::load_pairs(k);
    } else if constexpr (in_pairs<S>) {
      P::load_bfloat16_pairs(k, other, key);
    } else {
      key = load_as<P>(k);
    }
  }
};

/// out(r) <- old_factor(r) * out(r) + tile_factor(r) * sum over j of weights(r, j) values(j), for the
/// visible keys.
///   Select: negative weights mark keys of which nothing, not even a NaN, may come
template <class Tier, class Real, class S, bool Select>
struct ValueKernel {
  using P = Pack<Real, Tier>;

  const Real* weights;  ///< [rows, tile_keys]
  const S* values;      ///< [tile_keys, value_stride]
  Index value_stride, value_dim;
  VisibleKeys visible;
  const Real* old_factor;  ///< [rows]
  const Real* tile_factor;
  Real* out;       ///< [rows, value_dim], which is whole vectors
  const S* ahead;  ///< what is read after the values

  template <Index Rows>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    constexpr Index columns = kernel_columns<Tier>(Rows);
    Index d = 0;
    for (; d + columns * P::width <= value_dim; d += columns * P::width)
      multiply<Rows, columns>(r, d);
    if constexpr (columns > 2) {
      for (; d + 2 * P::width <= value_dim; d += 2 * P::width) multiply<Rows, 2>(r, d);
    }
    for (; d < value_dim; d += P::width) multiply<Rows, 1>(r, d);
  }

 private:
  template <Index Rows, Index Columns>
  POSENC_NOINLINE void multiply(Index first_row, Index first_channel) const noexcept {
    // One row alone waits for its values: two vectors of bfloat16 are loaded as one, the even channels
    // and the odd ones.
    constexpr Index together = in_pairs<S> && Rows == 1 && Columns % 2 == 0 ? 2 : 1;
    P sums[std::size_t{Rows}][std::size_t{Columns}];
    for (Index r = 0; r < Rows; ++r) {
      for (Index c = 0; c < Columns; ++c) sums[r][c] = P::zero();
    }
    const Index steps = visible.end - visible.begin;
    const S* next = ahead + visible.begin * value_stride + first_channel * steps;
    for (Index n = visible.begin / tile_lanes; n * tile_lanes < visible.end; ++n) {
      if (!visible.block(n)) continue;
      const Index begin = n * tile_lanes > visible.begin ? n * tile_lanes : visible.begin;
      const Index end = (n + 1) * tile_lanes < visible.end ? (n + 1) * tile_lanes : visible.end;
      const Real* w = weights + first_row * tile_keys + begin;
      const S* v = values + begin * value_stride + first_channel;
      for (Index j = begin; j < end; ++j) {
        if constexpr (few_rows<Tier, Rows>) {
          prefetch_streams<Columns * P::width * Index{sizeof(S)}>(next, steps);
          next += cache_line / Index{sizeof(S)};
        }
        P value[std::size_t{Columns}];
        for (Index c = 0; c < Columns; c += together) {
          if constexpr (together == 2) {
            P::load_bfloat16_pairs(v + c * P::width, value[c], value[c + 1]);
          } else {
            value[c] = load_as<P>(v + c * P::width);
          }
        }
        for (Index r = 0; r < Rows; ++r) {
          if constexpr (Select) {
            if (w[r * tile_keys] < 0) continue;
          }
          const P weight = P::broadcast(w[r * tile_keys]);
          for (Index c = 0; c < Columns; ++c) sums[r][c] = mul_add(weight, value[c], sums[r][c]);
        }
        ++w;
        v += value_stride;
      }
    }
    for (Index r = 0; r < Rows; ++r) {
      const Index row = first_row + r;
      Real* to = out + row * value_dim + first_channel;
      const P old = P::broadcast(old_factor[row]), fresh = P::broadcast(tile_factor[row]);
      const auto merge = [&](Index c, P sum) {
        mul_add(P::load(to + c * P::width), old, sum * fresh).store(to + c * P::width);
      };
      for (Index c = 0; c < Columns; c += together) {
        if constexpr (together == 2) {
          P low, high;
          interleave(sums[r][c], sums[r][c + 1], low, high);
          merge(c, low);
          merge(c + 1, high);
        } else {
          merge(c, sums[r][c]);
        }
      }
    }
  }
};

}  // namespace detail
POSENC_END
