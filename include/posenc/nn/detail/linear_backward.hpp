// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/error.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/slots.hpp>
#include <posenc/kernels/tiled_product.hpp>
#include <posenc/nn/detail/few_rows_backward.hpp>
#include <posenc/nn/detail/many_rows_product.hpp>
#include <posenc/nn/linear_parameters.hpp>
#include <posenc/simd/detail/add_values.hpp>
#include <posenc/simd/tier.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>

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
    if (!product_of({x.batch, x.seq})) {
      fail<ShapeError>(function, "the tokens of x ", x.extents(), " are more than can be counted");
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

  template <Device D>
  void run(const D& device, Slots& memory) const {
    if (x_.empty() && grad_out_.empty()) return;
    const bool learns = !is_left_out(gradient_) && in() > 0 && out() > 0;
    const bool multiplies = grad_x_.data != nullptr;
    if (x_.batch <= FewRows::most_rows && x_.seq <= FewRows::most_rows / x_.batch) {
      const FewRows rows(x_, grad_out_);
      if (learns) rows.add_to_weight(device, gradient_.weight.data());
      if (!is_left_out(gradient_) && gradient_.bias.size() != 0) add_to_bias();
      if (multiplies) rows.write_x(device, parameters_.weight.data(), grad_x_);
      return;
    }
    // All memory before anything is written.
    if (learns) of_weight(at_once(x_.seq)).reserve(device, memory);
    if (multiplies) of_x().reserve(device, memory);
    // The parameters need x, in whose place its gradient may be.
    if (learns) add_to_weight(device, memory);
    if (!is_left_out(gradient_) && gradient_.bias.size() != 0) add_to_bias();
    if (multiplies) write_x(device, memory);
  }

 private:
  using Tier = tier::Best;
  using Product = TiledProduct<Tier, T>;
  using FewRows = FewRowsBackward<Tier, T>;

  Index in() const noexcept { return parameters_.in_dim(); }
  Index out() const noexcept { return parameters_.out_dim(); }
  static Index at_once(Index depth) noexcept { return (std::min)(depth, product_depth<T>); }

  /// Whether tokens of all batch rows are equally far apart.
  template <class E>
  static bool are_dense(const EmbeddingsView<E>& x) noexcept {
    return x.empty() || x.batch <= 1 || x.seq <= 1 || x.batch_stride == x.seq * x.seq_stride;
  }
  template <class E>
  static EmbeddingsView<E> in_one_row(const EmbeddingsView<E>& x) noexcept {
    return {x.data, 1, x.batch * x.seq, x.dim, 0, x.seq == 1 ? x.batch_stride : x.seq_stride};
  }

  /// Columns of grad_out become rows, for which whole cache lines of it are read.
  Product of_weight(Index tokens) const noexcept {
    return {out(), in(), tokens, 8 * Product::strip_rows};
  }
  ManyRowsProduct<Tier, T> of_x() const noexcept { return {grad_out_, grad_x_}; }

  /// gradient += grad_out^T x
  template <Device D>
  void add_to_weight(const D& device, Slots& memory) const {
    for (Index b = 0; b < x_.batch; ++b) {
      for (Index s = 0; s < x_.seq; s += product_depth<T>) {
        const Index tokens = at_once(x_.seq - s);
        of_weight(tokens).run(
            device, memory,
            [&](Index first, Index count, T* panel) {
              pack_columns<Tier>(x_.row(b, s) + first, x_.seq_stride, count, tokens, panel);
            },
            [&](Index first, Index count, T* rows, Index stride) {
              transpose_into<Tier>(grad_out_.row(b, s) + first, grad_out_.seq_stride, tokens, count,
                                   rows, stride);
            },
            [&](Index row, Index first, Index count, const T* products) {
              add_values<Tier>(products, gradient_.weight.data() + row * in() + first, count);
            });
      }
    }
  }
  /// grad_x <- grad_out W
  template <Device D>
  void write_x(const D& device, Slots& memory) const {
    of_x().run(device, memory, [&](Index from, Index depth, Index first, Index count, T* panel) {
      pack_columns<Tier>(parameters_.weight.data() + from * in() + first, in(), count, depth,
                         panel);
    });
  }
  void add_to_bias() const noexcept {
    for (Index b = 0; b < grad_out_.batch; ++b) {
      for (Index s = 0; s < grad_out_.seq; ++s) {
        add_values<Tier>(grad_out_.row(b, s), gradient_.bias.data(), out());
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
