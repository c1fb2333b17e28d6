// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/detail/refusal.hpp>
#include <posenc/core/double_double.hpp>
#include <posenc/core/error.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/rotary/detail/rotation_kernel.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

#define POSENC_DETAIL_ROTATION_RULE                                                             \
  "posenc: rotations take (x, positions), tensors being HeadsViews (from bshd(tensor) and its " \
  "like), all of one element type, positions a posenc::Positions; an Eigen device may come first"

// The walk over tensors that Rope and RotationTable share: blocks of positions, their angles, and
// the kernel over all heads.
POSENC_BEGIN
namespace detail {

/// With m the attention factor and R the rotation: m R, its transpose m R^T, or its inverse R^T /
/// m.
enum class Direction { Forward, Adjoint, Inverse };

/// Where the rotary channels lie within a head.
struct RotarySlice {
  Index offset = 0;
  Index pairs = 0;

  Index end() const noexcept { return offset + 2 * pairs; }
};

inline void check_slice_and_factor(const char* function, RotarySlice slice,
                                   double attention_factor) {
  if (slice.offset < 0) {
    fail<ConfigError>(function, "rotary_offset must not be negative but is ", slice.offset);
  }
  const auto channels = product_of({2, slice.pairs});
  if (!channels || !sum_of(slice.offset, *channels)) {
    fail<ConfigError>(function, "no head holds ", slice.pairs, " rotary pairs behind ",
                      slice.offset, " other channels");
  }
  if (!std::isfinite(attention_factor) || attention_factor <= 0) {
    fail<ConfigError>(function, "attention_factor must be positive and finite but is ",
                      attention_factor);
  }
  check_attention_factor(function, attention_factor);
}

template <class T>
void check_slice_fits(const char* function, const HeadsView<T>& x, RotarySlice slice) {
  if (slice.end() > x.dim) {
    fail<ShapeError>(function, "head_dim (", x.dim, ") must hold the rotary channels [",
                     slice.offset, ", ", slice.end(), "); x is ", x.extents());
  }
}

/// What check_rotation() looks at where a few comparisons do not say that all is well.
template <Scalar T>
void check_views(const char* function, const HeadsView<const T>& in, const HeadsView<T>& out,
                 RotarySlice slice) {
  check_extents(function, "x", in);
  if (in.extents() != out.extents()) {
    fail<ShapeError>(function, "input ", in.extents(), " and output ", out.extents(),
                     " must have the same shape");
  }
  if (in.data != out.data) check_extents(function, "out", out);
  check_slice_fits(function, in, slice);
  check_output(function, "x", out);
  check_overlap<T>(function, in, out);
}

/// Checks shared by all rotations, before anything is written. A token's heads are turned in less time than
/// it takes to look at any view, so that those in place and of the common kind are told apart first.
template <Scalar T>
POSENC_ALWAYS_INLINE void check_rotation(const char* function, const HeadsView<const T>& in,
                                         const HeadsView<T>& out, RotarySlice slice) {
  const bool in_place = in.data == out.data && in.batch == out.batch && in.seq == out.seq &&
                        in.heads == out.heads && in.dim == out.dim &&
                        in.batch_stride == out.batch_stride && in.seq_stride == out.seq_stride &&
                        in.head_stride == out.head_stride;
  if (!in_place || slice.end() > out.dim || !nests(out)) [[unlikely]] {
    check_views<T>(function, in, out, slice);
  }
}

/// One tensor of a call, read and written.
template <Scalar T>
struct Rotated {
  HeadsView<const T> in;
  HeadsView<T> out;
};

inline void check_same_tokens(const char* function, const auto& first, const auto& other) {
  if (first.batch != other.batch || first.seq != other.seq) {
    fail<ShapeError>(function, "all tensors must have the same batch and sequence, but one is ",
                     first.extents(), " and another ", other.extents());
  }
}

/// m cos and m sin made into what the direction multiplies with, in cos and sin [seq, count].
template <class C>
AngleRows<C> turned(const AngleRows<C>& rows, Direction direction, double attention_factor,
                    Index seq, Index count, C* cos, C* sin) noexcept {
  if (direction == Direction::Inverse && attention_factor != 1) {
    // One rounding, and no overflow where 1 / m^2 is beyond floats.
    const DoubleDouble scale = DoubleDouble(1.0) / two_product(attention_factor, attention_factor);
    for (Index i = 0; i < seq; ++i) {
      for (Index k = 0; k < count; ++k) {
        const auto c = static_cast<double>(rows.cos[i * rows.stride + k]);
        const auto s = static_cast<double>(rows.sin[i * rows.stride + k]);
        cos[i * count + k] = static_cast<C>((scale * c).hi);
        sin[i * count + k] = static_cast<C>(-(scale * s).hi);
      }
    }
    return {cos, sin, count};
  }
  for (Index i = 0; i < seq; ++i) {
    for (Index k = 0; k < count; ++k) {
      cos[i * count + k] = rows.cos[i * rows.stride + k];
      sin[i * count + k] = -rows.sin[i * rows.stride + k];
    }
  }
  return {cos, sin, count};
}

/// ChatGLM's: either half of the channels is a slice of its own with half pairing.
struct HalfRotateTwice {
  static constexpr const char* name = "half, twice";
  static constexpr Index first(Index pair, Index pairs) noexcept {
    return pair < pairs / 2 ? pair : pair + pairs / 2;
  }
  static constexpr Index second(Index pair, Index pairs) noexcept {
    return first(pair, pairs) + pairs / 2;
  }
};

/// Pairs that one call of the kernel can turn: neighbours in channels too.
template <class Pairing>
constexpr Index pairs_together(Index pairs) noexcept {
  return std::same_as<Pairing, HalfRotateTwice> ? pairs / 2 : pairs;
}

/// Copies the channels that the rotation leaves alone.
template <Scalar T>
void pass_through(const Rotated<T>& x, Index b, Index rows, Index s, Index seq,
                  RotarySlice slice) noexcept {
  if (x.in.empty()) return;
  for (Index row = b; row < b + rows; ++row) {
    for (Index i = s; i < s + seq; ++i) {
      for (Index h = 0; h < x.in.heads; ++h) {
        const T* in = x.in.row(row, i, h);
        T* out = x.out.row(row, i, h);
        std::copy(in, in + slice.offset, out);
        std::copy(in + slice.end(), in + x.in.dim, out + slice.end());
      }
    }
  }
}

/// How many channels ahead of its use x is asked for; 0 where a tensor of so many lies in caches that are fast enough.
/// From memory, halves of a head are streams that processors' prefetchers lose. Slices with gaps between them they lose
/// sooner, in order from the third cache on: what is asked for goes by whole strides, from slice to slice.
template <Scalar T>
constexpr Index channels_ahead(Index channels, bool gaps, bool in_order, Index stride) noexcept {
  constexpr Index size = sizeof(T), page = 4096;
  const Index most = (gaps ? 2 * page : page) / size;
  if (channels * size < (Index{gaps && in_order ? 4 : 32} << 20)) return 0;
  return stride > 0 && stride < most ? most - most % stride : most;
}

/// As the kernel sees it.
template <class Pairing>
using KernelPairing =
    std::conditional_t<std::same_as<Pairing, Interleaved>, Interleaved, HalfRotate>;

/// Kernels step once behind the last row; the stride of an axis with one element may be anything.
constexpr Index kernel_stride(Index extent, Index stride) noexcept {
  return extent > 1 ? stride : 0;
}

/// Rotates heads [h, h + heads) at positions [s, s + seq) of batch row b, pairs first .. first + count - 1.
template <class Pairing, Scalar T, class Angles>
POSENC_ALWAYS_INLINE void rotate_together(const Rotated<T>& x, Index b, Index s, Index seq, Index h,
                                          Index heads, RotarySlice slice, Index first, Index count,
                                          const Angles& angles, Index ahead,
                                          bool head_after_head = false) noexcept {
  const Index at = slice.offset + Pairing::first(first, slice.pairs);
  rotate_heads<KernelPairing<Pairing>>(
      RotationBlock<T, Angles>{.in = x.in.row(b, s, h) + at,
                               .out = x.out.row(b, s, h) + at,
                               .in_seq_stride = kernel_stride(seq, x.in.seq_stride),
                               .in_head_stride = kernel_stride(x.in.heads, x.in.head_stride),
                               .out_seq_stride = kernel_stride(seq, x.out.seq_stride),
                               .out_head_stride = kernel_stride(x.in.heads, x.out.head_stride),
                               .seq = seq,
                               .heads = heads,
                               .half = pairs_together<Pairing>(slice.pairs),
                               .pairs = count,
                               .angles = angles,
                               .ahead = ahead,
                               .head_after_head = head_after_head});
}

/// The same for all heads.
template <class Pairing, Scalar T, class Angles>
POSENC_ALWAYS_INLINE void rotate_positions(const Rotated<T>& x, Index b, Index s, Index seq,
                                           RotarySlice slice, Index first, Index count,
                                           const Angles& angles) noexcept {
  // Where a head's positions lie together and the heads apart, memory is read in its order if these are all positions
  // and no few of them. Else few heads go side by side, and more where positions are few: each group of heads takes
  // some 5 ns to begin.
  const bool heads_apart = seq > 1 && x.in.heads > 1 && x.in.seq_stride < x.in.head_stride;
  const Index stride = x.in.heads == 1 || heads_apart ? x.in.seq_stride : x.in.head_stride;
  const Index ahead = channels_ahead<T>(x.in.batch * x.in.seq * x.in.heads * x.in.dim,
                                        slice.pairs * 2 < x.in.dim, !heads_apart, stride);
  const bool head_after_head = heads_apart && seq > 3 &&
                               seq * x.in.seq_stride >= x.in.head_stride && ahead == 0 &&
                               count == pairs_together<Pairing>(slice.pairs) &&
                               turns_head_after_head<KernelPairing<Pairing>, T, Angles>(count);
  const Index together = heads_apart && !head_after_head
                             ? (std::min)((std::max)(Index{2}, 32 / seq), x.in.heads)
                             : x.in.heads;
  for (Index h = 0; h < x.in.heads; h += together) {
    const Index heads = (std::min)(together, x.in.heads - h);
    rotate_together<Pairing>(x, b, s, seq, h, heads, slice, first, count, angles, ahead,
                             head_after_head);
  }
}

/// Calls visit(first, count) for pieces of the pairs, at most so many at a time.
template <class Pairing, class Visit>
POSENC_ALWAYS_INLINE void for_pieces_of_pairs(Index pairs, Index most, const Visit& visit) {
  const Index together = pairs_together<Pairing>(pairs);
  for (Index first = 0, count = 0; first < pairs; first += count) {
    count = (std::min)(most, (first < together ? together : pairs) - first);
    visit(first, count);
  }
}

/// Rotates the only token of tensors by angles that lie ready: what decoding does in every layer, and what
/// takes less time than setting up a walk over blocks.
template <class Pairing, Scalar T>
POSENC_ALWAYS_INLINE void rotate_token(std::span<const Rotated<T>> tensors, RotarySlice slice,
                                       const Compute<T>* cos, const Compute<T>* sin) noexcept {
  for (const Rotated<T>& x : tensors) {
    for_pieces_of_pairs<Pairing>(slice.pairs, slice.pairs, [&](Index first, Index count) {
      const Index at = slice.offset + Pairing::first(first, slice.pairs);
      rotate_token_heads<KernelPairing<Pairing>>(x.in.data + at, x.out.data + at, count, x.in.heads,
                                                 cos + first, sin + first,
                                                 kernel_stride(x.in.heads, x.in.head_stride),
                                                 kernel_stride(x.in.heads, x.out.head_stride));
    });
    if (x.in.data != x.out.data) pass_through(x, 0, 1, 0, 1, slice);
  }
}

/// Rotates tensors of the same batch and sequence by the same angles. angles(b, s, seq, first, count,
/// cos, sin) gives m cos and m sin as AngleRows, of its own or written to cos and sin [seq, count];
/// it is asked once for all heads and tensors, and once for all batch rows where `shared` says that
/// they agree.
template <class Pairing, Device D, Scalar T, class Angles>
POSENC_NOINLINE void rotate_tensors(const D& device, std::span<const Rotated<T>> tensors,
                                    RotarySlice slice, Direction direction, double attention_factor,
                                    bool shared, const Angles& angles) {
  using C = Compute<T>;
  // Positions at a time: enough that a head's rows are long where heads lie apart ([B, H, S, D]), and
  // few enough that their angles stay in the first cache.
  constexpr Index chunk = 128, block = positions_in_order;
  constexpr auto room = static_cast<std::size_t>(block * chunk);
  const HeadsView<const T>& shape = tensors[0].in;
  // Tensors differ in heads alone; nothing is done at once, however long the other axes are.
  if (std::all_of(tensors.begin(), tensors.end(),
                  [](const Rotated<T>& x) { return x.in.empty(); })) {
    return;
  }
  const double bytes = static_cast<double>(shape.heads * slice.pairs * 2) * sizeof(T);
  // Splitting batch rows too computes shared angles again, which pays for short sequences alone.
  const auto threads = static_cast<Index>(device.numThreads());
  const bool share = shared && (threads == 1 || shape.batch == 1 || shape.seq >= block * threads);
  const Index rows = share ? shape.batch : 1;  // that one set of angles serves
  parallel_for(
      device, share ? shape.seq : shape.batch * shape.seq, bytes * static_cast<double>(rows),
      bytes / 16, [&](Index unit, Index unit_end) {
        alignas(64) C cos[room], sin[room];
        while (unit < unit_end) {
          const Index b = share ? 0 : unit / shape.seq, s = share ? unit : unit % shape.seq;
          const Index seq = (std::min)({block, unit_end - unit, shape.seq - s});
          for_pieces_of_pairs<Pairing>(slice.pairs, chunk, [&](Index first, Index count) {
            AngleRows<C> angle_rows = angles(b, s, seq, first, count, cos, sin);
            if (direction != Direction::Forward) {
              angle_rows = turned(angle_rows, direction, attention_factor, seq, count, cos, sin);
            }
            for (const Rotated<T>& x : tensors) {
              for (Index row = b; row < b + rows; ++row) {
                rotate_positions<Pairing>(x, row, s, seq, slice, first, count, angle_rows);
              }
            }
          });
          for (const Rotated<T>& x : tensors) {
            if (x.in.data != x.out.data) pass_through(x, b, rows, s, seq, slice);
          }
          unit += seq;
        }
      });
}

}  // namespace detail
POSENC_END
