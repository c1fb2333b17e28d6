// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/double_double.hpp>
#include <posenc/core/error.hpp>
#include <posenc/rotary/chatglm_rope.hpp>
#include <posenc/rotary/detail/rotation_walk.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

// Gradients of frequencies that are learned.
POSENC_BEGIN

namespace detail {

/// d loss / d angle of a pair is dy1 y0 - dy0 y1, with y the rotated pair, attention factor
/// included. visit(b, s, h, i, gradient) gets that of each pair of each head vector: from b, s and h to
/// the next by one thread for each pair, so that a pair's sum has the same order on any device.
template <class Pairing, Scalar T, Device D, class Visit>
void for_each_angle_gradient(const D& device, HeadsView<const T> y, HeadsView<const T> grad_y,
                             RotarySlice slice, const Visit& visit) {
  const auto number = [](T x) { return static_cast<double>(static_cast<Compute<T>>(x)); };
  // So many pairs go together that threads do not write to the same cache line.
  constexpr Index group = 8;
  const auto numbers = static_cast<double>(y.batch) * static_cast<double>(y.seq * y.heads * group);
  parallel_for(device, (slice.pairs + group - 1) / group, numbers * 4 * sizeof(T), numbers * 2,
               [&](Index part, Index part_end) {
                 const Index pairs_end = (std::min)(part_end * group, slice.pairs);
                 for (Index b = 0; b < y.batch; ++b) {
                   for (Index s = 0; s < y.seq; ++s) {
                     for (Index h = 0; h < y.heads; ++h) {
                       const T* out = y.row(b, s, h) + slice.offset;
                       const T* grad = grad_y.row(b, s, h) + slice.offset;
                       for (Index i = part * group; i < pairs_end; ++i) {
                         const Index first = Pairing::first(i, slice.pairs);
                         const Index second = Pairing::second(i, slice.pairs);
                         visit(b, s, h, i,
                               mul_add(number(grad[second]), number(out[first]),
                                       -(number(grad[first]) * number(out[second]))));
                       }
                     }
                   }
                 }
               });
}

template <Scalar T>
void check_frequency_gradient(const char* function, const HeadsView<const T>& y,
                              const HeadsView<const T>& grad_y, RotarySlice slice,
                              const Positions& positions, Index axes, std::size_t frequencies,
                              std::size_t gradients) {
  check_extents(function, "rotated", y);
  check_extents(function, "gradient", grad_y);
  if (y.extents() != grad_y.extents()) {
    fail<ShapeError>(function, "rotated ", y.extents(), " and gradient ", grad_y.extents(),
                     " must have the same shape");
  }
  check_slice_fits(function, y, slice);
  check_positions(function, positions, y.batch, y.seq, axes, y.extents());
  if (gradients != frequencies) {
    fail<ShapeError>(function, "grad_inv_freq must have ", frequencies, " values but has ",
                     gradients);
  }
}

}  // namespace detail

/// grad_inv_freq[i] += sum of p (dy1 y0 - dy0 y1) over batch rows, positions and heads, y being
/// what rope.rotate gave and grad_y the gradient of the loss with respect to it; the angle's p is
/// that of the pair's axis. Call it for queries and for keys.
///   Shapes:   y, grad_y [B, S, H, D]; positions [B or 1, S]; grad_inv_freq [rotary_dim / 2]
///   Types:    sums in double, in the order b, s, h, also on the threads of a device
///   Throws:   ShapeError, before anything is added
template <Device D, class Pairing, class T>
requires Scalar<std::remove_const_t<T>>
void accumulate_frequency_gradient(const D& device, const Rope<Pairing>& rope,
                                   HeadsView<const std::remove_const_t<T>> y, HeadsView<T> grad_y,
                                   const Positions& positions, std::span<double> grad_inv_freq) {
  using Element = std::remove_const_t<T>;
  const detail::RotarySlice slice{rope.rotary_offset(), rope.rotary_dim() / 2};
  detail::check_frequency_gradient<Element>(
      "accumulate_frequency_gradient", y, grad_y, slice, positions, rope.axis_count(),
      static_cast<std::size_t>(slice.pairs), grad_inv_freq.size());
  detail::for_each_angle_gradient<Pairing, Element>(
      device, y, grad_y, slice, [&](Index b, Index s, Index, Index i, double gradient) {
        double& sum = grad_inv_freq[static_cast<std::size_t>(i)];
        sum = mul_add(positions.at(b, s, rope.axes().axis(i)), gradient, sum);
      });
}

