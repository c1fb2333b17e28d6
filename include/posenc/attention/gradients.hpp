// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <span>
#include <utility>

POSENC_BEGIN

/// Output views of attention_backward(). Gradients of tensors are overwritten. Gradients of
/// parameters (additive mask, sinks) are accumulated, because calls share parameters. A view
/// without data is not computed.
template <Scalar T>
struct AttentionGradients {
  HeadsView<T> q = {};                   ///< [B, Sq, H, D]
  HeadsView<T> k = {};                   ///< [B, Sk, Hkv, D]
  HeadsView<T> v = {};                   ///< [B, Sk, Hkv, Dv]
  ScoresView<Compute<T>> additive = {};  ///< shape of options.additive; summed over broadcast axes
  std::span<Compute<T>> sinks = {};      ///< [H]
};

/// Empty gradient of a bias without parameters, or with parameters that are not learned.
struct NoGradient {};

namespace detail {

/// Returns zero_gradient() of a part, or NoGradient for a part without learned parameters.
template <class Part>
auto zero_gradient_of(const Part& part) {
  if constexpr (requires { part.zero_gradient(); }) {
    return part.zero_gradient();
  } else {
    return NoGradient();
  }
}
template <class Part>
using GradientOf = decltype(zero_gradient_of(std::declval<const Part&>()));

/// Writes zeros to a gradient that nothing contributes to.
template <Scalar T>
void write_zeros(const HeadsView<T>& gradient) noexcept {
  if (gradient.data == nullptr || gradient.empty()) return;
  for (Index b = 0; b < gradient.batch; ++b) {
    for (Index j = 0; j < gradient.seq; ++j) {
      for (Index h = 0; h < gradient.heads; ++h) {
        std::fill_n(gradient.row(b, j, h), gradient.dim, static_cast<T>(0.0F));
      }
    }
  }
}

}  // namespace detail
POSENC_END
