// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/workspace.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/slots.hpp>
#include <posenc/nn/detail/few_rows_product.hpp>
#include <posenc/nn/detail/linear_backward.hpp>
#include <posenc/nn/detail/many_rows_product.hpp>
#include <posenc/nn/linear_parameters.hpp>
#include <posenc/simd/detail/add_values.hpp>
#include <posenc/simd/tier.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

POSENC_UNDEFINED_OPERANDS_BEGIN
#include <Eigen/Core>
POSENC_UNDEFINED_OPERANDS_END

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <type_traits>

POSENC_BEGIN

namespace detail {

/// Throws ShapeError, in the name of `function`, unless a projection can be applied to x and out.
template <class Projection, class T>
void check_projection(const char* function, const Projection& projection, EmbeddingsView<const T> x,
                      EmbeddingsView<T> out) {
  check_extents(function, "x", x);
  check_extents(function, "out", out);
  const Index in_dim = projection.in_dim(), out_dim = projection.out_dim();
  if constexpr (std::is_base_of_v<LinearParameters<T>, Projection>) {
    const Index bias = projection.bias.size();
    if (x.dim != in_dim || (bias != 0 && bias != out_dim)) {
      fail<ShapeError>(function, "x ", x.extents(), " and bias (", bias, ") must fit the weight [",
                       out_dim, ", ", in_dim, "]");
    }
  } else if (x.dim != in_dim) {
    fail<ShapeError>(function, "x ", x.extents(), " must be [B, S, ", in_dim, "]");
  }
  if (out.extents() != std::array<Index, 3>{x.batch, x.seq, out_dim}) {
    fail<ShapeError>(function, "out ", out.extents(), " must be [", x.batch, ", ", x.seq, ", ",
                     out_dim, "]");
  }
  check_output(function, "out", out);
}

}  // namespace detail

/// What MultiHeadAttention makes queries, keys, values and its output with. Where there is an
/// apply(x, out, workspace, device), as FixedOrderLinear has it, that is used.
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

/// y = x W^T + b, the layer of torch.nn.Linear; owns its parameters. Up to 32 tokens take one pass over the weight
/// as it lies in memory; more of them pack it.
///   Accuracy: each output within (in + 1) u sum |w x| + u |y|, u = 2^-24 (2^-53 for double). The order of
///             the sum depends on how many tokens there are, and for few of them on the tier; that of
///             FixedOrderLinear does not
template <class T>
struct Linear : LinearParameters<T> {
  using LinearParameters<T>::LinearParameters;
  /// What `weight` can be mapped as.
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  /// out <- x W^T + b.
  ///   Shapes:   x [B, S, in], out [B, S, out]
  ///   Aliasing: none
  ///   Throws:   ShapeError, std::bad_alloc; before anything is written
  ///   Cost:     from the workspace where one is given, x once more for 2 to 32 tokens, for more tokens up to
  ///             300 KiB per thread
  template <Device D = detail::CallingThread>
  void apply(EmbeddingsView<const T> x, EmbeddingsView<T> out,
             AttentionWorkspace* workspace_or_none = nullptr, const D& device = {}) const {
    detail::check_projection("Linear::apply", *this, x, out);
    if (out.empty()) return;
    AttentionWorkspace own;
    detail::Slots& workspace =
        detail::slots_of(workspace_or_none == nullptr ? own : *workspace_or_none);
    if (x.seq <= FewRows::most_rows) {
      multiply_few(device, x, out, workspace);
    } else {
      detail::ManyRowsProduct<tier::Best, T>(x, out).run(
          device, workspace, [&](Index from, Index depth, Index first, Index count, T* panel) {
            detail::pack_panel<tier::Best>(this->weight.data() + first * x.dim + from, x.dim, 0,
                                           count, depth, panel);
          });
    }
    if (this->bias.size() == 0) return;
    for (Index b = 0; b < out.batch; ++b) {
      for (Index s = 0; s < out.seq; ++s) {
        detail::add_values(this->bias.data(), out.row(b, s), out.dim);
      }
    }
  }

  /// The backward pass of apply(): grad_x <- grad_out W, gradient.weight += grad_out^T x, and gradient.bias, where
  /// there is one, += the sum of grad_out over all tokens.
  ///   Shapes:   x, grad_x [B, S, in], grad_out [B, S, out]; grad_x is left out where it has no data; gradient as
  ///             zero_gradient() makes it, or left out where it has no parameters, LinearParameters<T>()
  ///   Aliasing: grad_x may be x; gradient is not this layer
  ///   Throws:   ShapeError, std::bad_alloc; before anything is written
  ///   Accuracy: grad_x within (out + 1) u sum |g w|, a weight's within (B S + 1) u (sum |g x| + |what it is added
  ///             to|), a bias's likewise, in an order that depends on how many tokens there are
  ///   Cost:     up to 500 KiB per thread, from the workspace where one is given
  template <Device D = detail::CallingThread>
  void backward(EmbeddingsView<const T> x, EmbeddingsView<const T> grad_out,
                EmbeddingsView<T> grad_x, LinearParameters<T>& gradient,
                AttentionWorkspace* workspace_or_none = nullptr, const D& device = {}) const {
    const detail::LinearBackward<T> call("Linear::backward", *this, x, grad_out, grad_x, gradient);
    AttentionWorkspace own;
    call.run(device, detail::slots_of(workspace_or_none == nullptr ? own : *workspace_or_none));
  }

 private:
  using FewRows = detail::FewRowsProduct<tier::Best, T>;

  /// As many batch rows at a time as are few tokens together: how many there are must not matter to the bits of
  /// any.
  template <Device D>
  void multiply_few(const D& device, const EmbeddingsView<const T>& x, const EmbeddingsView<T>& out,
                    detail::Slots& workspace) const {
    const Index together = FewRows::most_rows / x.seq;
    for (Index b = 0; b < x.batch; b += together) {
      const Index n = (std::min)(together, x.batch - b);
      FewRows(this->weight.data(), {x.row(b, 0), n, x.seq, x.dim, x.batch_stride, x.seq_stride},
              {out.row(b, 0), n, out.seq, out.dim, out.batch_stride, out.seq_stride})
          .run(device, workspace);
    }
  }
};

POSENC_END
