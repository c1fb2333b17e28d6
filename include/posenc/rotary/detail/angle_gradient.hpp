// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/core/mul_add.hpp>
#include <posenc/rotary/detail/check_rotation.hpp>
#include <posenc/tensor/detail/check_positions.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>

POSENC_BEGIN
namespace detail {

/// Calls visit(b, s, h, i, gradient) with d loss / d angle of each pair of each head vector. The
/// gradient is dy1 y0 - dy0 y1, where y is the rotated pair, attention factor included. All calls
/// for one pair come from one thread, in the order of b, s, h. Sums per pair therefore have the
/// same order on any device.
template <class Pairing, Scalar T, Device D, class Visit>
void for_each_angle_gradient(const D& device, HeadsView<const T> y, HeadsView<const T> grad_y,
                             RotarySlice slice, const Visit& visit) {
  if (y.empty() || slice.pairs == 0) return;
  const auto number = [](T x) { return static_cast<double>(static_cast<Compute<T>>(x)); };
  // One group of pairs is handled by one thread, so that threads do not write to the same cache
  // line.
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
POSENC_END
