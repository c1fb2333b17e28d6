// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/dropout.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/view.hpp>

#include <Eigen/Core>

#include <cmath>
#include <cstdint>

POSENC_BEGIN

/// y = x W^T + b, the layer of torch.nn.Linear; owns its parameters.
///   Shapes: weight [out, in] row-major, bias [out] or empty
template <class T>
struct Linear {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Vector = Eigen::Matrix<T, 1, Eigen::Dynamic>;

  Matrix weight;
  Vector bias;

  Linear() = default;
  /// Zero parameters.
  Linear(Index in, Index out, bool with_bias)
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
      const double uniform = static_cast<double>(bits >> 11) * 0x1p-53;
      weight.data()[i] = static_cast<T>(limit * (2 * uniform - 1));
    }
    bias.setZero();
  }

  /// out <- x W^T + b.
  ///   Shapes:   x [B, S, in], out [B, S, out]
  ///   Aliasing: none
  ///   Throws:   ShapeError
  void apply(EmbeddingsView<const T> x, EmbeddingsView<T> out) const {
    constexpr auto function = "Linear::apply";
    if (x.dim != in_dim() || (bias.size() != 0 && bias.size() != out_dim())) {
      detail::fail<ShapeError>(function, "x ", x.extents(), " and bias (", bias.size(),
                               ") must fit the weight [", out_dim(), ", ", in_dim(), "]");
    }
    if (out.extents() != std::array<Index, 3>{x.batch, x.seq, out_dim()}) {
      detail::fail<ShapeError>(function, "out ", out.extents(), " must be [", x.batch, ", ", x.seq,
                               ", ", out_dim(), "]");
    }
    if (out.empty()) return;
    using Stride = Eigen::OuterStride<>;
    for (Index b = 0; b < x.batch; ++b) {
      const Eigen::Map<const Matrix, 0, Stride> rows(x.row(b, 0), x.seq, x.dim,
                                                     Stride(x.seq_stride));
      Eigen::Map<Matrix, 0, Stride> result(out.row(b, 0), out.seq, out.dim, Stride(out.seq_stride));
      result.noalias() = rows * weight.transpose();
      if (bias.size() > 0) result.rowwise() += bias;
    }
  }
};

POSENC_END
