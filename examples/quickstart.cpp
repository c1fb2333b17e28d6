// SPDX-License-Identifier: MIT
#include <posenc/posenc.hpp>

#include <iostream>

int main() {
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = 64, .base = 10000});
  std::cout.precision(4);
  for (const posenc::Index first : {0, 4096, 1'000'000'000}) {
    Eigen::Tensor<float, 4, Eigen::RowMajor> q(1, 4, 1, 64), k(1, 4, 1, 64);  // [B, S, H, D]
    q.setConstant(0.1F), k.setConstant(0.1F);
    rope.rotate_all({posenc::bshd(q), posenc::bshd(k)}, posenc::Positions::range(first, 4));
    const Eigen::Tensor<float, 0, Eigen::RowMajor> score = (q.chip(3, 1) * k.chip(0, 1)).sum();
    std::cout << "query " << first + 3 << ", key " << first << ": score " << score() << '\n';
  }
}
