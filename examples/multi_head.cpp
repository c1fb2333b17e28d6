// SPDX-License-Identifier: MIT
// The multi-head module with RoPE and grouped-query attention. Its outputs depend on the distances between positions,
// not on the positions themselves.
#include <posenc/posenc.hpp>

#include <iostream>

int main() {
  std::clog << posenc::build_info() << '\n';
  using Rope = posenc::Rope<posenc::HalfRotate>;
  const Rope rope(posenc::Unscaled{.rotary_dim = 64, .base = 10000});
  posenc::MultiHeadAttention<float, Rope> module({.model_dim = 256, .heads = 4, .kv_heads = 2},
                                                 rope);  // two query heads share a KV head
  module.randomize(42);
  std::cout << module.parameter_count() << " parameters\n";

  Eigen::Tensor<float, 3, Eigen::RowMajor> x(2, 6, 256), y(2, 6, 256);  // [batch, seq, model_dim]
  for (posenc::Index n = 0; n < x.size(); ++n) {
    x.data()[n] = static_cast<float>(n * n % 101) / 25 - 2;  // any numbers that differ
  }
  const auto show = [&](const char* name, const posenc::Positions& at, posenc::Causal causal) {
    module.forward(posenc::bsd(x), at, posenc::bsd(y), {.causal = causal});
    std::cout << name << ": y(1, 3, 0) = " << y(1, 3, 0) << '\n';
  };
  std::cout.precision(4);
  const auto causal = posenc::Causal::BottomRight;
  show("positions 0 .. 5", posenc::Positions::range(0, 6), causal);
  show("all positions plus 4096", posenc::Positions::range(4096, 6), causal);
  show("every third position", posenc::Positions::ids({0, 3, 6, 9, 12, 15}), causal);
  show("positions 0 .. 5, no mask", posenc::Positions::range(0, 6), posenc::Causal::No);
}
