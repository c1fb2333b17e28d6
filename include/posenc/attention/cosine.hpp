// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/core/mul_add.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <type_traits>

POSENC_BEGIN

namespace detail {

/// Lower bound of the lengths that vectors are divided by, as in torch.nn.functional.normalize.
inline constexpr double min_length = 1e-12;

/// Length |x| as length / unit. For doubles whose squares overflow, unit is less than 1.
struct Length {
  double length, unit;
};

template <class T>
double length_of(const T* x, Index dim, double unit) noexcept {
  double sum = 0;
  for (Index d = 0; d < dim; ++d) {
    const double value = static_cast<double>(x[d]) * unit;
    sum = mul_add(value, value, sum);
  }
  return std::sqrt(sum);
}
template <class T>
Length length_of(const T* x, Index dim) noexcept {
  const double length = length_of(x, dim, 1.0);
  if constexpr (std::is_same_v<T, double>) {
    constexpr double down = 0x1p-530;  // lengths from 2^512 upwards stay above min_length
    if (!std::isfinite(length)) return {length_of(x, dim, down), down};
  }
  return {length, 1.0};
}

template <class T>
void normalise(T* x, Index dim, double scale) noexcept {
  const auto [length, unit] = length_of(x, dim);
  const double factor = scale / (length < min_length ? min_length : length);
  for (Index d = 0; d < dim; ++d) {
    const double value = static_cast<double>(x[d]) * unit;
    x[d] = static_cast<T>(static_cast<Compute<T>>(value * factor));
  }
}

/// Normalises every row to scale(head) x / max(|x|, 1e-12), as torch.nn.functional.normalize does.
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

/// Factor of a head; is_free is true if the factor depends on the head's logit.
struct CosineScale {
  double factor;
  bool is_free;
};
inline CosineScale cosine_scale(double logit_scale) noexcept {
  const double max_logit = std::log(100.0);
  // In this order a NaN stays NaN.
  return {std::exp((std::min)(logit_scale, max_logit)), !(logit_scale > max_logit)};
}

/// Computes grad <- scale / |x| (grad - u (u . grad)) with u = x / |x|. Returns u . grad; scale
/// times that is the contribution to the gradient of the logit.
template <class T>
double normalise_backward(const T* x, Index dim, double scale, T* grad) noexcept {
  const auto [length, unit] = length_of(x, dim);
  const bool is_short = length < min_length;
  const double factor = 1 / (is_short ? min_length : length);
  double along = 0;
  for (Index d = 0; d < dim; ++d) {
    const double value = static_cast<double>(x[d]) * unit;
    along = mul_add(value * factor, static_cast<double>(grad[d]), along);
  }
  // A clamped length is no function of x.
  const double radial = is_short ? 0.0 : along;
  for (Index d = 0; d < dim; ++d) {
    const double direction = static_cast<double>(x[d]) * unit * factor;
    const double rest = mul_add(-direction, radial, static_cast<double>(grad[d]));
    grad[d] = static_cast<T>(static_cast<Compute<T>>(scale * factor * unit * rest));
  }
  return along;
}

/// Applies normalise_backward() to all rows. Heads are distributed over threads, so that one thread
/// adds up a head's sum, in token order.
template <class D, class T, class Scale, class Add>
void normalise_rows_backward(const D& device, const char* function, const HeadsView<const T>& x,
                             const HeadsView<T>& grad, const Scale& scale, const Add& add) {
  check_extents(function, "x", x);
  check_extents(function, "grad", grad);
  if (grad.extents() != x.extents()) {
    fail<ShapeError>(function, "grad ", grad.extents(), " must have the shape of x ", x.extents());
  }
  check_output(function, "grad", grad);
  if (x.empty()) return;
  const double elements = static_cast<double>(x.batch * x.seq) * static_cast<double>(x.dim);
  parallel_for(device, x.heads, elements * sizeof(T), elements * 4, [&](Index head, Index end) {
    for (; head < end; ++head) {
      double sum = 0;
      for (Index token = 0; token < x.batch * x.seq; ++token) {
        const Index b = token / x.seq, s = token % x.seq;
        const double head_scale = scale(head);
        sum = mul_add(
            head_scale,
            normalise_backward(x.row(b, s, head), x.dim, head_scale, grad.row(b, s, head)), sum);
      }
      add(head, sum);
    }
  });
}

}  // namespace detail

