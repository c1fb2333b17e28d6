// SPDX-License-Identifier: MIT
// A user's score bias. Attention accepts any type with the add() below. heads() is optional.
#include <posenc/posenc.hpp>

#include <cmath>
#include <iomanip>
#include <iostream>
#include <vector>

/// Bias -strength * ln(1 + |query - key| / reach) with a strength per head. It falls quickly at
/// short distances and slowly at long ones, like KERPLE's logarithmic kernel (arXiv 2205.09921).
class LogDistanceBias {
 public:
  LogDistanceBias(std::vector<double> strengths, double reach)
      : strengths_(std::move(strengths)), reach_(reach) {}

  /// Attention rejects tensors with another number of heads, so that add() need not check it.
  posenc::Index heads() const { return static_cast<posenc::Index>(strengths_.size()); }

  template <class Real>
  void add(posenc::Index head, std::span<const double> query_positions,
           std::span<const double> key_positions, posenc::MatrixView<Real> tile) const {
    const double strength = strengths_[static_cast<std::size_t>(head)];
    for (posenc::Index i = 0; i < tile.rows; ++i) {
      const double query = query_positions[static_cast<std::size_t>(i)];
      for (posenc::Index j = 0; j < tile.cols; ++j) {
        const double distance = std::abs(query - key_positions[static_cast<std::size_t>(j)]);
        tile.row(i)[j] -= static_cast<Real>(strength * std::log1p(distance / reach_));
      }
    }
  }

 private:
  std::vector<double> strengths_;
  double reach_;
};

static_assert(posenc::ScoreBias<LogDistanceBias, float>);

int main() {
  std::clog << posenc::build_info() << '\n';

  constexpr posenc::Index heads = 2, seq = 6, model_dim = 32;
  posenc::MultiHeadAttention<float, posenc::NoRotation, LogDistanceBias> attention(
      {.model_dim = model_dim, .heads = heads}, {}, LogDistanceBias({0.5, 4.0}, 2.0));
  attention.randomize(1);

  // One token, six times: without the bias every weight would be 1/6.
  Eigen::Tensor<float, 3, Eigen::RowMajor> x(1, seq, model_dim), y(1, seq, model_dim);
  x.setConstant(0.1F);
  Eigen::Tensor<float, 4, Eigen::RowMajor> weights(1, heads, seq, seq);
  attention.forward(posenc::bsd(x), posenc::Positions::range(0, seq), posenc::bsd(y),
                    {.causal = posenc::Causal::No}, {.weights = posenc::bhqk(weights)});

  std::cout << std::fixed << std::setprecision(3);
  for (posenc::Index h = 0; h < heads; ++h) {
    std::cout << "head " << h << ", weights of the last query:";
    for (posenc::Index j = 0; j < seq; ++j) std::cout << ' ' << weights(0, h, seq - 1, j);
    std::cout << '\n';
  }
}
