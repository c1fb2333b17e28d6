// SPDX-License-Identifier: MIT
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>

using namespace posenc;

void rotate(const HeadsView<float>& q, Index first) {
  const Rope<HalfRotate> rope(Unscaled{.rotary_dim = 128, .base = 10000});
  rope.rotate(q, Positions::range(first, q.seq));
}
