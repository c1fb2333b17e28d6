// SPDX-License-Identifier: MIT
// The parts of a user's program that instantiate most: what a compiler warns of when it optimises them, it says of posenc.
#include <posenc/posenc.hpp>

#include <Eigen/Dense>  // before posenc's headers, as users have it

#include <cstdint>
#include <vector>

namespace {

using posenc::Index;

template <class T>
posenc::HeadsView<T> heads(std::vector<T>& x, Index seq, Index count, Index dim) {
  return {x.data(), 1, seq, count, dim, seq * count * dim, count * dim, dim};
}

template <class T>
std::vector<T> ones(Index count) {
  return std::vector<T>(static_cast<std::size_t>(count), static_cast<T>(1));
}

template <class T>
void rotate_and_attend(Index seq) {
  auto q = ones<T>(seq * 4 * 64), k = ones<T>(seq * 2 * 64), v = k, y = q;
  const posenc::Rope<posenc::HalfRotate> half(posenc::Unscaled{.rotary_dim = 64, .base = 10000});
  const posenc::Rope<posenc::Interleaved> pairs(posenc::YarnScaling{
      .rotary_dim = 64, .base = 10000, .factor = 4, .original_max_position = 4096});
  half.rotate(heads(q, seq, 4, 64), posenc::Positions::range(7, seq));
  pairs.rotate(heads(k, seq, 2, 64), posenc::Positions::range(7, seq));
  posenc::attention(heads(q, seq, 4, 64), heads(k, seq, 2, 64), heads(v, seq, 2, 64),
                    heads(y, seq, 4, 64), {.causal = posenc::Causal::BottomRight});
  posenc::KvCache<T> cache({.kv_heads = 2, .head_dim = 64, .capacity = 128});
  const Index sequences[] = {0};
  cache.append(sequences, heads(k, seq, 2, 64), heads(v, seq, 2, 64));
  const posenc::Alibi alibi({.heads = 4, .form = posenc::AlibiForm::Causal});
  posenc::attention(heads(q, seq, 4, 64), cache, sequences, heads(y, seq, 4, 64),
                    {.causal = posenc::Causal::BottomRight}, alibi);
}

template <class T>
void run_module(Index seq) {
  using Rope = posenc::Rope<posenc::HalfRotate>;
  const Rope rope(posenc::Unscaled{.rotary_dim = 16, .base = 10000});
  posenc::MultiHeadAttention<T, Rope> module({.model_dim = 64, .heads = 4}, rope);
  posenc::MultiHeadAttention<T, Rope, posenc::NoBias, posenc::FixedOrderLinear<T>> fixed(
      {.model_dim = 64, .heads = 4}, rope);
  module.randomize(1);
  auto x = ones<T>(seq * 64), y = x;
  const posenc::EmbeddingsView<const T> in{x.data(), 1, seq, 64, seq * 64, 64};
  const posenc::EmbeddingsView<T> out{y.data(), 1, seq, 64, seq * 64, 64};
  module.forward(in, posenc::Positions::range(0, seq), out,
                 {.causal = posenc::Causal::BottomRight});
  fixed.forward(in, posenc::Positions::range(0, seq), out, {.causal = posenc::Causal::BottomRight});
  posenc::MultiHeadTape<T> tape;
  module.forward(in, posenc::Positions::range(0, seq), out, tape,
                 {.causal = posenc::Causal::BottomRight});
  auto gradients = module.zero_gradients();
  module.backward(tape, in, out, gradients);
}

}  // namespace

void use_all_types();

void use_all_types() {
  rotate_and_attend<double>(3);
  rotate_and_attend<Eigen::half>(3);
  rotate_and_attend<Eigen::bfloat16>(3);
  run_module<float>(3);
  auto x = ones<float>(3 * 64);
  const posenc::Sinusoidal sinusoidal(
      {.model_dim = 64, .layout = posenc::SinusoidalLayout::Interleaved});
  sinusoidal.add_to(posenc::EmbeddingsView<float>{x.data(), 1, 3, 64, 3 * 64, 64},
                    posenc::Positions::range(0, 3));
}
