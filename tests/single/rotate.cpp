// SPDX-License-Identifier: MIT
// Defines FUNCTION(), which rotates fixed numbers by the headers FIRST and SECOND. Several units of one program define it
// under different names, each with other headers.
#include FIRST
#include SECOND

#include <cstddef>
#include <vector>

std::vector<float> FUNCTION();

std::vector<float> FUNCTION() {
  constexpr posenc::Index seq = 5, heads = 2, dim = 64;
  std::vector<float> x(static_cast<std::size_t>(seq * heads * dim));
  float next = 1;
  for (float& value : x) value = next = -0.9F * next + 0.1F;
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = dim, .base = 10000});
  const posenc::HeadsView<float> view{
      .data = x.data(), .batch = 1, .seq = seq, .heads = heads, .dim = dim};
  rope.rotate(view, posenc::Positions::range(1'000'000, seq));
  return x;
}
