// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/kernels/panel.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/simd/detail/prefetch.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/detail/unrolled.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/simd/transpose.hpp>

#include <cstddef>

// Micro-kernel that reads keys unpacked, as rows of the user's tensors. Its dependency chains are
// those of products.hpp, and so are its bits.
POSENC_BEGIN
namespace detail {

/// out(h, r, key) <- factor * row(h, r) . key(h) for P::width unpacked keys of one KV head, or of
/// two KV heads with one row each, whose dependency chains are interleaved: a single chain reaches
/// at most half of the peak throughput.
template <class Tier, class Real, class T>
struct RowDotKernel {
  using P = Pack<Real, Tier>;
  /// Maximum number of rows per KV head, all of one register tile. With more rows it is faster to
  /// pack the keys.
  static constexpr Index max_rows = register_tile_rows<Tier> >= 8 ? 8 : 4;
  static constexpr Index heads_per_pass = 2;

  const Real* rows;  ///< [heads, rows, dim]
  const T* keys;     ///< [heads, P::width, dim] with strides head_stride and seq_stride
  Index head_stride, seq_stride, dim;
  Real factor;
  Real* out;  ///< [heads, rows, tile_lanes]
  /// Rows to prefetch, with the strides of `keys`; null for none. The second head may not exist.
  const T* next;

  /// Computes `count` rows of one KV head, or one row of each of heads_per_pass.
  void run(Index count, Index heads) const noexcept {
    if (heads > 1) {
      multiply<1, heads_per_pass>(0);
    } else {
      Index r = 0;
      for (; r + 4 <= count; r += 4) multiply<4, 1>(r);
      for (; r + 2 <= count; r += 2) multiply<2, 1>(r);
      if (r < count) multiply<1, 1>(r);
    }
    if constexpr (P::width > 1) {
      if (dim % P::width != 0) add_last_channels(count, heads);
    }
  }

 private:
  template <Index Rows, Index Heads>
  POSENC_NOINLINE void multiply(Index first_row) const noexcept {
    const Real* x = rows + first_row * dim;
    const T* from = keys;
    // Complete rows are prefetched, distributed over the square blocks: hardware prefetchers do not
    // follow single lines of alternating rows.
    const Index blocks = dim / P::width;
    Index left = first_row == 0 && next != nullptr ? P::width : 0, due = 0;
    const T* ahead = next;
    P sums[std::size_t{Heads * Rows}];
    unrolled<Heads * Rows>([&](Index i) POSENC_INLINE_LAMBDA { sums[i] = P::zero(); });
    for (Index d = 0; d + P::width <= dim; d += P::width) {
      for (due += P::width; due >= blocks && left > 0; due -= blocks) {
        unrolled<Heads>([&](Index h) POSENC_INLINE_LAMBDA {
          prefetch(element_at(ahead, h, head_stride), dim * Index{sizeof(T)});
        });
        if (--left > 0) ahead += seq_stride;
      }
      unrolled<Heads>([&](Index h) POSENC_INLINE_LAMBDA {
        P block[P::width];
        // Only addresses of existing keys are computed: the stride of a single head may be any
        // number.
        unrolled<P::width>([&](Index i) POSENC_INLINE_LAMBDA {
          block[i] = load_as<P>(from + (Heads > 1 ? h * head_stride : 0) + i * seq_stride);
        });
        if constexpr (P::width > 1) transpose(block);
        unrolled<P::width>([&](Index c) POSENC_INLINE_LAMBDA {
          unrolled<Rows>([&](Index n) POSENC_INLINE_LAMBDA {
            const Index r = h * Rows + n;
            sums[r] = mul_add(P::broadcast(x[r * dim + c]), block[c], sums[r]);
          });
        });
      });
      from += P::width;
      x += P::width;
    }
    // The products of the last channels are added before the factor.
    const P by = P::broadcast(dim % P::width == 0 ? factor : Real{1});
    unrolled<Heads * Rows>([&](Index r) POSENC_INLINE_LAMBDA {
      (sums[r] * by).store(out + (first_row + r) * tile_lanes);
    });
  }

  /// Adds the products of the last channels, which are fewer than a vector.
  POSENC_NOINLINE void add_last_channels(Index count, Index heads) const noexcept {
    const Index channels = dim % P::width, begin = dim - channels;
    for (Index h = 0; h < heads; ++h) {
      const T* const from = keys + h * head_stride + begin;
      P block[P::width];
      for (Index i = 0; i < P::width; ++i) {
        block[i] = load_partial_as<P>(from + i * seq_stride, channels);
      }
      transpose(block);
      for (Index r = h * count; r < (h + 1) * count; ++r) {
        const Real* const x = rows + r * dim + begin;
        Real* const to = out + r * tile_lanes;
        P sum = P::load(to);
        for (Index c = 0; c < channels; ++c) sum = mul_add(P::broadcast(x[c]), block[c], sum);
        (sum * P::broadcast(factor)).store(to);
      }
    }
  }
};

}  // namespace detail
POSENC_END
