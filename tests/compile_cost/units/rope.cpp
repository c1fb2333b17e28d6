// SPDX-License-Identifier: MIT
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>

using namespace posenc;

void rotate(const HeadsView<float>& q, const HeadsView<float>& k) {
  const Rope<HalfRotate> rope(Unscaled{.rotary_dim = 64, .base = 10000});
  rope.rotate_all({q, k}, Positions::range(0, q.seq));
}
