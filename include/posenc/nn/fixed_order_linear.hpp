// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/workspace.hpp>
#include <posenc/core/config.hpp>
#include <posenc/kernels/slots.hpp>
#include <posenc/nn/detail/fixed_order_product.hpp>
#include <posenc/nn/detail/linear_backward.hpp>
#include <posenc/nn/linear.hpp>
#include <posenc/nn/linear_parameters.hpp>
#include <posenc/simd/tier.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

POSENC_BEGIN

/// Linear with one order for any number of tokens: each output is one chain of multiply-adds over the inputs, in
/// their order, to which the bias is added. So a token's outputs have the same bits alone and among
/// others, on any number of threads, and a module that decodes gives those of one that sees the whole
/// sequence.
///   Accuracy: as Linear
///   Cost:     the weight is packed in each call: with AVX-512 and a weight of 4096 x 4096 floats, one row takes
///             1.1 times Linear's time, two 3.5 times, 16 twice, 128 1.3 times, and 256 1.2 times
template <class T>
struct FixedOrderLinear : LinearParameters<T> {
  using LinearParameters<T>::LinearParameters;

  /// out <- x W^T + b.
  ///   Shapes:   x [B, S, in], out [B, S, out]
  ///   Aliasing: none
  ///   Throws:   ShapeError
  ///   Cost:     memory for 140 rows of x per thread, from the workspace where one is given
  template <Device D = detail::CallingThread>
  void apply(EmbeddingsView<const T> x, EmbeddingsView<T> out,
             AttentionWorkspace* workspace_or_none = nullptr, const D& device = {}) const {
    detail::check_projection("FixedOrderLinear::apply", *this, x, out);
    if (out.empty()) return;
    AttentionWorkspace own;
    detail::FixedOrderProduct<tier::Best, T>(*this, x, out)
        .run(device, detail::slots_of(workspace_or_none == nullptr ? own : *workspace_or_none));
  }

  /// As Linear::backward().
  template <Device D = detail::CallingThread>
  void backward(EmbeddingsView<const T> x, EmbeddingsView<const T> grad_out,
                EmbeddingsView<T> grad_x, LinearParameters<T>& gradient,
                AttentionWorkspace* workspace_or_none = nullptr, const D& device = {}) const {
    const detail::LinearBackward<T> call("FixedOrderLinear::backward", *this, x, grad_out, grad_x,
                                         gradient);
    AttentionWorkspace own;
    call.run(device, detail::slots_of(workspace_or_none == nullptr ? own : *workspace_or_none));
  }
};

POSENC_END
