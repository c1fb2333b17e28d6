// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/double_double.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

POSENC_BEGIN

namespace detail {

template <class T>
void normalise(T* x, Index dim, double scale) noexcept {
  double sum = 0;
  for (Index d = 0; d < dim; ++d) {
    const auto value = static_cast<double>(x[d]);
    sum = mul_add(value, value, sum);
  }
  const double length = std::sqrt(sum);
  const double factor = scale / (length < 1e-12 ? 1e-12 : length);
  for (Index d = 0; d < dim; ++d) {
    x[d] = static_cast<T>(static_cast<Compute<T>>(static_cast<double>(x[d]) * factor));
  }
}

/// Every row becomes scale(head) x / max(|x|, 1e-12), as torch.nn.functional.normalize has it.
template <class D, class T, class Scale>
void normalise_rows(const D& device, const char* function, const HeadsView<T>& x,
                    const Scale& scale) {
  check_output(function, "x", x);
  if (x.empty()) return;
  const double elements = static_cast<double>(x.heads) * static_cast<double>(x.dim);
  parallel_for(device, x.batch * x.seq, elements * sizeof(T), elements * 2,
               [&](Index token, Index end) {
                 for (; token < end; ++token) {
                   for (Index h = 0; h < x.heads; ++h) {
                     normalise(x.row(token / x.seq, token % x.seq, h), x.dim, scale(h));
                   }
                 }
               });
}

}  // namespace detail

/// Makes queries those of scaled cosine attention (Swin-V2), in place: unit vectors times their head's
/// exp(min(logit_scale, ln 100)). With keys from cosine_keys() the scores are then attention()'s own with
/// .scale = 1; a bias comes after that scale, as Swin-V2's LogCpb has it.
///   Shapes:   q [B, S, H, D]; logit_scale [H], as checkpoints have it, where ln 10 is the first value
///   Throws:   ShapeError, before anything is written
///   Accuracy: lengths in double, results rounded once; a vector shorter than 1e-12 is divided by that
///   Device:   on the threads of an Eigen device or without one; the same bits
///   Source:   arXiv 2111.09883, section 3.2; timm's models/swin_transformer_v2.py at 0041cb7
template <Device D, detail::Written T>
void cosine_queries(const D& device, HeadsView<T> q, std::span<const double> logit_scale) {
  constexpr auto function = "cosine_queries";
  detail::check_extents(function, "q", q);
  if (static_cast<Index>(logit_scale.size()) != q.heads) {
    detail::fail<ShapeError>(function, "logit_scale must have a value for each head but has ",
                             logit_scale.size(), "; q is ", q.extents());
  }
  const double most = std::log(100.0);
  // In this order a NaN stays one.
  detail::normalise_rows(device, function, q, [&](Index head) {
    return std::exp((std::min)(logit_scale[static_cast<std::size_t>(head)], most));
  });
}
template <detail::Written T>
void cosine_queries(HeadsView<T> q, std::span<const double> logit_scale) {
  cosine_queries(detail::CallingThread(), q, logit_scale);
}

/// Makes keys those of cosine attention, in place: unit vectors. Otherwise as cosine_queries().
template <Device D, detail::Written T>
void cosine_keys(const D& device, HeadsView<T> k) {
  detail::check_extents("cosine_keys", "k", k);
  detail::normalise_rows(device, "cosine_keys", k, [](Index) { return 1.0; });
}
template <detail::Written T>
void cosine_keys(HeadsView<T> k) {
  cosine_keys(detail::CallingThread(), k);
}

POSENC_END
