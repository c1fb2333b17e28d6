// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/kernels/panel.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/simd/detail/prefetch.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/detail/unrolled.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/simd/transpose.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// Micro-kernels that read keys and values unpacked, as rows of the user's tensors. Their dependency
// chains are those of products.hpp, and so are their bits.
POSENC_BEGIN
namespace detail {

/// Rows of keys or values to prefetch.
template <class T>
struct PrefetchRows {
  const T* first = nullptr;
  Index count = 0;

  /// Returns the rows n .. n + max_rows - 1 of these, as far as they exist; consecutive rows are
  /// `stride` apart.
  PrefetchRows part(Index n, Index max_rows, Index stride) const noexcept {
    if (n >= count) return {};
    return {first + n * stride, (std::min)(max_rows, count - n)};
  }
};

/// out(h, r, key) <- factor * row(h, r) . key(h) for P::width unpacked keys of one KV head, or of
/// several KV heads whose dependency chains are interleaved.
template <class Tier, class Real, class T>
struct UnpackedDotKernel {
  using P = Pack<Real, Tier>;
  /// KV heads per pass if each has few rows: a single dependency chain reaches at most half of the
  /// peak throughput.
  static constexpr Index heads_per_pass = 2;

  const Real* rows;  ///< [heads, rows, dim]
  const T* keys;     ///< [heads, P::width, dim] with strides head_stride and seq_stride
  Index head_stride, seq_stride, dim;
  Index begin, end;  ///< range of existing keys; the products of others are zeros
  Real factor;
  Real* out;                              ///< [heads, rows, tile_lanes]
  PrefetchRows<T> ahead[heads_per_pass];  ///< one entry per head

  template <Index Rows>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    run<Rows, 1>(r);
  }
  /// Computes all rows of `Heads` KV heads, each of which has `Rows` rows.
  template <Index Rows, Index Heads>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    if (begin <= 0 && end >= P::width) {
      multiply<Rows, Heads>(r, [](Index) { return true; });
    } else {
      for (Index h = 0; h < Heads; ++h) multiply_existing(r + h * Rows, Rows, h);
    }
  }

 private:
  /// Computes `count` rows of KV head h row by row, if some of the keys do not exist. That occurs
  /// at most twice per sequence.
  POSENC_NOINLINE void multiply_existing(Index first_row, Index count, Index h) const noexcept {
    UnpackedDotKernel kernel = *this;
    kernel.keys += h * head_stride;
    kernel.ahead[0] = ahead[h];
    for (Index r = first_row; r < first_row + count; ++r) {
      kernel.template multiply<1, 1>(r, [this](Index n) { return begin <= n && n < end; });
    }
  }

  template <Index Rows, Index Heads, class Exists>
  POSENC_NOINLINE void multiply(Index first_row, const Exists& exists) const noexcept {
    const Real* x = rows + first_row * dim;
    const T* from = keys;
    // Complete rows are prefetched, distributed over the square blocks: hardware prefetchers do not
    // follow single lines of alternating rows.
    const Index blocks = (dim + P::width - 1) / P::width;
    // Addresses are integers: one step goes beyond the last row, whose stride may be any number.
    std::uintptr_t next[std::size_t{Heads}];
    Index left[std::size_t{Heads}], due = 0;
    unrolled<Heads>([&](Index h) POSENC_INLINE_LAMBDA {
      next[h] = reinterpret_cast<std::uintptr_t>(ahead[h].first);
      left[h] = first_row == 0 ? ahead[h].count : 0;
    });
    P sums[std::size_t{Heads * Rows}];
    unrolled<Heads * Rows>([&](Index i) POSENC_INLINE_LAMBDA { sums[i] = P::zero(); });
    // Inlined by force, with a constant number of channels: clang++ 14 would otherwise call it for
    // each square block, and load channels from memory one by one.
    const auto add = [&](auto is_full, Index channels) POSENC_INLINE_LAMBDA {
      for (due += P::width; due >= blocks && left[0] > 0; due -= blocks) {
        unrolled<Heads>([&](Index h) POSENC_INLINE_LAMBDA {
          if (left[h] == 0) return;
          prefetch(reinterpret_cast<const void*>(next[h]), dim * Index{sizeof(T)});
          next[h] += static_cast<std::uintptr_t>(seq_stride) * sizeof(T);
          --left[h];
        });
      }
      unrolled<Heads>([&](Index h) POSENC_INLINE_LAMBDA {
        P block[P::width];
        unrolled<P::width>([&](Index i) POSENC_INLINE_LAMBDA {
          // Only addresses of existing keys are computed: the stride of a single key or head may be
          // any number.
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

/// sums(r) <- sums(r) + sum over some keys of weights(r, key) values(key), for unpacked values.
/// Dependency chains continue from the previous chunk of keys.
template <class Tier, class Real, class T, SkipWeights Weights>
struct UnpackedWeightedSumKernel {
  using P = Pack<Real, Tier>;

  const Real* weights;  ///< [rows, tile_lanes], starting at the first of the keys
  const T* values;      ///< [keys, dim] with row stride `stride`
  Index stride, keys, dim;
  Real* sums;             ///< [rows, sum_dim]
  Index sum_dim;          ///< multiple of the vector width
  PrefetchRows<T> ahead;  ///< rows to prefetch

  template <Index Rows>
  POSENC_ALWAYS_INLINE void run(Index r) const noexcept {
    constexpr Index columns = register_tile_columns<Tier>(Rows);
    const auto whole = [](const T* from) { return load_as<P>(from); };
    Index d = 0;
    for (; d + columns * P::width <= dim; d += columns * P::width) add<Rows, columns>(r, d, whole);
    for (; d + P::width <= dim; d += P::width) add<Rows, 1>(r, d, whole);
    if (d < dim) {
      add<Rows, 1>(r, d, [n = dim - d](const T* from) { return load_partial_as<P>(from, n); });
    }
  }

 private:
  /// Adds key by key, so that the loads of a row are contiguous.
  template <Index Rows, Index Columns, class Load>
  POSENC_ALWAYS_INLINE void add(Index first_row, Index channel, const Load& load) const noexcept {
    Real* const to = sums + first_row * sum_dim + channel;
    const Real* w = weights + first_row * tile_lanes;
    P parts[std::size_t{Rows}][std::size_t{Columns}];
    const auto for_parts = [&](const auto& visit) POSENC_INLINE_LAMBDA {
      unrolled<Rows>([&](Index r) POSENC_INLINE_LAMBDA {
        unrolled<Columns>([&](Index c) POSENC_INLINE_LAMBDA {
          visit(parts[r][c], to + r * sum_dim + c * P::width);
        });
      });
    };
    for_parts([](P& part, const Real* at) POSENC_INLINE_LAMBDA { part = P::load(at); });
    // Each pass prefetches its own channels of a row: complete rows in the first pass would exceed
    // the outstanding misses of a core.
    const Index prefetched = first_row == 0 ? ahead.count : 0;
    for (Index j = 0; j < keys; ++j) {
      if (j < prefetched) {
        prefetch(ahead.first + j * stride + channel, Columns * P::width * Index{sizeof(T)});
      }
      // Not stepped: the stride of a single key may be any number.
      const T* const from = values + j * stride + channel;
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
      ++w;
    }
    for_parts([](const P& part, Real* at) POSENC_INLINE_LAMBDA { part.store(at); });
  }
};

}  // namespace detail
POSENC_END
