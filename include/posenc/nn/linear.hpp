// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/workspace.hpp>
#include <posenc/core/config.hpp>
#include <posenc/kernels/slots.hpp>
#include <posenc/nn/detail/linear_passes.hpp>
#include <posenc/nn/linear_parameters.hpp>
#include <posenc/simd/tier.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

POSENC_UNDEFINED_OPERANDS_BEGIN
#include <Eigen/Core>
POSENC_UNDEFINED_OPERANDS_END

#include <concepts>
#include <cstdint>

POSENC_BEGIN

/// A projection that MultiHeadAttention makes queries, keys, values and its output with. Where there is an
/// apply(x, out, workspace, device), as Linear has it, that is used.
template <class P, class T>
concept LinearProjection = std::constructible_from<P, Index, Index, bool> &&
    requires(P& projection, const P& constant, EmbeddingsView<const T> x, EmbeddingsView<T> out,
             std::uint64_t seed) {
  { constant.in_dim() } -> std::convertible_to<Index>;
  { constant.out_dim() } -> std::convertible_to<Index>;
  constant.apply(x, out);
  { constant.parameter_count() } -> std::convertible_to<Index>;
  projection.randomize(seed);
};

/// A projection that learns. backward() writes the gradient of x, or leaves that out where grad_x has no data,
/// and adds that of the parameters to what zero_gradient() gave, or leaves that out where it is one that was
/// made by its default constructor. Where there is a backward(x, ..., gradient, workspace, device), or one
/// without the workspace, that is used.
template <class P, class T>
concept DifferentiableProjection = LinearProjection<P, T> &&
    requires(const P& projection, EmbeddingsView<const T> x, EmbeddingsView<const T> grad_out,
             EmbeddingsView<T> grad_x, decltype(projection.zero_gradient())& gradient) {
  requires std::default_initializable<decltype(projection.zero_gradient())>;
  projection.backward(x, grad_out, grad_x, gradient);
};

/// The layer of torch.nn.Linear, y = x W^T + b; owns its parameters. Up to 32 tokens take one pass over the weight
/// as it lies in memory; more of them pack it.
///   Order:    of the sum of an output's products. With SumOrder::Any it depends on how many tokens there are, and for
///             few of them on the tier. With SumOrder::Fixed each output is one chain of multiply-adds over the inputs,
///             in their order, to which the bias is added. So a token's outputs have the same bits alone and among
///             others, and a module that decodes gives those of one that sees the whole sequence
///   Accuracy: each output within (in + 1) u sum |w x| + u |y|, u = 2^-24 (2^-53 for double)
///   Bits:     the same for any number of threads
///   Cost:     SumOrder::Fixed packs the weight for more than one token: with AVX-512 and a weight of 4096 x 4096
///             floats, one token takes 1.1 times the time of SumOrder::Any, two 3.5 times, 16 twice, 128 1.3 times, and
///             256 1.2 times
template <class T, SumOrder Order = SumOrder::Any>
struct Linear : LinearParameters<T> {
  using LinearParameters<T>::LinearParameters;
  /// The type of matrix that `weight` can be mapped as.
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  /// out <- x W^T + b.
  ///   Shapes:   x [B, S, in], out [B, S, out]
  ///   Aliasing: none
  ///   Throws:   ShapeError, std::bad_alloc; before anything is written
  ///   Cost:     memory from the workspace where one is given: x once more for 2 to 32 tokens, for more of them up to
  ///             300 KiB per thread; with SumOrder::Fixed that of 140 rows of x per thread
  template <Device D = detail::CallingThread>
  void apply(EmbeddingsView<const T> x, EmbeddingsView<T> out,
             AttentionWorkspace* workspace_or_none = nullptr, const D& device = {}) const {
    detail::check_projection("Linear::apply", *this, x, out);
    AttentionWorkspace own;
    detail::linear_forward<tier::Best, Order>(
        device, detail::slots_of(workspace_or_none == nullptr ? own : *workspace_or_none), *this, x,
        out);
  }

  /// The backward pass of apply(): grad_x <- grad_out W, gradient.weight += grad_out^T x, and gradient.bias, where
  /// there is one, += the sum of grad_out over all tokens.
  ///   Shapes:   x, grad_x [B, S, in], grad_out [B, S, out]; grad_x is left out where it has no data; gradient as
  ///             zero_gradient() makes it, or left out where it has no parameters, LinearParameters<T>()
  ///   Aliasing: grad_x may be x; gradient is not this layer
  ///   Throws:   ShapeError, std::bad_alloc; before anything is written
  ///   Accuracy: grad_x within (out + 1) u sum |g w|, a weight's within (B S + 1) u (sum |g x| + |what it is added
  ///             to|), a bias's likewise, in an order that depends on how many tokens there are, whatever Order is
  ///   Cost:     up to 500 KiB per thread, from the workspace where one is given
  template <Device D = detail::CallingThread>
  void backward(EmbeddingsView<const T> x, EmbeddingsView<const T> grad_out,
                EmbeddingsView<T> grad_x, LinearParameters<T>& gradient,
                AttentionWorkspace* workspace_or_none = nullptr, const D& device = {}) const {
    detail::check_linear_backward("Linear::backward", *this, x, grad_out, grad_x, gradient);
    AttentionWorkspace own;
    detail::linear_backward<tier::Best>(
        device, detail::slots_of(workspace_or_none == nullptr ? own : *workspace_or_none), *this, x,
        grad_out, grad_x, gradient);
  }
};

/// Linear with the same order of sums for any number of tokens.
template <class T>
using FixedOrderLinear = Linear<T, SumOrder::Fixed>;

POSENC_END
