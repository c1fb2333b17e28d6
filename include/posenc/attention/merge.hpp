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

/// Joins what attention() gave for two sets of keys that have none in common: out_a, lse_a <- as if
/// they had been one set. So keys can be shared out over threads, machines or a cached prefix; merge
/// the pieces in an order of your own, to within rounding the result is the same. A sink belongs to
/// one of the pieces. Going back, attention_backward() of each piece is given the joined out and
/// log-sum-exps, and needs no backward of this. On the threads of an Eigen device or without one; the same bits.
///   Shapes:   out_a, out_b [B, Sq, H, Dv]; lse_a, lse_b [B, H, Sq], natural logarithms
///   Aliasing: none
///   Throws:   ShapeError, before anything is written
///   Accuracy: 4 ulp of the larger output, in Compute<T>, and the store; exact where one side has no
///             keys (lse -inf), but for -0, which may become 0
///   Source:   arXiv 2205.14135, section 3.1
template <detail::Written T, Device D = detail::CallingThread>
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
  constexpr Real lowest = -std::numeric_limits<Real>::infinity();
  const auto join = [&](Index b, Index i, Index h) {
    const Real of_a = lse_a(b, h, i), of_b = lse_b(b, h, i);
    if (of_b == lowest) return;
    const Real top = of_a > of_b ? of_a : of_b;
    const Real a = std::exp(of_a - top), other = std::exp(of_b - top), sum = a + other;
    T* out = out_a.row(b, i, h);
    const T* more = out_b.row(b, i, h);
    for (Index d = 0; d < out_a.dim; ++d) {
      // Nothing, not even NaN, comes from a side without keys.
      const Real mine = of_a == lowest ? Real{0} : static_cast<Real>(out[d]) * (a / sum);
      out[d] = static_cast<T>(mul_add(static_cast<Real>(more[d]), other / sum, mine));
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
