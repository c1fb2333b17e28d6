// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/kernels/panel.hpp>
#include <posenc/simd/detail/prefetch.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/detail/unrolled.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/simd/transpose.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

// Conversions between rows, as tensors store them, and the panels and padded rows that kernels
// read. They move numbers or round them once to nearest even, so tiers give the same bits.
POSENC_BEGIN
namespace detail {

/// Prefetch distance in rows: memory latency is about the time that 16 rows of 128 channels take.
inline constexpr Index prefetch_distance_rows = 16;

/// Calls move(r, c) with the first row and column of square blocks that cover a matrix of rows x
/// cols, both at least Width. The last blocks overlap the previous ones instead of reaching past
/// the end.
template <Index Width, class Move>
POSENC_ALWAYS_INLINE void for_square_blocks(Index rows, Index cols, const Move& move) noexcept {
  for (Index r = 0; r < rows; r += Width) {
    for (Index c = 0; c < cols; c += Width) {
      move((std::min)(r, rows - Width), (std::min)(c, cols - Width));
    }
  }
}

/// Loads a square block of P::width rows transposed, and prefetches the rows below it.
template <class P, class T>
POSENC_ALWAYS_INLINE void load_transposed(const T* in, Index stride,
                                          P (&square)[P::width]) noexcept {
  constexpr Index width = P::width;
  for (Index i = 0; i < width; ++i) {
    const T* from = in + i * stride;
    square[i] = load_as<P>(from);
    prefetch(element_at(from, width, stride), 1);
  }
  if constexpr (width > 1) transpose(square);
}

/// Maximum number of rows that are scattered one by one. A token that is appended to a cache is one
/// row.
inline constexpr Index max_scattered_rows = 2;

/// Calls scatter(from, r, c) for chunks of a few rows: channels c .. c + Count - 1 of row r, stored
/// at `from`. The last chunk of a row overlaps the previous one instead of reaching past the end.
template <Index Count, class T, class Scatter>
POSENC_ALWAYS_INLINE void for_row_chunks(const T* in, Index stride, Index rows, Index cols,
                                         const Scatter& scatter) noexcept {
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < cols; c += Count) {
      const Index at = (std::min)(c, cols - Count);
      scatter(in + r * stride + at, r, at);
    }
  }
}

/// Scatters a few rows into the first lanes of a panel.
template <class P, class S, class T>
POSENC_ALWAYS_INLINE void scatter_rows(const T* in, Index stride, Index rows, Index cols,
                                       S* panel) noexcept {
  for_row_chunks<P::width>(in, stride, rows, cols,
                           [&](const T* from, Index r, Index c) POSENC_INLINE_LAMBDA {
                             const P values = load_as<P>(from);
                             S* const to = panel + c * panel_lanes + r;
                             if constexpr (requires { values.scatter(to, 1); }) {
                               values.scatter(to, std::int32_t{panel_lanes});
                             } else {
                               // One conversion per vector: a conversion per number takes
                               // longer than its store.
                               S stored[P::width];
                               store_as(values, stored);
                               for (Index i = 0; i < P::width; ++i) to[i * panel_lanes] = stored[i];
                             }
                           });
}

/// Like scatter_rows(), but for panels with interleaved channels, see has_paired_channels. Each
/// chunk has two vectors.
template <class P, class S, class T>
POSENC_ALWAYS_INLINE void scatter_pairs(const T* in, Index stride, Index rows, Index cols,
                                        S* panel) noexcept {
  constexpr Index count = 2 * P::width;
  for_row_chunks<count>(in, stride, rows, cols,
                        [&](const T* from, Index r, Index c) POSENC_INLINE_LAMBDA {
                          const P low = load_as<P>(from), high = load_as<P>(from + P::width);
                          S* const to = panel + c * panel_lanes + 2 * r;
                          if constexpr (requires { P::scatter_bfloat16_pairs(to, 1, low, high); }) {
                            P::scatter_bfloat16_pairs(to, std::int32_t{panel_lanes}, low, high);
                          } else {
                            S stored[std::size_t{count}];
                            store_as(low, stored);
                            store_as(high, stored + P::width);
                            for (Index i = 0; i < count; i += 2) {
                              to[i * panel_lanes] = stored[i + 1];
                              to[i * panel_lanes + 1] = stored[i];
                            }
                          }
                        });
}

/// True if scatter_rows() is faster than square blocks: it rounds a vector of numbers at once, or
/// the tier has a scatter instruction.
template <class P, class S, class T>
inline constexpr bool prefers_scatter = !std::same_as<S, Compute<T>> || requires(P a, S* p) {
  a.scatter(p, 1);
};

