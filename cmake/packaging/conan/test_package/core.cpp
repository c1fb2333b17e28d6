// SPDX-License-Identifier: MIT
#include <posenc/without_eigen.hpp>

int main() {
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = 8, .base = 10000});
  return rope.rotary_dim() == 8 ? 0 : 1;
}
