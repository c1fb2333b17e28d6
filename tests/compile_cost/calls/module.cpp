// SPDX-License-Identifier: MIT
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

using namespace posenc;
using Module = MultiHeadAttention<float, Rope<HalfRotate>>;

void train(const Module& module, const EmbeddingsView<const float>& x,
           const EmbeddingsView<float>& out, Module::Gradients& gradients) {
  MultiHeadTape<float> tape;
  const Positions positions = Positions::range(0, x.seq);
  module.forward(x, positions, out, tape, {.causal = Causal::BottomRight});
  module.backward(tape, out, out, gradients);
}
