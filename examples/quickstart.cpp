// SPDX-License-Identifier: MIT
#include <posenc/posenc.hpp>

#include <iostream>

int main() {
  std::clog << posenc::build_info() << '\n';
  using Heads = Eigen::Tensor<float, 4, Eigen::RowMajor>;  // [batch, seq, heads, head_dim]
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = 64, .base = 10000});
  std::cout.precision(4);

  for (const posenc::Index start : {0, 4096, 1'000'000'000}) {  // exact at any position
    Heads q(1, 1, 1, 64), k(1, 1, 1, 64);
    q.setConstant(0.1F), k.setConstant(0.1F);
    rope.rotate(posenc::bshd(q), posenc::Positions::range(start + 5, 1));
    rope.rotate(posenc::bshd(k), posenc::Positions::range(start + 2, 1));
    const Eigen::Tensor<float, 0, Eigen::RowMajor> score = (q * k).sum();
    std::cout << "query " << start + 5 << ", key " << start + 2 << ": " << score() << '\n';
  }

  posenc::MultiHeadAttention<float, decltype(rope)> mha(
      {.model_dim = 256, .heads = 4, .kv_heads = 2}, rope);  // grouped-query attention
  mha.randomize(42);
  Eigen::Tensor<float, 3, Eigen::RowMajor> x(2, 10, 256), y(2, 10, 256);  // [batch, seq, model_dim]
  x.setConstant(1);
  mha.forward(posenc::bsd(x), posenc::Positions::range(0, 10), posenc::bsd(y),
              {.causal = posenc::Causal::BottomRight});
  std::cout << mha.parameter_count() << " parameters, y(0, 9, 0) = " << y(0, 9, 0) << '\n';
}
