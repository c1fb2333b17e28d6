// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/tensor/view.hpp>

#include <Eigen/Core>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

// Layers of a transformer besides attention and linear layers, forward and backward.
namespace study {

using posenc::Index;

/// One token per row.
template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Returns the tokens of `sequences` texts, concatenated, as a view for posenc.
template <class T>
posenc::EmbeddingsView<T> tokens(Matrix<T>& x, Index sequences = 1) {
  return {x.data(), sequences, x.rows() / sequences, x.cols()};
}
template <class T>
posenc::EmbeddingsView<const T> tokens(const Matrix<T>& x, Index sequences = 1) {
  return {x.data(), sequences, x.rows() / sequences, x.cols()};
}

template <class T>
using Row = Eigen::Matrix<T, 1, Eigen::Dynamic>;
template <class T>
Eigen::Map<const Row<T>> as_row(const std::vector<T>& values) {
  return {values.data(), static_cast<Index>(values.size())};
}
template <class T>
Eigen::Map<Row<T>> as_row(std::vector<T>& values) {
  return {values.data(), static_cast<Index>(values.size())};
}

/// Returns 1 / rms of a token.
template <class Token>
auto inverse_rms(const Token& x) {
  using T = typename Token::Scalar;
  return 1 / std::sqrt(x.squaredNorm() / static_cast<T>(x.size()) + T(1e-5));
}

/// RMSNorm y = gain x / rms(x), token by token (arXiv 1910.07467).
template <class T>
void rms_norm(const Matrix<T>& x, const std::vector<T>& gain, Matrix<T>& y) {
  y.resize(x.rows(), x.cols());
  for (Index i = 0; i < x.rows(); ++i) {
    y.row(i) = inverse_rms(x.row(i)) * x.row(i).cwiseProduct(as_row(gain));
  }
}

/// Adds the gradients of x and gain to grad_x and grad_gain, given that of y.
template <class T>
void rms_norm_backward(const Matrix<T>& x, const std::vector<T>& gain, const Matrix<T>& grad_y,
                       Matrix<T>& grad_x, std::vector<T>& grad_gain) {
  for (Index i = 0; i < x.rows(); ++i) {
    const T r = inverse_rms(x.row(i));
    as_row(grad_gain) += r * grad_y.row(i).cwiseProduct(x.row(i));
    const T along = grad_y.row(i).cwiseProduct(as_row(gain)).dot(x.row(i));
    grad_x.row(i) += r * grad_y.row(i).cwiseProduct(as_row(gain)) -
                     (r * r * r * along / static_cast<T>(x.cols())) * x.row(i);
  }
}

/// Sets grad to 0 where y = max(x, 0) is 0.
template <class T>
void relu_backward(const Matrix<T>& y, Matrix<T>& grad) {
  const T* const from = y.data();
  T* const to = grad.data();
  for (Index i = 0; i < y.size(); ++i) to[i] = from[i] > 0 ? to[i] : 0;
}

/// Returns the sum of -ln p(target) over all tokens; logits become `scale` times its gradient.
template <class T>
double cross_entropy(Matrix<T>& logits, const std::vector<std::uint8_t>& targets, T scale) {
  double nats = 0;
  for (Index i = 0; i < logits.rows(); ++i) {
    auto row = logits.row(i).array();
    const Index target = targets[static_cast<std::size_t>(i)];
    row -= row.maxCoeff();
    const T score = row(target);
    row = row.exp();
    const T sum = row.sum();
    nats += std::log(static_cast<double>(sum)) - static_cast<double>(score);
    row *= scale / sum;
    row(target) -= scale;
  }
  return nats;
}

}  // namespace study
