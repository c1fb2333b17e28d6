// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <type_traits>

// The tensors of a rotation, and their checks before anything is written.
POSENC_BEGIN
namespace detail {

/// True if a rotation reads elements of In and stores results as another type T.
template <class In, class T>
concept Converts = !std::is_const_v<T> && !std::same_as<std::remove_const_t<In>, T> &&
                   Scalar<std::remove_const_t<In>> && Scalar<T> &&
                   std::same_as<Compute<std::remove_const_t<In>>, Compute<T>>;

/// The channels of a head that are rotated: [offset, end()).
struct RotarySlice {
  Index offset = 0;
  Index pairs = 0;

  Index end() const noexcept { return offset + 2 * pairs; }
};

/// One tensor of a call: the view that is read and the view that is written.
template <Scalar In, Scalar Out = In>
struct RotationOperand {
  HeadsView<const In> in;
  HeadsView<Out> out;
};

/// Returns the operand of a rotation in place. The numbers of the view are copied one by one:
/// compilers store copies of a view, or of Extent, and read them again, up to 15 ns of a token's
/// time.
template <Scalar T>
POSENC_ALWAYS_INLINE constexpr RotationOperand<T> in_place_operand(const HeadsView<T>& x) noexcept {
  const Index batch = x.batch, seq = x.seq, heads = x.heads, dim = x.dim;
  const Index batch_stride = x.batch_stride, seq_stride = x.seq_stride, head_stride = x.head_stride;
  return {{x.data, batch, seq, heads, dim, batch_stride, seq_stride, head_stride},
          {x.data, batch, seq, heads, dim, batch_stride, seq_stride, head_stride}};
}

inline void check_slice_and_factor(const char* function, RotarySlice slice,
                                   double attention_factor) {
  if (slice.offset < 0) {
    fail<ConfigError>(function, "rotary_offset must not be negative but is ", slice.offset);
  }
  const auto channels = checked_mul({2, slice.pairs});
  if (!channels || !checked_add(slice.offset, *channels)) {
    fail<ConfigError>(function, "rotary_offset (", slice.offset, ") and the channels of ",
                      slice.pairs, " rotary pairs exceed 2^63 - 1 together");
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
    fail<ShapeError>(function, "head_dim (", x.dim, ") must include the rotary channels [",
                     slice.offset, ", ", slice.end(), "); x is ", x.extents());
  }
}

/// True if input and output are the same view, as in a rotation in place.
template <Scalar In, Scalar Out>
POSENC_ALWAYS_INLINE bool is_in_place(const HeadsView<const In>& in,
                                      const HeadsView<Out>& out) noexcept {
  return share_data(in, out) && in.batch == out.batch && in.seq == out.seq &&
         in.heads == out.heads && in.dim == out.dim && in.batch_stride == out.batch_stride &&
         in.seq_stride == out.seq_stride && in.head_stride == out.head_stride;
}

/// Checks any operand in full. check_rotation() calls it if its few comparisons do not suffice.
template <Scalar In, Scalar Out>
void check_views(const char* function, const HeadsView<const In>& in, const HeadsView<Out>& out,
                 RotarySlice slice) {
  if (in.extents() == out.extents() && slice.end() <= out.dim && passes_fast_checks(in) &&
      passes_fast_checks(out)) {
    return check_overlap(function, in, out);
  }
  check_extents(function, "x", in);
  check_extents<HeadsView<const Out>>(
      function, "out", out);  // its strides may be others even if the memory is the same
  if (in.extents() != out.extents()) {
    fail<ShapeError>(function, "input ", in.extents(), " and output ", out.extents(),
                     " must have the same shape");
  }
  check_slice_fits(function, in, slice);
  check_output(function, is_in_place(in, out) ? "x" : "out", out);
  check_overlap(function, in, out);
}

/// Checks one operand of any rotation. In-place operands with nested strides, the common kind, need
/// only a few comparisons, because check_views() takes longer than rotating the heads of one token.
template <Scalar In, Scalar Out>
POSENC_ALWAYS_INLINE void check_rotation(const char* function, const RotationOperand<In, Out>& x,
                                         RotarySlice slice) {
  const HeadsView<const In>& in = x.in;
  const HeadsView<Out>& out = x.out;
  if (!is_in_place(in, out) || slice.end() > out.dim || !passes_fast_checks(out)) [[unlikely]] {
    check_views(function, in, out, slice);
  }
}

/// Throws ShapeError if tensors after the first have another batch or sequence than the first.
template <Scalar In, Scalar Out>
POSENC_ALWAYS_INLINE void check_same_tokens(const char* function,
                                            ListView<RotationOperand<In, Out>> tensors) {
  const HeadsView<const In>& first = tensors[0].in;
  for (std::size_t n = 1; n < tensors.size(); ++n) {
    const HeadsView<const In>& x = tensors[n].in;
    if (first.batch != x.batch || first.seq != x.seq) {
      fail<ShapeError>(function, "all tensors must have the same batch and sequence, but one is ",
                       first.extents(), " and another ", x.extents());
    }
  }
}

}  // namespace detail
POSENC_END