/// out[c][r] <- in[r][c] for a matrix of rows x cols. Elements between the rows of `out` are
/// preserved.
template <class Tier, class S, class T>
void transpose_into(const T* in, Index in_stride, Index rows, Index cols, S* out,
                    Index out_stride) noexcept {
  using P = Pack<Compute<T>, Tier>;
  constexpr Index width = P::width;
  if constexpr (width > 1 && prefers_scatter<P, S, T>) {
    // Only with the stride of a panel: the stride of a user's tensor may exceed 32 bits.
    if (out_stride == panel_lanes && rows <= max_scattered_rows && cols >= width) {
      return scatter_rows<P>(in, in_stride, rows, cols, out);
    }
  }
  if constexpr (width > 1) {
    if (rows < width || cols < width) {
      using Narrower = typename tier::Narrower<Tier>::Type;
      return transpose_into<Narrower>(in, in_stride, rows, cols, out, out_stride);
    }
  }
  for_square_blocks<width>(rows, cols, [=](Index r, Index c) POSENC_INLINE_LAMBDA {
    P square[P::width];
    load_transposed(in + r * in_stride + c, in_stride, square);
    for (Index i = 0; i < width; ++i) store_as(square[i], out + (c + i) * out_stride + r);
  });
}

/// Packs rows into interleaved channels, see has_paired_channels. Consecutive channel pairs of a
/// row are panel_lanes pairs apart.
template <class Tier, class S, class T>
void pack_channel_pairs(const T* rows, Index stride, Index count, Index dim, S* pairs) noexcept {
  using P = Pack<Compute<T>, Tier>;
  constexpr Index width = P::width;
  const Index even_dim = dim / 2 * 2;
  if constexpr (width > 1) {
    if (count <= max_scattered_rows && even_dim >= 2 * width) {
      scatter_pairs<P>(rows, stride, count, even_dim, pairs);
    } else if (count < width || even_dim < width) {
      using Narrower = typename tier::Narrower<Tier>::Type;
      return pack_channel_pairs<Narrower>(rows, stride, count, dim, pairs);
    } else {
      for_square_blocks<width>(count, even_dim, [=](Index r, Index c) POSENC_INLINE_LAMBDA {
        P square[P::width];
        load_transposed(rows + r * stride + c, stride, square);
        for (Index i = 0; i < width; i += 2) {
          S* to = pairs + (c + i) * panel_lanes + 2 * r;
          P::store_bfloat16_pairs(to, square[i + 1], square[i]);
        }
      });
    }
  } else {
    for (Index r = 0; r < count; ++r) {
      for (Index c = 0; c < even_dim; c += 2) {
        const T* from = rows + r * stride + c;
        P::store_bfloat16_pairs(pairs + c * panel_lanes + 2 * r, load_as<P>(from + 1),
                                load_as<P>(from));
      }
    }
  }
  if (even_dim == dim) return;
  using One = Pack<Compute<T>, tier::Scalar>;
  for (Index r = 0; r < count; ++r) {
    One::store_bfloat16_pairs(pairs + even_dim * panel_lanes + 2 * r, One::zero(),
                              load_as<One>(rows + r * stride + even_dim));
  }
}

/// Inverse of pack_channel_pairs().
template <class Tier, class S, class T>
void unpack_channel_pairs(const S* pairs, Index count, Index dim, T* rows, Index stride) noexcept {
  using P = Pack<Compute<T>, Tier>;
  constexpr Index width = P::width;
  const Index even_dim = dim / 2 * 2;
  if constexpr (width > 1) {
    if (count < width || even_dim < width) {
      using Narrower = typename tier::Narrower<Tier>::Type;
      return unpack_channel_pairs<Narrower>(pairs, count, dim, rows, stride);
    }
    for_square_blocks<width>(count, even_dim, [&](Index r, Index c) {
      P square[P::width];
      for (Index i = 0; i < width; i += 2) {
        const S* from = pairs + (c + i) * panel_lanes + 2 * r;
        P::load_bfloat16_pairs(from, square[i + 1], square[i]);
      }
      transpose(square);
      for (Index i = 0; i < width; ++i) store_as(square[i], rows + (r + i) * stride + c);
    });
  } else {
    for (Index r = 0; r < count; ++r) {
      for (Index c = 0; c < even_dim; c += 2) {
        P first, second;
        P::load_bfloat16_pairs(pairs + c * panel_lanes + 2 * r, second, first);
        store_as(first, rows + r * stride + c);
        store_as(second, rows + r * stride + c + 1);
      }
    }
  }
  if (even_dim == dim) return;
  using One = Pack<Compute<T>, tier::Scalar>;
  for (Index r = 0; r < count; ++r) {
    One none, last;
    One::load_bfloat16_pairs(pairs + even_dim * panel_lanes + 2 * r, none, last);
    store_as(last, rows + r * stride + even_dim);
  }
}

/// Packs rows into lanes first_lane .. first_lane + count - 1 of a panel; other lanes are
/// preserved.
///   Shapes: rows [count, dim] with row stride `stride`; panel as in panel.hpp
template <class Tier, class S, class T>
void pack_panel(const T* rows, Index stride, Index first_lane, Index count, Index dim,
                S* panel) noexcept {
  if constexpr (has_paired_channels<S>) {
    pack_channel_pairs<Tier>(rows, stride, count, dim, panel + 2 * first_lane);
  } else {
    transpose_into<Tier>(rows, stride, count, dim, panel + first_lane, panel_lanes);
  }
}

