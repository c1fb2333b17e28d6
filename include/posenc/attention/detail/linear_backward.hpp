// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/product_blocks.hpp>
#include <posenc/attention/linear_parameters.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <optional>

POSENC_BEGIN
namespace detail {

/// Whether a gradient is one that nobody asks for.
template <class T>
bool is_left_out(const LinearParameters<T>& gradient) noexcept {
  return gradient.weight.rows() == 0 && gradient.weight.cols() == 0 && gradient.bias.size() == 0;
}

template <class T>
void check_linear_gradient(const char* function, const char* name,
                           const LinearParameters<T>& parameters,
                           const LinearParameters<T>& gradient) {
  const auto& weight = gradient.weight;
  if (is_left_out(gradient)) return;
  if (weight.rows() != parameters.out_dim() || weight.cols() != parameters.in_dim() ||
      gradient.bias.size() != parameters.bias.size()) {
    fail<ShapeError>(function, name, " must have the shapes of its layer, a weight [",
                     parameters.out_dim(), ", ", parameters.in_dim(), "] and a bias of ",
                     parameters.bias.size(), ", but has [", weight.rows(), ", ", weight.cols(),
                     "] and ", gradient.bias.size());
  }
}

/// The adjoint of y = x W^T + b, see Linear::backward().
template <class T>
class LinearBackward {
 public:
  /// Throws ShapeError, in the name of `function`.
  LinearBackward(const char* function, const LinearParameters<T>& parameters,
                 EmbeddingsView<const T> x, EmbeddingsView<const T> grad_out,
                 EmbeddingsView<T> grad_x, LinearParameters<T>& gradient)
      : parameters_(parameters), x_(x), grad_out_(grad_out), grad_x_(grad_x), gradient_(gradient) {
    check_extents(function, "x", x);
    check_extents(function, "grad_out", grad_out);
    check_extents(function, "grad_x", grad_x);
    const Index bias = parameters.bias.size();
    if (x.dim != in() || (bias != 0 && bias != out())) {
      fail<ShapeError>(function, "x ", x.extents(), " and bias (", bias, ") must fit the weight [",
                       out(), ", ", in(), "]");
    }
    if (grad_out.extents() != std::array<Index, 3>{x.batch, x.seq, out()}) {
      fail<ShapeError>(function, "grad_out ", grad_out.extents(), " must be [", x.batch, ", ",
                       x.seq, ", ", out(), "]");
    }
    if (grad_x.data != nullptr && grad_x.extents() != x.extents()) {
      fail<ShapeError>(function, "grad_x ", grad_x.extents(), " must have the shape of x, ",
                       x.extents());
    }
    if (grad_x.data != nullptr) check_output(function, "grad_x", grad_x);
    check_linear_gradient(function, "gradient", parameters, gradient);
    if (are_dense(x) && are_dense(grad_out) && (grad_x.data == nullptr || are_dense(grad_x))) {
      x_ = in_one_row(x);
      grad_out_ = in_one_row(grad_out);
      if (grad_x.data != nullptr) grad_x_ = in_one_row(grad_x);
    }
  }

  void run() const {
    if (x_.batch == 0 || x_.seq == 0) return;
    const bool learns = !is_left_out(gradient_), multiplies = in() > 0 && out() > 0;
    const bool of_weight = learns && multiplies;
    const bool of_x = grad_x_.data != nullptr && multiplies;
    // All memory before anything is written.
    std::optional<ProductBlocks<T>> weight_blocks, x_blocks;
    if (of_weight) weight_blocks.emplace(in(), out(), x_.seq);
    if (of_x) x_blocks.emplace(in(), x_.seq, out());
    if (of_weight) {
      for (Index b = 0; b < x_.batch; ++b) add_to_weight(b, *weight_blocks);
    }
    if (learns && gradient_.bias.size() != 0) add_to_bias();
    if (grad_x_.data == nullptr) return;
    for (Index b = 0; b < x_.batch; ++b) {
      for (Index s = 0; s < x_.seq; ++s) std::fill_n(grad_x_.row(b, s), in(), T{0});
      if (of_x) add_to_x(b, *x_blocks);
    }
  }

 private:
  Index in() const noexcept { return parameters_.in_dim(); }
  Index out() const noexcept { return parameters_.out_dim(); }

  /// Whether tokens of all batch rows are equally far apart.
  template <class E>
  static bool are_dense(const EmbeddingsView<E>& x) noexcept {
    return x.batch <= 1 || x.seq <= 1 || x.batch_stride == x.seq * x.seq_stride;
  }
  template <class E>
  static EmbeddingsView<E> in_one_row(const EmbeddingsView<E>& x) noexcept {
    return {x.data, 1, x.batch * x.seq, x.dim, 0, x.seq == 1 ? x.batch_stride : x.seq_stride};
  }

  template <int OrderOfRight>
  using Product =
      Eigen::internal::general_matrix_matrix_product<Eigen::Index, T, Eigen::ColMajor, false, T,
                                                     OrderOfRight, false, Eigen::ColMajor, 1>;

  // All is transposed, as in Linear, so that results are column-major: what is written has its inputs side
  // by side. The product itself takes strides of any sign.

  /// gradient^T += x^T grad_out
  void add_to_weight(Index b, ProductBlocks<T>& blocks) const {
    Product<Eigen::RowMajor>::run(in(), out(), x_.seq, x_.row(b, 0), x_.seq_stride,
                                  grad_out_.row(b, 0), grad_out_.seq_stride,
                                  gradient_.weight.data(), 1, in(), T{1}, blocks);
  }
  /// grad_x^T += W^T grad_out^T
  void add_to_x(Index b, ProductBlocks<T>& blocks) const {
    Product<Eigen::ColMajor>::run(in(), x_.seq, out(), parameters_.weight.data(), in(),
                                  grad_out_.row(b, 0), grad_out_.seq_stride, grad_x_.row(b, 0), 1,
                                  grad_x_.seq_stride, T{1}, blocks);
  }
  void add_to_bias() const noexcept {
    for (Index b = 0; b < grad_out_.batch; ++b) {
      for (Index s = 0; s < grad_out_.seq; ++s) {
        const T* grad = grad_out_.row(b, s);
        for (Index o = 0; o < out(); ++o) gradient_.bias(o) += grad[o];
      }
    }
  }

  const LinearParameters<T>& parameters_;
  EmbeddingsView<const T> x_, grad_out_;
  EmbeddingsView<T> grad_x_;
  LinearParameters<T>& gradient_;
};

}  // namespace detail
POSENC_END
