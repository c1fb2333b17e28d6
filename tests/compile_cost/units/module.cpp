// SPDX-License-Identifier: MIT
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

using namespace posenc;

using Attention = MultiHeadAttention<float, Rope<HalfRotate>>;

void forward(const Attention& attention, const EmbeddingsView<const float>& x,
             const EmbeddingsView<float>& y) {
  attention.forward(x, Positions::range(0, x.seq), y, {.causal = Causal::BottomRight});
}
