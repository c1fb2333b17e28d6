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
  std::cout << mha.parameter_count() << " parameters\n";
  Eigen::Tensor<float, 3, Eigen::RowMajor> x(2, 6, 256), y(2, 6, 256);  // [batch, seq, model_dim]
  for (posenc::Index n = 0; n < x.size(); ++n) {
    x.data()[n] = static_cast<float>(n * n % 101) / 25 - 2;  // any numbers that differ
  }
  const auto show = [&](const char* what, const posenc::Positions& at, posenc::Causal causal) {
    mha.forward(posenc::bsd(x), at, posenc::bsd(y), {.causal = causal});
    std::cout << what << ": y(1, 3, 0) = " << y(1, 3, 0) << '\n';
  };
  const auto causal = posenc::Causal::BottomRight;
  show("positions 0 .. 5", posenc::Positions::range(0, 6), causal);
  show("all moved on by 4096", posenc::Positions::range(4096, 6), causal);  // same distances
  show("every third position", posenc::Positions::ids({0, 3, 6, 9, 12, 15}), causal);
  show("positions 0 .. 5, no mask", posenc::Positions::range(0, 6), posenc::Causal::No);
}
