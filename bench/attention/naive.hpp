// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/tensor/view.hpp>

#include <Eigen/Core>

#include <cmath>

// Causal attention as written in Eigen without posenc.
namespace bench {

using posenc::Index;

using ScoreMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Computes a softmax per row over the keys that the row's query sees; the last query sees all
/// keys.
inline void causal_softmax(ScoreMatrix& scores, float scale) {
  const Index keys = scores.cols(), before = keys - scores.rows();
  for (Index i = 0; i < scores.rows(); ++i) {
    auto seen = scores.row(i).head(before + i + 1).array();
    seen = (scale * (seen - seen.maxCoeff())).exp();
    seen *= 1 / seen.sum();
    scores.row(i).tail(keys - before - i - 1).setZero();
  }
}

/// Naive attention, one head after the other: all scores in one product, a softmax per row over the
/// visible keys, and a product with the values. The heads are read in place through strided maps.
/// Eigen's products pack their operands anyway, so copies would only add time. The scores stay
/// allocated between calls.
class NaiveAttention {
 public:
  void operator()(posenc::HeadsView<const float> q, posenc::HeadsView<const float> k,
                  posenc::HeadsView<const float> v, posenc::HeadsView<float> out) {
    const Index group = q.heads / k.heads;
    for (Index h = 0; h < q.heads; ++h) {
      scores_.noalias() = rows(q, h) * rows(k, h / group).transpose();
      causal_softmax(scores_, 1 / std::sqrt(static_cast<float>(q.dim)));
      rows(out, h).noalias() = scores_ * rows(v, h / group);
    }
  }

 private:
  template <class M>
  using Rows = Eigen::Map<M, 0, Eigen::OuterStride<>>;

  /// Returns head h as a matrix [seq, dim].
  static Rows<const ScoreMatrix> rows(const posenc::HeadsView<const float>& x, Index h) {
    return {x.row(0, 0, h), x.seq, x.dim, Eigen::OuterStride<>(x.seq_stride)};
  }
  static Rows<ScoreMatrix> rows(const posenc::HeadsView<float>& x, Index h) {
    return {x.row(0, 0, h), x.seq, x.dim, Eigen::OuterStride<>(x.seq_stride)};
  }

  ScoreMatrix scores_;
};

}  // namespace bench