/// Like pack_panel(), but sets lanes without a row to zero, because they take part in products.
template <class Tier, class S, class T>
void pack_zeroed_panel(const T* rows, Index stride, Index first_lane, Index count, Index dim,
                       S* panel) noexcept {
  if (count < panel_lanes) std::fill_n(panel, panel_lanes * packed_dim<S>(dim), S(0));
  pack_panel<Tier>(rows, stride, first_lane, count, dim, panel);
}

/// Packs columns of a matrix into the first lanes of a panel; other lanes are preserved.
///   Shapes: columns [dim, count] with row stride `stride`; panel as in panel.hpp, without
///           interleaved channels
template <class Tier, class T>
void pack_columns(const T* columns, Index stride, Index count, Index dim, T* panel) noexcept {
  using P = Pack<T, Tier>;
  for (Index d = 0; d < dim; ++d, panel += panel_lanes) {
    const T* const from = columns + d * stride;
    prefetch(from + prefetch_distance_rows * stride, count * Index{sizeof(T)});
    Index c = 0;
    for (; c + P::width <= count; c += P::width) P::load(from + c).store(panel + c);
    for (; c < count; ++c) panel[c] = from[c];
  }
}

/// Inverse of pack_panel().
template <class Tier, class S, class T>
void unpack_panel(const S* panel, Index first_lane, Index count, Index dim, T* rows,
                  Index stride) noexcept {
  if constexpr (has_paired_channels<S>) {
    unpack_channel_pairs<Tier>(panel + 2 * first_lane, count, dim, rows, stride);
  } else {
    transpose_into<Tier>(panel + first_lane, panel_lanes, dim, count, rows, stride);
  }
}

/// True if all lanes are zero. It avoids the horizontal sum, which takes an intrinsic that g++ 12
/// warns about.
template <class P>
POSENC_ALWAYS_INLINE bool all_zero(P a) noexcept {
  // All bits except the sign, as integers: compilers vectorise this loop.
  using Bits = std::conditional_t<sizeof(sum(a)) == 8, std::uint64_t, std::uint32_t>;
  Bits lanes[P::width], other = 0;
  std::memcpy(lanes, &a, sizeof lanes);
  for (const Bits lane : lanes) other |= lane << 1;
  return other == 0;
}

/// Copies values and pads each row with zeros to out_stride = padded_value_dim(value_dim). Returns
/// true if all stored values are finite.
///   Shapes: v [count, value_dim] with row stride `stride`; out [count, out_stride]
template <class Tier, class S, class T>
bool pack_values(const T* v, Index stride, Index count, Index value_dim, S* out,
                 Index out_stride) noexcept {
  using P = Pack<Compute<T>, Tier>;
  if (value_dim == 0) return true;  // the stride may be any number then
  // 0 if all values are finite, because 0 * inf and 0 * NaN are NaN. Four sums, because a single
  // one would be one long dependency chain.
  P zeros[4] = {P::zero(), P::zero(), P::zero(), P::zero()};
  const auto check = [&](const S* to, P value, P& sum) POSENC_INLINE_LAMBDA {
    // Rounding to S can overflow to infinity, so the stored value is checked.
    if constexpr (!std::same_as<S, T>) value = load_as<P>(to);
    sum = mul_add(value, P::zero(), sum);
  };
  for (Index j = 0; j < count; ++j) {
    const T* row = v + j * stride;
    if (count > prefetch_distance_rows) {
      prefetch(row + prefetch_distance_rows * stride, value_dim * Index{sizeof(T)});
    }
    S* to = out + j * out_stride;
    Index d = 0;
    for (; d + 4 * P::width <= value_dim; d += 4 * P::width) {
      unrolled<4>([&](Index i) POSENC_INLINE_LAMBDA {
        const P value = load_as<P>(row + d + i * P::width);
        store_as(value, to + d + i * P::width);
        check(to + d + i * P::width, value, zeros[i]);
      });
    }
    for (; d < out_stride; d += P::width) {
      P value = P::zero();
      if (d + P::width <= value_dim) {
        value = load_as<P>(row + d);
      } else if (d < value_dim) {
        value = load_partial_as<P>(row + d, value_dim - d);
      }
      store_as(value, to + d);
      check(to + d, value, zeros[0]);
    }
  }
  return all_zero((zeros[0] + zeros[1]) + (zeros[2] + zeros[3]));
}

/// True if `count` values are finite; count is a multiple of 16.
template <class Tier, class S>
bool all_finite(const S* values, Index count) noexcept {
  using P = Pack<Compute<S>, Tier>;
  // As in pack_values().
  P zeros[4] = {P::zero(), P::zero(), P::zero(), P::zero()};
  Index i = 0;
  for (; i + 4 * P::width <= count; i += 4 * P::width) {
    unrolled<4>([&](Index n) POSENC_INLINE_LAMBDA {
      zeros[n] = mul_add(load_as<P>(values + i + n * P::width), P::zero(), zeros[n]);
    });
  }
  for (; i < count; i += P::width) {
    zeros[0] = mul_add(load_as<P>(values + i), P::zero(), zeros[0]);
  }
  return all_zero((zeros[0] + zeros[1]) + (zeros[2] + zeros[3]));
}

}  // namespace detail
POSENC_END
