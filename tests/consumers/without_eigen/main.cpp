// SPDX-License-Identifier: MIT
// User program on its own buffers, without Eigen: rotation with and without a table, and attention
// with ALiBi.
#include <posenc/without_eigen.hpp>

#include <cmath>
#include <iostream>
#include <vector>

#if defined(EIGEN_WORLD_VERSION)
#error "posenc::core must not bring Eigen"
#endif

using posenc::HeadsView;
using posenc::Index;
using posenc::Positions;

namespace {

constexpr Index seq = 3, heads = 2, dim = 8;

HeadsView<float> view(std::vector<float>& x) {
  return {.data = x.data(), .batch = 1, .seq = seq, .heads = heads, .dim = dim};
}

std::vector<float> buffer(float first) {
  std::vector<float> x(static_cast<std::size_t>(seq * heads * dim));
  for (float& value : x) value = first = -0.9F * first + 0.1F;
  return x;
}

}  // namespace

int main() {
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = dim, .base = 10000});
  const Positions positions = Positions::range(1000, seq);
  std::vector<float> q = buffer(1), k = buffer(2), out = buffer(3);
  std::vector<float> q_by_table = q;
  rope.rotate_all({view(q), view(k)}, positions);
  rope.table<float>(positions).rotate(view(q_by_table));
  if (q != q_by_table) {
    std::cerr << "a table rotates otherwise\n";
    return 1;
  }

  // All values are equal, so every average equals that value.
  std::vector<float> v(q.size(), 0.5F);
  posenc::attention(view(q), view(k), view(v), view(out), {.causal = posenc::Causal::BottomRight},
                    posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Causal}));
  for (const float value : out) {
    if (std::abs(value - 0.5F) > 1e-6F) {
      std::cerr << "attention gives " << value << ", not 0.5\n";
      return 1;
    }
  }
  std::cout << "rotation, a table, ALiBi and attention without Eigen\n";
}
