// SPDX-License-Identifier: MIT
// Compiled for each level with UNIT as its name. It uses classes that own memory, and passes only
// numbers and errors out.
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/frequency/divisors.hpp>
#include <posenc/frequency/longrope.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

namespace UNIT {

using posenc::Index, posenc::Positions;
constexpr Index seq = 48, dim = 256;

double work(const double* from, float* x);
void fail(int kind);
int caught(void (*fail)(int), int kind);

double sum(const std::vector<float>& values) {
  double total = 0;
  for (const float value : values) total += std::abs(static_cast<double>(value));
  return total;
}

posenc::HeadsView<float> heads(float* x) { return {x, 1, seq, 4, 64, seq * dim, dim, 64}; }
posenc::EmbeddingsView<float> tokens(float* x) { return {x, 1, seq, dim, seq * dim, dim}; }

template <class Projection>
double module(float* x) {
  using Rope = posenc::Rope<posenc::HalfRotate>;
  const Rope rope(posenc::Unscaled{.rotary_dim = 64, .base = 10000});
  posenc::MultiHeadAttention<float, Rope, posenc::NoBias, Projection> layer(
      {.model_dim = dim, .heads = 4}, rope);
  layer.randomize(42);
  auto copy = layer;
  layer = copy;
  std::vector<float> out(static_cast<std::size_t>(seq * dim));
  layer.forward(tokens(x), Positions::range(0, seq), tokens(out.data()),
                {.causal = posenc::Causal::BottomRight});
  return sum(out);
}

/// Inputs: from [64] numbers between 1 and 2, x [seq, dim].
double work(const double* from, float* x) {
  const std::vector<double> values(from, from + 32);
  posenc::LongRopeScaling longrope{.rotary_dim = 64, .base = 10000};
  longrope.short_factor = longrope.long_factor = values;
  longrope.original_max_position = 4096;
  longrope.attention_factor = 1;
  const posenc::DivisorScaling divided{.rotary_dim = 64, .base = 10000, .divisors = values};
  const auto copy = divided;
  std::vector<float> q(x, x + seq * dim), k = q, y = q;
  posenc::Rope<posenc::HalfRotate>(frequencies(longrope, posenc::LongRopeRegime::Long))
      .rotate(heads(q.data()), Positions::range(5, seq));
  posenc::Rope<posenc::Interleaved>(copy).rotate(heads(k.data()), Positions::range(5, seq));
  posenc::Sinusoidal({.model_dim = dim, .layout = posenc::SinusoidalLayout::Interleaved})
      .add_to(tokens(q.data()), Positions::range(3, seq));

  posenc::FireParameters parameters{.c = 1, .threshold = 8};
  parameters.hidden_weight = parameters.hidden_bias = {1, -1};
  parameters.output_weight = std::vector<double>(from, from + 8);
  parameters.output_bias = std::vector<double>(from, from + 4);
  const posenc::Fire fire(parameters);
  const posenc::Kerple kerple({.form = posenc::KerpleForm::Logarithmic,
                               .r1 = std::vector<double>(from, from + 4),
                               .r2 = std::vector<double>(from, from + 4)});
  const posenc::Alibi alibi({.heads = 4, .form = posenc::AlibiForm::Causal});
  const posenc::AttentionOptions<float> causal{.causal = posenc::Causal::BottomRight};
  double total = 0;
  const auto attend = [&](const auto& bias) {
    posenc::attention(heads(q.data()), heads(k.data()), heads(x), heads(y.data()), causal, bias);
    total += sum(y);
  };
  attend(fire);
  attend(kerple);
  attend(alibi);

  posenc::KvCache<float> cache({.kv_heads = 4, .head_dim = 64, .capacity = seq});
  const Index sequences[] = {0};
  cache.append(sequences, heads(k.data()), heads(x));
  posenc::attention(heads(q.data()), cache, sequences, heads(y.data()), causal);
  return total + sum(y) + module<posenc::Linear<float>>(x) +
         module<posenc::FixedOrderLinear<float>>(x);
}

void fail(int kind) {
  if (kind == 0) posenc::Alibi({.heads = 0, .form = posenc::AlibiForm::Causal});
  if (kind == 1) posenc::ParameterMatrix<float>(-1, 2);
  if (kind == 2) Positions::range(Index{1} << 60, 2);
  if (kind == 3) {
    const float one = 1;
    posenc::KvCache<float> cache({.sequences = 1, .kv_heads = 1, .head_dim = 1, .capacity = 1},
                                 posenc::KvBlockPool({.byte_limit = 1}));
    const posenc::HeadsView<const float> token{&one, 1, 1, 1, 1};
    cache.append(0, token, token);
  }
}

/// Returns the kind of error that `fail` threw, or -1.
int caught(void (*fail_of_another)(int), int kind) {
  try {
    fail_of_another(kind);
  } catch (const posenc::ConfigError&) {
    return 0;
  } catch (const posenc::ShapeError&) {
    return 1;
  } catch (const posenc::PositionError&) {
    return 2;
  } catch (const posenc::MemoryLimitError&) {
    return 3;
  }
  return -1;
}

}  // namespace UNIT
