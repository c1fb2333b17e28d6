// SPDX-License-Identifier: MIT
// posenc inside another engine, whose tensors have byte strides and whose positions are int32. The
// engine's maintainer only writes rope().
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

struct Tensor {  // the engine's: features, heads, tokens, batch
  float* data;
  std::int64_t extent[4];
  std::size_t stride[4];
};

void rope(const Tensor& x, std::span<const std::int32_t> positions, const posenc::Unscaled& rule) {
  posenc::HeadsView<float> view{x.data, x.extent[3], x.extent[2], x.extent[1], x.extent[0]};
  view.batch_stride = static_cast<posenc::Index>(x.stride[3] / sizeof(float));
  view.seq_stride = static_cast<posenc::Index>(x.stride[2] / sizeof(float));
  view.head_stride = static_cast<posenc::Index>(x.stride[1] / sizeof(float));
  posenc::Rope<posenc::HalfRotate>(rule).rotate(view, posenc::Positions::ids(positions));
}

int main() {
  constexpr std::size_t head = 136 * sizeof(float), token = 8 * head;  // heads of 128, padded
  std::vector<float> memory(5 * 8 * 136, 1.0F);
  const std::vector<std::int32_t> positions{0, 1, 2, 700000, 4};
  rope({memory.data(), {128, 8, 5, 1}, {sizeof(float), head, token, 5 * token}}, positions,
       {.rotary_dim = 128, .base = 500000});
  const double angle = 700000, want = std::cos(angle) - std::sin(angle);
  const auto got = static_cast<double>(memory[3 * 8 * 136]);
  std::printf("token 3, feature 0: %.7f, by the formula %.7f\n", got, want);
  return std::abs(got - want) < 1e-6 && memory[128] == 1.0F ? 0 : 1;
}
