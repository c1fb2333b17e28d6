// SPDX-License-Identifier: MIT
#include <posenc/additive/sinusoidal.hpp>

using namespace posenc;

void add(const EmbeddingsView<float>& x) {
  const Sinusoidal encoding(
      {.model_dim = x.dim, .layout = SinusoidalLayout::Interleaved, .base = 10000});
  encoding.add_to(x, Positions::range(0, x.seq));
}
