// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/core/refusal.hpp>
#include <posenc/rotary/rotate_heads.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

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
  if (!std::isfinite(attention_factor) || attention_factor <= 0) {
    fail<ConfigError>(function, "attention_factor must be positive and finite but is ",
                      attention_factor);
  }
}

template <class T>
void check_slice_fits(const char* function, const HeadsView<T>& x, RotarySlice slice) {
  if (slice.end() > x.dim) {
    fail<ShapeError>(function, "head_dim (", x.dim, ") must hold the rotary channels [",
                     slice.offset, ", ", slice.end(), "); x is ", x.extents());
  }
}

/// Checks shared by all rotations, before anything is written.
template <Scalar T>
void check_rotation(const char* function, const HeadsView<const T>& in, const HeadsView<T>& out,
                    RotarySlice slice) {
  if (in.extents() != out.extents()) {
    fail<ShapeError>(function, "input ", in.extents(), " and output ", out.extents(),
                     " must have the same shape");
  }
  check_slice_fits(function, in, slice);
  check_output(function, "x", out);
  check_overlap<T>(function, in, out);
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

/// m cos and m sin of some pairs at consecutive positions.
template <class C>
struct AngleRows {
  const C* cos;
  const C* sin;
  Index stride;  ///< from position to position
};

/// m cos and m sin made into what the direction multiplies with, in cos and sin [seq, count].
template <class C>
AngleRows<C> turned(const AngleRows<C>& rows, Direction direction, double attention_factor,
                    Index seq, Index count, C* cos, C* sin) noexcept {
  const C scale = direction == Direction::Inverse
                      ? static_cast<C>(1 / (attention_factor * attention_factor))
                      : C{1};
  for (Index i = 0; i < seq; ++i) {
    for (Index k = 0; k < count; ++k) {
      cos[i * count + k] = rows.cos[i * rows.stride + k] * scale;
      sin[i * count + k] = rows.sin[i * rows.stride + k] * -scale;
    }
  }
  return {cos, sin, count};
}

/// Copies the channels that the rotation leaves alone.
template <Scalar T>
void pass_through(const Rotated<T>& x, Index b, Index rows, Index s, Index seq,
                  RotarySlice slice) noexcept {
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

/// Rotates all heads of positions [s, s + seq) of batch row b, pairs first .. first + count - 1.
template <class Pairing, Scalar T>
void rotate_positions(const Rotated<T>& x, Index b, Index s, Index seq, RotarySlice slice,
                      Index first, Index count, AngleRows<Compute<T>> angles) noexcept {
  // Where a head's positions lie together and the heads apart, few heads go side by side.
  const bool heads_apart = seq > 1 && x.in.seq_stride < x.in.head_stride;
  const Index together = heads_apart ? (std::min)(Index{4}, x.in.heads) : x.in.heads;
  const Index at = slice.offset + Pairing::first(first, slice.pairs);
  for (Index h = 0; h < x.in.heads; h += together) {
    const RotationBlock<T> block{.in = x.in.row(b, s, h) + at,
                                 .out = x.out.row(b, s, h) + at,
                                 .in_seq_stride = x.in.seq_stride,
                                 .in_head_stride = x.in.head_stride,
                                 .out_seq_stride = x.out.seq_stride,
                                 .out_head_stride = x.out.head_stride,
                                 .seq = seq,
                                 .heads = (std::min)(together, x.in.heads - h),
                                 .half = slice.pairs,
                                 .pairs = count,
                                 .cos = angles.cos,
                                 .sin = angles.sin,
                                 .angle_stride = angles.stride};
    rotate_heads<Pairing>(block);
  }
}

/// Rotates tensors of the same batch and sequence by the same angles. angles(b, s, seq, first, count,
/// cos, sin) gives m cos and m sin as AngleRows, of its own or written to cos and sin [seq, count];
/// it is asked once for all heads and tensors, and once for all batch rows where `shared` says that
/// they agree.
template <class Pairing, class Device, Scalar T, class Angles>
void rotate_tensors(const Device& device, std::span<const Rotated<T>> tensors, RotarySlice slice,
                    Direction direction, double attention_factor, bool shared,
                    const Angles& angles) {
  using C = Compute<T>;
  // Positions at a time: enough that a head's rows are long where heads lie apart ([B, H, S, D]), and
  // few enough that their angles stay in the first cache.
  constexpr Index chunk = 128, block = 16;
  constexpr auto room = static_cast<std::size_t>(block * chunk);
  const HeadsView<const T>& shape = tensors[0].in;
  const double bytes = static_cast<double>(shape.heads * slice.pairs * 2) * sizeof(T);
  // Splitting batch rows too computes shared angles again, which pays for short sequences alone.
  const Index threads = thread_count(device);
  const bool share = shared && (threads == 1 || shape.batch == 1 || shape.seq >= block * threads);
  const Index rows = share ? shape.batch : 1;  // that one set of angles serves
  parallel_for(
      device, share ? shape.seq : shape.batch * shape.seq, bytes * static_cast<double>(rows),
      bytes / 16, [&](Index unit, Index unit_end) {
        alignas(64) C cos[room], sin[room];
        while (unit < unit_end) {
          const Index b = share ? 0 : unit / shape.seq, s = share ? unit : unit % shape.seq;
          const Index seq = (std::min)({block, unit_end - unit, shape.seq - s});
          for (Index first = 0; first < slice.pairs; first += chunk) {
            const Index count = (std::min)(chunk, slice.pairs - first);
            AngleRows<C> angle_rows = angles(b, s, seq, first, count, cos, sin);
            if (direction != Direction::Forward) {
              angle_rows = turned(angle_rows, direction, attention_factor, seq, count, cos, sin);
            }
            for (const Rotated<T>& x : tensors) {
              for (Index row = b; row < b + rows; ++row) {
                rotate_positions<Pairing>(x, row, s, seq, slice, first, count, angle_rows);
              }
            }
          }
          for (const Rotated<T>& x : tensors) {
            if (x.in.data != x.out.data) pass_through(x, b, rows, s, seq, slice);
          }
          unit += seq;
        }
      });
}

/// The same for one tensor on the calling thread, where angles(b, s, first, count, cos, sin) writes m
/// cos and m sin of one position.
template <class Pairing, Scalar T, class Angles>
void rotate_tensor(HeadsView<const T> in, HeadsView<T> out, RotarySlice slice, Direction direction,
                   double attention_factor, bool shared, const Angles& angles) {
  using C = Compute<T>;
  const Rotated<T> tensor{in, out};
  rotate_tensors<Pairing, CallingThread, T>(
      CallingThread(), std::span<const Rotated<T>>(&tensor, 1), slice, direction, attention_factor,
      shared, [&](Index b, Index s, Index seq, Index first, Index count, C* cos, C* sin) {
        for (Index i = 0; i < seq; ++i) {
          angles(b, s + i, first, count, cos + i * count, sin + i * count);
        }
        return AngleRows<C>{cos, sin, count};
      });
}

}  // namespace detail
POSENC_END
