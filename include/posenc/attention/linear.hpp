// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/dropout.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/view.hpp>

#include <Eigen/Core>

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

POSENC_BEGIN

/// Weight and bias of a layer y = x W^T + b, laid out as in torch.nn.Linear.
///   Shapes: weight [out, in] row-major, bias [out] or empty
template <class T>
struct LinearParameters {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                "posenc: a projection is of float or double");

  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Vector = Eigen::Matrix<T, 1, Eigen::Dynamic>;

  Matrix weight;
  Vector bias;

  LinearParameters() = default;
  /// Zero parameters.
  LinearParameters(Index in, Index out, bool with_bias)
      : weight(Matrix::Zero(out, in)), bias(Vector::Zero(with_bias ? out : 0)) {}

  Index in_dim() const noexcept { return weight.cols(); }
  Index out_dim() const noexcept { return weight.rows(); }
  Index parameter_count() const noexcept { return weight.size() + bias.size(); }

  /// Weights uniform in +-sqrt(6 / (in + out)) (Glorot and Bengio 2010), bias zero: the same
  /// numbers on every platform.
  void randomize(std::uint64_t seed) {
    const double limit = std::sqrt(6.0 / static_cast<double>(in_dim() + out_dim()));
    for (Index i = 0; i < weight.size(); ++i) {
      const std::uint64_t bits =
          detail::mix_bits(detail::mix_bits(seed) + static_cast<std::uint64_t>(i));
      weight.data()[i] = static_cast<T>(limit * (2 * detail::uniform(bits) - 1));
    }
    bias.setZero();
  }

  /// Throws ShapeError, in the name of `function`, unless x and out fit the parameters.
  void check(const char* function, EmbeddingsView<const T> x, EmbeddingsView<T> out) const {
    if (x.dim != in_dim() || (bias.size() != 0 && bias.size() != out_dim())) {
      detail::fail<ShapeError>(function, "x ", x.extents(), " and bias (", bias.size(),
                               ") must fit the weight [", out_dim(), ", ", in_dim(), "]");
    }
    if (out.extents() != std::array<Index, 3>{x.batch, x.seq, out_dim()}) {
      detail::fail<ShapeError>(function, "out ", out.extents(), " must be [", x.batch, ", ", x.seq,
                               ", ", out_dim(), "]");
    }
    detail::check_output(function, "out", out);
  }
};

/// What MultiHeadAttention makes queries, keys, values and its output with. check() throws what
/// apply() would. Where there is an apply(device, x, out, workspace), as FixedOrderLinear has it, that
/// is used.
template <class P, class T>
concept LinearProjection = std::constructible_from<P, Index, Index, bool> &&
    requires(P& projection, const P& constant, EmbeddingsView<const T> x, EmbeddingsView<T> out,
             std::uint64_t seed) {
  constant.check("function", x, out);
  constant.apply(x, out);
  { constant.parameter_count() } -> std::convertible_to<Index>;
  projection.randomize(seed);
};

/// y = x W^T + b, the layer of torch.nn.Linear, by Eigen's product; owns its parameters.
///   Accuracy: each output within (in + 1) u sum |w x| + u |y|, u = 2^-24 (2^-53 for double). Eigen
///             adds up in an order that depends on how many rows there are; FixedOrderLinear does not
template <class T>
struct Linear : LinearParameters<T> {
  using LinearParameters<T>::LinearParameters;
  using typename LinearParameters<T>::Matrix;

  /// out <- x W^T + b.
  ///   Shapes:   x [B, S, in], out [B, S, out]
  ///   Aliasing: none
  ///   Throws:   ShapeError
  ///   Cost:     the calling thread alone; Eigen allocates what it packs
  void apply(EmbeddingsView<const T> x, EmbeddingsView<T> out) const {
    this->check("Linear::apply", x, out);
    if (out.empty()) return;
    using Stride = Eigen::OuterStride<>;
    for (Index b = 0; b < x.batch; ++b) {
      const Eigen::Map<const Matrix, 0, Stride> rows(x.row(b, 0), x.seq, x.dim,
                                                     Stride(x.seq_stride));
      Eigen::Map<Matrix, 0, Stride> result(out.row(b, 0), out.seq, out.dim, Stride(out.seq_stride));
      result.noalias() = rows * this->weight.transpose();
      if (this->bias.size() > 0) result.rowwise() += this->bias;
    }
  }
};

POSENC_END
