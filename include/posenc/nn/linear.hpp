// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/workspace.hpp>
#include <posenc/core/config.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/nn/detail/linear_passes.hpp>
#include <posenc/nn/linear_parameters.hpp>
#include <posenc/simd/tier.hpp>
#include <posenc/tensor/detail/erased_device.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

#include <concepts>
#include <cstdint>

// Forward declaration of Eigen::Matrix, so that this header does not include Eigen.
namespace Eigen {
template <class T, int Rows, int Columns, int Options, int MaxRows, int MaxColumns>
class Matrix;
}

POSENC_BEGIN

/// Projection that MultiHeadAttention computes queries, keys, values and its output with. If it has
/// apply(x, out, workspace, device), as Linear has, the module calls that overload.
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

/// Projection with learned parameters. backward() writes the gradient of x, unless grad_x has no
/// data. It adds the gradient of the parameters to an object from zero_gradient(), unless that
/// object is default-constructed. If it has backward(x, ..., gradient, workspace, device), as
/// Linear has, the module calls that overload.
template <class P, class T>
concept DifferentiableProjection = LinearProjection<P, T> &&
    requires(const P& projection, EmbeddingsView<const T> x, EmbeddingsView<const T> grad_out,
             EmbeddingsView<T> grad_x, decltype(projection.zero_gradient())& gradient) {
  requires std::default_initializable<decltype(projection.zero_gradient())>;
  projection.backward(x, grad_out, grad_x, gradient);
};

/// Linear layer as in torch.nn.Linear, y = x W^T + b; owns its parameters. Up to 32 tokens are
/// computed in one pass over the weight as it lies in memory. For more tokens the weight is packed.
///   Order:    the order in which the products of an output are added. With SumOrder::Any it
///             depends on the number of tokens, and for few tokens on the tier. With
///             SumOrder::Fixed each output is one chain of multiply-adds over the inputs, in their
///             order, and the bias is added last. A token's outputs are then bit-identical alone
///             and among others, and a module that decodes gives the bits of one call over the full
///             sequence
///   Accuracy: each output within (in + 1) u sum |w x| + u |y|, u = 2^-24 (2^-53 for double)
///   Bits:     the same for any number of threads
///   Cost:     SumOrder::Fixed packs the weight for more than one token. With AVX-512 and a weight
///             of 4096 x 4096 floats it takes, relative to SumOrder::Any: 1.1 times the time for
///             one token, 3.5 times for two, 2 times for 16, 1.3 times for 128, 1.2 times for 256
template <class T, SumOrder Order = SumOrder::Any>
struct Linear : LinearParameters<T> {
  using LinearParameters<T>::LinearParameters;
  /// Type of the matrix that `weight` can be mapped as: extents are dynamic (-1), rows contiguous
  /// (1, Eigen::RowMajor). Include Eigen to use it.
  using Matrix = Eigen::Matrix<T, -1, -1, 1, -1, -1>;

  /// Computes out <- x W^T + b.
  ///   Shapes:   x [B, S, in], out [B, S, out]
  ///   Aliasing: none
  ///   Throws:   ShapeError, std::bad_alloc; before anything is written
  ///   Cost:     memory, from the workspace if given: a copy of x for 2 to 32 tokens; up to 300 KiB
  ///             per thread for more tokens; 140 rows of x per thread with SumOrder::Fixed
  template <Device D = detail::CallingThread>
  void apply(EmbeddingsView<const T> x, EmbeddingsView<T> out,
             AttentionWorkspace* workspace_or_none = nullptr, const D& device = {}) const {
    detail::check_projection("Linear::apply", *this, x, out);
    AttentionWorkspace local_workspace;
    detail::linear_forward<tier::Best, Order>(
        detail::ErasedDevice(device),
        detail::arenas_of(workspace_or_none == nullptr ? local_workspace : *workspace_or_none),
        *this, x, out);
  }

  /// Computes the backward pass of apply(): grad_x <- grad_out W, gradient.weight += grad_out^T x,
  /// and gradient.bias += the sum of grad_out over all tokens, if there is a bias.
  ///   Shapes:   x, grad_x [B, S, in], grad_out [B, S, out]; gradient from zero_gradient(). grad_x
  ///             without data, and a gradient without parameters, LinearParameters<T>(), are not
  ///             computed
  ///   Aliasing: grad_x may be x; gradient must not be this layer
  ///   Throws:   ShapeError, std::bad_alloc; before anything is written
  ///   Accuracy: grad_x within (out + 1) u sum |g w|; the gradient of a weight within (B S + 1) u
  ///             (sum |g x| + |its old value|); of a bias likewise. The order of sums depends on
  ///             the number of tokens for both values of Order
  ///   Cost:     up to 500 KiB per thread, from the workspace if given
  template <Device D = detail::CallingThread>
  void backward(EmbeddingsView<const T> x, EmbeddingsView<const T> grad_out,
                EmbeddingsView<T> grad_x, LinearParameters<T>& gradient,
                AttentionWorkspace* workspace_or_none = nullptr, const D& device = {}) const {
    detail::check_linear_backward("Linear::backward", *this, x, grad_out, grad_x, gradient);
    AttentionWorkspace local_workspace;
    detail::linear_backward<tier::Best>(
        detail::ErasedDevice(device),
        detail::arenas_of(workspace_or_none == nullptr ? local_workspace : *workspace_or_none),
        *this, x, grad_out, grad_x, gradient);
  }
};

/// Linear layer whose order of sums is the same for any number of tokens.
template <class T>
using FixedOrderLinear = Linear<T, SumOrder::Fixed>;

#define POSENC_DETAIL_LINEAR(EXTERN, T, ORDER)                         \
  EXTERN template void linear_forward<tier::Best, ORDER>(              \
      const ErasedDevice&, ScratchArenas&, const LinearParameters<T>&, \
      const EmbeddingsView<const T>&, const EmbeddingsView<T>&);
#define POSENC_DETAIL_LINEARS(EXTERN, T)                                                        \
  POSENC_DETAIL_LINEAR(EXTERN, T, SumOrder::Any)                                                \
  POSENC_DETAIL_LINEAR(EXTERN, T, SumOrder::Fixed)                                              \
  EXTERN template void linear_backward<tier::Best>(                                             \
      const ErasedDevice&, ScratchArenas&, const LinearParameters<T>&, EmbeddingsView<const T>, \
      EmbeddingsView<const T>, EmbeddingsView<T>, LinearParameters<T>&);
#if POSENC_COMPILED
namespace detail {
POSENC_DETAIL_LINEARS(extern, float)
POSENC_DETAIL_LINEARS(extern, double)
}  // namespace detail
#endif

POSENC_END
