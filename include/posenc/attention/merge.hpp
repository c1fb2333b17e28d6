// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/core/mul_add.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

POSENC_BEGIN

/// Combines the partial results of attention() over two disjoint key sets into out_a and lse_a. The
/// result equals that of one call over the union, up to rounding. Use it to split keys over
/// threads, machines or a cached prefix; any merge order is valid. Pass each sink to exactly one
/// part.
///   Shapes:   out_a, out_b [B, Sq, H, Dv]; lse_a, lse_b [B, H, Sq], natural logarithms
///   Device:   threads of an Eigen device, or the calling thread if omitted; the bits are the same
///   Aliasing: the views must not overlap
///   Throws:   ShapeError, before anything is written
///   Accuracy: 4 ulp of the larger output, in Compute<T>, and the rounding to T; exact if one side
///             has no keys (lse -inf), except that -0 may become 0
///   Backward: call attention_backward() for each part with the merged out and log-sum-exps;
///             merge() needs no backward of its own
///   Source:   arXiv 2205.14135, section 3.1
template <detail::Writable T, Device D = detail::CallingThread>
void merge(HeadsView<T> out_a, LseView<Compute<std::remove_const_t<T>>> lse_a,
           HeadsView<const std::type_identity_t<T>> out_b,
           LseView<const Compute<std::remove_const_t<T>>> lse_b, const D& device = {}) {
  using Real = Compute<T>;
  constexpr auto function = "merge";
  detail::check_extents(function, "out_a", out_a);
  detail::check_extents(function, "lse_a", lse_a);
  detail::check_extents(function, "out_b", out_b);
  detail::check_extents(function, "lse_b", lse_b);
  if (out_a.extents() != out_b.extents()) {
    detail::fail<ShapeError>(function, "out_b ", out_b.extents(), " must have the shape of out_a ",
                             out_a.extents());
  }
  const std::array<Index, 3> rows{out_a.batch, out_a.heads, out_a.seq};
  if (lse_a.extents() != rows || lse_b.extents() != rows) {
    detail::fail<ShapeError>(function, "lse_a ", lse_a.extents(), " and lse_b ", lse_b.extents(),
                             " must be ", rows);
  }
  detail::check_output(function, "out_a", out_a);
  detail::check_output(function, "lse_a", lse_a);
  if (out_a.batch == 0 || out_a.seq == 0 || out_a.heads == 0) return;
  constexpr Real neg_infinity = -std::numeric_limits<Real>::infinity();
  const auto join = [&](Index b, Index i, Index h) {
    const Real lse_of_a = lse_a(b, h, i), lse_of_b = lse_b(b, h, i);
    if (lse_of_b == neg_infinity) return;
    const Real top = lse_of_a > lse_of_b ? lse_of_a : lse_of_b;
    const Real a = std::exp(lse_of_a - top), other = std::exp(lse_of_b - top), sum = a + other;
    T* out = out_a.row(b, i, h);
    const T* b_row = out_b.row(b, i, h);
    for (Index d = 0; d < out_a.dim; ++d) {
      // A side without keys contributes nothing, not even NaN.
      const Real a_term =
          lse_of_a == neg_infinity ? Real{0} : static_cast<Real>(out[d]) * (a / sum);
      out[d] = static_cast<T>(mul_add(static_cast<Real>(b_row[d]), other / sum, a_term));
    }
    lse_a(b, h, i) = top + std::log(sum);
  };
  const double bytes = static_cast<double>(out_a.heads * out_a.dim) * sizeof(T);
  detail::parallel_for(device, out_a.batch * out_a.seq, 3 * bytes, bytes,
                       [&](Index token, Index end) {
                         for (; token < end; ++token) {
                           for (Index h = 0; h < out_a.heads; ++h)
                             join(token / out_a.seq, token % out_a.seq, h);
                         }
                       });
}

POSENC_END