/// Converts queries in place to those of scaled cosine attention (Swin-V2): unit vectors times
/// exp(min(logit_scale, ln 100)) of their head. With keys from cosine_keys(), and .scale = 1,
/// attention() then computes the scores. A bias is added after that scale, as Swin-V2's LogCpb
/// requires.
///   Shapes:   q [B, S, H, D]; logit_scale [H], as stored in checkpoints, with initial value ln 10
///   Throws:   ShapeError, before anything is written
///   Accuracy: computed in double, rounded to Compute<T> and then to T; a vector shorter than 1e-12
///             is divided by 1e-12
///   Device:   threads of an Eigen device, or the calling thread if omitted; the bits are the same
///   Source:   arXiv 2111.09883, section 3.2; timm's models/swin_transformer_v2.py at 0041cb7
template <detail::Writable T, Device D = detail::CallingThread>
void cosine_queries(HeadsView<T> q, std::span<const double> logit_scale, const D& device = {}) {
  constexpr auto function = "cosine_queries";
  detail::check_extents(function, "q", q);
  if (static_cast<Index>(logit_scale.size()) != q.heads) {
    detail::fail<ShapeError>(function, "logit_scale must have a value for each head but has ",
                             logit_scale.size(), "; q is ", q.extents());
  }
  detail::normalise_rows(device, function, q, [&](Index head) {
    return detail::cosine_scale(logit_scale[static_cast<std::size_t>(head)]).factor;
  });
}

/// Converts keys in place to those of cosine attention, which are unit vectors.
///   Shapes:   k [B, S, H, D]
///   Throws:   ShapeError, before anything is written
///   Accuracy: as for cosine_queries()
///   Device:   as for cosine_queries()
template <detail::Writable T, Device D = detail::CallingThread>
void cosine_keys(HeadsView<T> k, const D& device = {}) {
  detail::check_extents("cosine_keys", "k", k);
  detail::normalise_rows(device, "cosine_keys", k, [](Index) { return 1.0; });
}

/// Computes the backward pass of cosine_queries() in place: converts grad from the gradient of its
/// result into that of q. Adds the gradient of logit_scale[h] to logit_gradient[h]; it is 0 beyond
/// the clamp.
///   Shapes: q, as passed to cosine_queries(), and grad [B, S, H, D]; logit_scale and
///           logit_gradient [H]. logit_gradient may be omitted
///   Throws: ShapeError, before anything is written
///   Device: heads are distributed over the threads of an Eigen device; the bits are the same
template <detail::Writable T, Device D = detail::CallingThread>
void cosine_queries_backward(HeadsView<const std::type_identity_t<T>> q,
                             std::span<const double> logit_scale, HeadsView<T> grad,
                             std::span<double> logit_gradient = {}, const D& device = {}) {
  constexpr auto function = "cosine_queries_backward";
  const auto size = static_cast<Index>(logit_scale.size());
  if (size != q.heads || (!logit_gradient.empty() && logit_gradient.size() != logit_scale.size())) {
    detail::fail<ShapeError>(function,
                             "logit_scale must have one value per head, and logit_gradient one per "
                             "head or none, but they have ",
                             size, " and ", logit_gradient.size(), "; q is ", q.extents());
  }
  const auto scale_of = [&](Index head) {
    return detail::cosine_scale(logit_scale[static_cast<std::size_t>(head)]);
  };
  detail::normalise_rows_backward<D, T>(
      device, function, q, grad, [&](Index head) { return scale_of(head).factor; },
      [&](Index head, double sum) {
        if (!logit_gradient.empty() && scale_of(head).is_free) {
          logit_gradient[static_cast<std::size_t>(head)] += sum;
        }
      });
}

/// Computes the backward pass of cosine_keys() in place: converts grad from the gradient of its
/// result into that of k.
///   Shapes: k, as passed to cosine_keys(), and grad [B, S, H, D]
///   Throws: ShapeError, before anything is written
///   Device: as for cosine_queries_backward()
template <detail::Writable T, Device D = detail::CallingThread>
void cosine_keys_backward(HeadsView<const std::type_identity_t<T>> k, HeadsView<T> grad,
                          const D& device = {}) {
  detail::normalise_rows_backward<D, T>(
      device, "cosine_keys_backward", k, grad, [](Index) { return 1.0; }, [](Index, double) {});
}

POSENC_END
