// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/few_rows_product.hpp>
#include <posenc/attention/detail/linear_backward.hpp>
#include <posenc/attention/detail/product_blocks.hpp>
#include <posenc/attention/linear_parameters.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
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
/// apply(device, x, out, workspace), as FixedOrderLinear has it, that is used.
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
/// made by its default constructor. Where there is a backward(device, x, ...), that is used.
template <class P, class T>
concept DifferentiableProjection = LinearProjection<P, T> &&
    requires(const P& projection, EmbeddingsView<const T> x, EmbeddingsView<const T> grad_out,
             EmbeddingsView<T> grad_x, decltype(projection.zero_gradient())& gradient) {
  requires std::default_initializable<decltype(projection.zero_gradient())>;
  projection.backward(x, grad_out, grad_x, gradient);
};

/// y = x W^T + b, the layer of torch.nn.Linear; owns its parameters. Two to 32 tokens take one pass over the
/// weight, one token and more of them Eigen's products.
///   Accuracy: each output within (in + 1) u sum |w x| + u |y|, u = 2^-24 (2^-53 for double). The order of
///             the sum depends on how many rows there are; that of FixedOrderLinear does not
///   Flags:    the products' functions are Eigen's, shared by all units of a program whatever their
///             flags: any of them may run. FixedOrderLinear's are posenc's own
template <class T>
struct Linear : LinearParameters<T> {
  using LinearParameters<T>::LinearParameters;
  /// What `weight` can be mapped as.
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  /// out <- x W^T + b.
  ///   Shapes:   x [B, S, in], out [B, S, out]
  ///   Aliasing: none
  ///   Throws:   ShapeError, std::bad_alloc; before anything is written
  ///   Cost:     the calling thread alone; allocates what a product packs where it is more than 32 KiB, at most
  ///             a few megabytes
  void apply(EmbeddingsView<const T> x, EmbeddingsView<T> out) const {
    detail::check_projection("Linear::apply", *this, x, out);
    if (out.empty()) return;
    if (x.dim == 0) {
      for (Index r = 0; r < x.batch * x.seq; ++r) std::fill_n(row(out, r), out.dim, T{0});
    } else if (few_rows(x)) {
      // As many batch rows at a time as are few rows together: that changes no bit of theirs.
      const Index together = detail::FewRowsProduct<tier::Best, T>::most_rows / x.seq;
      for (Index b = 0; b < x.batch; b += together) {
        const Index n = (std::min)(together, x.batch - b);
        detail::FewRowsProduct<tier::Best, T>(
            this->weight.data(), {x.row(b, 0), n, x.seq, x.dim, x.batch_stride, x.seq_stride},
            {out.row(b, 0), n, out.seq, out.dim, out.batch_stride, out.seq_stride})
            .run();
      }
    } else if (x.seq == 1 || x.seq_stride < 0 || out.seq_stride < 0) {
      // One token at a time; also those that lie backwards, which Eigen's maps do not know.
      for (Index r = 0; r < x.batch * x.seq; ++r) {
        multiply_row(x.row(r / x.seq, r % x.seq), row(out, r));
      }
    } else if (x.seq + x.dim + out.dim < small_sum) {
      for (Index b = 0; b < x.batch; ++b) {
        map(out, b).noalias() = map(x, b).lazyProduct(weight_map().transpose());
      }
    } else {
      detail::ProductBlocks<T> blocks(out.dim, x.seq, x.dim);
      for (Index b = 0; b < x.batch; ++b) multiply(x, out, b, blocks);
    }
    if (this->bias.size() == 0) return;
    for (Index r = 0; r < x.batch * x.seq; ++r) {
      T* const y = row(out, r);
      for (Index o = 0; o < out.dim; ++o) y[o] += this->bias(o);
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
  ///   Cost:     allocates as apply() does, for either product
  void backward(EmbeddingsView<const T> x, EmbeddingsView<const T> grad_out,
                EmbeddingsView<T> grad_x, LinearParameters<T>& gradient) const {
    backward(detail::CallingThread(), x, grad_out, grad_x, gradient);
  }
  /// The same on two threads of an Eigen device, one for the parameters and one for x; the same bits.
  template <Device D>
  void backward(const D& device, EmbeddingsView<const T> x, EmbeddingsView<const T> grad_out,
                EmbeddingsView<T> grad_x, LinearParameters<T>& gradient) const {
    detail::LinearBackward<T>("Linear::backward", *this, x, grad_out, grad_x, gradient).run(device);
  }

 private:
  using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;
  using Stride = Eigen::OuterStride<>;
  /// Of the extents: below it Eigen thinks that blocks do not pay.
  static constexpr Index small_sum = 20;

  /// One token of a batch row alone is left to Eigen, which is as fast. How many batch rows there are must not
  /// matter to the bits of any.
  static bool few_rows(EmbeddingsView<const T> x) noexcept {
    return x.seq > 1 && x.seq <= detail::FewRowsProduct<tier::Best, T>::most_rows;
  }
  static T* row(EmbeddingsView<T> out, Index r) noexcept {
    return out.row(r / out.seq, r % out.seq);
  }
  Eigen::Map<const Matrix> weight_map() const noexcept {
    return {this->weight.data(), this->weight.rows(), this->weight.cols()};
  }
  static Eigen::Map<const Matrix, 0, Stride> map(EmbeddingsView<const T> x, Index b) noexcept {
    return {x.row(b, 0), x.seq, x.dim, Stride(x.seq_stride)};
  }
  static Eigen::Map<Matrix, 0, Stride> map(EmbeddingsView<T> out, Index b) noexcept {
    return {out.row(b, 0), out.seq, out.dim, Stride(out.seq_stride)};
  }

  void multiply_row(const T* x, T* out) const {
    Eigen::Map<Vector>(out, this->out_dim()).noalias() =
        weight_map() * Eigen::Map<const Vector>(x, this->in_dim());
  }

  /// What `map(out, b) = map(x, b) * weight_map().transpose()` calls, but with our blocks: transposed,
  /// so that the result is column-major.
  void multiply(EmbeddingsView<const T> x, EmbeddingsView<T> out, Index b,
                detail::ProductBlocks<T>& blocks) const {
    map(out, b).setZero();
    Eigen::internal::general_matrix_matrix_product<Eigen::Index, T, Eigen::RowMajor, false, T,
                                                   Eigen::ColMajor, false, Eigen::ColMajor,
                                                   1>::run(out.dim, x.seq, x.dim,
                                                           this->weight.data(), this->in_dim(),
                                                           x.row(b, 0), x.seq_stride, out.row(b, 0),
                                                           1, out.seq_stride, T{1}, blocks);
  }
};

POSENC_END
