// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/double_double.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>

// The rotation kernel and the walk over a tensor that Rope and RotationTable share.
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

/// Rotates pairs first .. first + count - 1 of one head vector; cos and sin hold those pairs'
/// values. in may be out.
template <class Pairing, Scalar T>
void rotate_pairs(const T* in, T* out, RotarySlice slice, Index first, Index count,
                  const Compute<T>* cos, const Compute<T>* sin) noexcept {
  for (Index i = 0; i < count; ++i) {
    const Index a = slice.offset + Pairing::first(first + i, slice.pairs);
    const Index b = slice.offset + Pairing::second(first + i, slice.pairs);
    const auto x0 = static_cast<Compute<T>>(in[a]);
    const auto x1 = static_cast<Compute<T>>(in[b]);
    out[a] = static_cast<T>(mul_add(cos[i], x0, -(sin[i] * x1)));
    out[b] = static_cast<T>(mul_add(sin[i], x0, cos[i] * x1));
  }
}

/// Turns m cos and m sin into what the direction multiplies with.
template <class C>
void set_direction(Direction direction, double attention_factor, Index count, C* cos,
                   C* sin) noexcept {
  if (direction == Direction::Forward) return;
  const C scale = direction == Direction::Inverse
                      ? static_cast<C>(1 / (attention_factor * attention_factor))
                      : C{1};
  for (Index i = 0; i < count; ++i) {
    cos[i] *= scale;
    sin[i] *= -scale;
  }
}

/// Copies the channels that the rotation leaves alone.
template <class T>
void pass_through(const T* in, T* out, RotarySlice slice, Index dim) noexcept {
  if (in == out) return;
  std::copy(in, in + slice.offset, out);
  std::copy(in + slice.end(), in + dim, out + slice.end());
}

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

/// Checks shared by all rotations, before anything is written.
template <Scalar T>
void check_rotation(const char* function, const HeadsView<const T>& in, const HeadsView<T>& out,
                    RotarySlice slice) {
  if (in.extents() != out.extents()) {
    fail<ShapeError>(function, "input ", in.extents(), " and output ", out.extents(),
                     " must have the same shape");
  }
  if (slice.end() > in.dim) {
    fail<ShapeError>(function, "head_dim (", in.dim, ") must hold the rotary channels [",
                     slice.offset, ", ", slice.end(), "); x is ", in.extents());
  }
  check_overlap<T>(function, in, out);
}

/// Rotates a whole tensor. angles(b, s, first, count, cos, sin) gives m cos and m sin of some pairs
/// at one position; it is asked once a position for all heads, and once for all batch rows where
/// `shared` says that they agree.
template <class Pairing, Scalar T, class Angles>
void rotate_tensor(HeadsView<const T> in, HeadsView<T> out, RotarySlice slice, Direction direction,
                   double attention_factor, bool shared, const Angles& angles) {
  constexpr Index chunk = 128;
  Compute<T> cos[chunk], sin[chunk];
  const Index rows_per_angle = shared ? in.batch : 1;
  for (Index b0 = 0; b0 < in.batch; b0 += rows_per_angle) {
    for (Index s = 0; s < in.seq; ++s) {
      for (Index first = 0; first < slice.pairs; first += chunk) {
        const Index count = (std::min)(chunk, slice.pairs - first);
        angles(b0, s, first, count, cos, sin);
        set_direction(direction, attention_factor, count, cos, sin);
        for (Index b = b0; b < b0 + rows_per_angle; ++b) {
          for (Index h = 0; h < in.heads; ++h) {
            rotate_pairs<Pairing>(in.row(b, s, h), out.row(b, s, h), slice, first, count, cos, sin);
          }
        }
      }
      for (Index b = b0; b < b0 + rows_per_angle; ++b) {
        for (Index h = 0; h < in.heads; ++h) {
          pass_through(in.row(b, s, h), out.row(b, s, h), slice, in.dim);
        }
      }
    }
  }
}

}  // namespace detail
POSENC_END