template <class Pairing, class T>
requires Scalar<std::remove_const_t<T>>
void accumulate_frequency_gradient(const Rope<Pairing>& rope,
                                   HeadsView<const std::remove_const_t<T>> y, HeadsView<T> grad_y,
                                   const Positions& positions, std::span<double> grad_inv_freq) {
  accumulate_frequency_gradient(detail::CallingThread(), rope, y, grad_y, positions, grad_inv_freq);
}

/// The same for the frequencies of MixedRope, [axes, heads, rotary_dim / 2].
template <Device D, class Pairing, class T>
requires Scalar<std::remove_const_t<T>>
void accumulate_frequency_gradient(const D& device, const MixedRope<Pairing>& rope,
                                   HeadsView<const std::remove_const_t<T>> y, HeadsView<T> grad_y,
                                   const Positions& positions, std::span<double> grad_inv_freq) {
  using Element = std::remove_const_t<T>;
  constexpr auto function = "accumulate_frequency_gradient";
  const MixedRopeConfig& config = rope.config();
  const detail::RotarySlice slice{config.rotary_offset, config.rotary_dim / 2};
  if (y.heads != config.heads) {
    detail::fail<ShapeError>(function, "there are frequencies for ", config.heads, " heads; x is ",
                             y.extents());
  }
  detail::check_frequency_gradient<Element>(
      function, y, grad_y, slice, positions, config.axes,
      static_cast<std::size_t>(config.axes * config.heads * slice.pairs), grad_inv_freq.size());
  detail::for_each_angle_gradient<Pairing, Element>(
      device, y, grad_y, slice, [&](Index b, Index s, Index h, Index i, double gradient) {
        for (Index axis = 0; axis < config.axes; ++axis) {
          const Index at = (axis * config.heads + h) * slice.pairs + i;
          double& sum = grad_inv_freq[static_cast<std::size_t>(at)];
          sum = mul_add(positions.at(b, s, axis), gradient, sum);
        }
      });
}
template <class Pairing, class T>
requires Scalar<std::remove_const_t<T>>
void accumulate_frequency_gradient(const MixedRope<Pairing>& rope,
                                   HeadsView<const std::remove_const_t<T>> y, HeadsView<T> grad_y,
                                   const Positions& positions, std::span<double> grad_inv_freq) {
  accumulate_frequency_gradient(detail::CallingThread(), rope, y, grad_y, positions, grad_inv_freq);
}

/// The same for ChatGLM's frequencies of one half, which both halves share.
template <Device D, class T>
requires Scalar<std::remove_const_t<T>>
void accumulate_frequency_gradient(const D& device, const ChatGlmRope& rope,
                                   HeadsView<const std::remove_const_t<T>> y, HeadsView<T> grad_y,
                                   const Positions& positions, std::span<double> grad_inv_freq) {
  // The second half first: what is wrong with a tensor is wrong with this half.
  const auto block = rope.block_half(), position = rope.position_half();
  accumulate_frequency_gradient(device, block, y, grad_y, positions, grad_inv_freq);
  accumulate_frequency_gradient(device, position, y, grad_y, positions, grad_inv_freq);
}
template <class T>
requires Scalar<std::remove_const_t<T>>
void accumulate_frequency_gradient(const ChatGlmRope& rope,
                                   HeadsView<const std::remove_const_t<T>> y, HeadsView<T> grad_y,
                                   const Positions& positions, std::span<double> grad_inv_freq) {
  accumulate_frequency_gradient(detail::CallingThread(), rope, y, grad_y, positions, grad_inv_freq);
}

POSENC_END
