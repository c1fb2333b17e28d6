// SPDX-License-Identifier: MIT
// MultiHeadAttention over a cache, one or several tokens per call, and with all tokens in one call
// without a cache.
#include "module_case.hpp"
#include "support/catch.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/frequency/yarn.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/pair_axes.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace multi_head_decode_test {

using module_test::Embeddings;
using posenc::AttentionOptions;
using posenc::bsd;
using posenc::Causal;
using posenc::FixedOrderLinear;
using posenc::Index;
using posenc::KvCache;
using posenc::Linear;
using posenc::MultiHeadAttention;
using posenc::NoBias;
using posenc::NoRotation;
using posenc::Positions;
using posenc::slice_seq;

namespace {

using Rope = posenc::Rope<posenc::HalfRotate>;

constexpr Index dim = 20, heads = 4, kv_heads = 2, head_dim = 8, value_dim = 6, length = 140;
const posenc::MultiHeadAttentionConfig config{.model_dim = dim,
                                              .heads = heads,
                                              .kv_heads = kv_heads,
                                              .head_dim = head_dim,
                                              .value_dim = value_dim};

/// Returns a rope with the scaling of DeepSeek: cos and sin keep their size, the softmax scale
/// changes.
Rope yarn() {
  return Rope(posenc::YarnScaling{.rotary_dim = head_dim,
                                  .base = 10000,
                                  .factor = 40,
                                  .original_max_position = 32,
                                  .mscale = 1,
                                  .mscale_all_dim = 1});
}

posenc::Alibi alibi() { return posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Causal}); }

template <class Layer, class Rotary = NoRotation, class Bias = NoBias>
auto make_module(const Rotary& rotary = {}, const Bias& bias = {}) {
  using T = typename Layer::Scalar;
  MultiHeadAttention<T, Rotary, Bias, Layer> module(config, rotary, bias);
  module.randomize(1);
  support::Random random(2);
  for (auto* layer : {&module.query_projection, &module.key_projection, &module.value_projection,
                      &module.output_projection}) {
    for (Index n = 0; n < layer->bias.size(); ++n) {
      layer->bias(n) = static_cast<T>(0.1 * random.normal());
    }
  }
  return module;
}

template <class T>
Embeddings<T> tokens(std::uint64_t seed, Index count = length) {
  Embeddings<T> x(1, count, dim);
  support::Random random(seed);
  for (Index n = 0; n < x.size(); ++n) x.data()[n] = static_cast<T>(random.normal());
  return x;
}

template <class T, class Module>
Embeddings<T> at_once(const Module& module, const Embeddings<T>& x, AttentionOptions<T> options) {
  Embeddings<T> out(x.dimension(0), x.dimension(1), dim);
  options.causal = Causal::BottomRight;
  module.forward(bsd(x), Positions::range(0, x.dimension(1)), bsd(out), options);
  return out;
}

template <class T, class S, class Module>
Embeddings<T> in_chunks(const Module& module, const Embeddings<T>& x, AttentionOptions<T> options,
                        KvCache<S> cache, Index chunk) {
  const std::vector<Index> sequence{0};
  Embeddings<T> out(1, x.dimension(1), dim);
  options.causal = Causal::BottomRight;
  posenc::MultiHeadWorkspace workspace;
  for (Index first = 0; first < x.dimension(1); first += chunk) {
    const Index count = std::min(chunk, x.dimension(1) - first);
    module.forward(slice_seq(bsd(x), first, count), Positions::range(first, count), cache, sequence,
                   slice_seq(bsd(out), first, count), options, {.workspace = &workspace});
  }
  CHECK(cache.length(0) == x.dimension(1));
  return out;
}

template <class S>
KvCache<S> full_cache(Index capacity = length, Index sequences = 1) {
  return KvCache<S>({.sequences = sequences,
                     .kv_heads = kv_heads,
                     .head_dim = head_dim,
                     .value_dim = value_dim,
                     .capacity = capacity});
}

template <class T>
double largest_difference(const Embeddings<T>& a, const Embeddings<T>& b) {
  double worst = 0;
  for (Index n = 0; n < a.size(); ++n) {
    worst = support::worse(worst, support::abs_difference(static_cast<double>(a.data()[n]),
                                                          static_cast<double>(b.data()[n])));
  }
  return worst;
}

/// Checks for equal bits, or, for projections whose order of sums depends on the number of tokens,
/// the documented bound of MultiHeadAttention. A bias of ALiBi is at most half the longest
/// distance.
template <class T, class Module>
void check_near(const Module& module, const Embeddings<T>& x, const Embeddings<T>& got,
                const Embeddings<T>& want) {
  if constexpr (std::is_same_v<std::remove_const_t<decltype(module.query_projection)>,
                               FixedOrderLinear<T>>) {
    CHECK(module_test::same_bits(got, want));
  } else {
    const double scale =
        module.rotary().softmax_scale_multiplier() / std::sqrt(static_cast<double>(head_dim));
    constexpr bool biased = !std::is_same_v<std::decay_t<decltype(module.bias())>, NoBias>;
    const double allowed = module_test::decode_tolerance<T>(module_test::reference_of(module),
                                                            module_test::matrix_of(x, 0), scale,
                                                            biased ? 0.5 * length : 0);
    const double difference = largest_difference(got, want);
    CHECK(difference <= allowed);
    // The bound above is the worst case of all roundings. This one is near the observed difference.
    double largest = 0;
    for (Index n = 0; n < want.size(); ++n) {
      largest = support::worse(largest, std::abs(static_cast<double>(want.data()[n])));
    }
    CHECK(difference <= support::rounding<T>(64 * largest));
  }
}

template <class Layer, class Rotary, class Bias>
void check_cuts(const std::string& name, const Rotary& rotary, const Bias& bias) {
  using T = typename Layer::Scalar;
  const auto module = make_module<Layer>(rotary, bias);
  const auto x = tokens<T>(3);
  const std::vector<T> sinks{T{1}, T{-1}, T{0}, T{2}};
  for (const Index visible : {0, 1, 30}) {
    // Constructed for each call, because g++ 12 warns for copies that optional positions are
    // uninitialised.
    const auto options = [&] {
      AttentionOptions<T> made;
      if (visible != 0) made.window = posenc::sliding_window(visible);
      if (visible == 30) {
        made.sinks = sinks;
        made.temperature = [](double position) { return 0.5 + 0.5 / (1 + position); };
        made.temperature_of = posenc::TemperatureOf::ScaledScores;
      }
      return made;
    };
    const auto want = at_once(module, x, options());
    for (const Index chunk : {Index{1}, Index{7}, length}) {
      INFO(name << ", window " << visible << ", " << chunk << " tokens at a time");
      check_near(module, x, in_chunks(module, x, options(), full_cache<T>(), chunk), want);
      if (visible == 0) continue;
      const KvCache<T> ring({.kv_heads = kv_heads,
                             .head_dim = head_dim,
                             .value_dim = value_dim,
                             .window = visible,
                             .max_append = chunk});
      check_near(module, x, in_chunks(module, x, options(), ring, chunk), want);
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE(
    "MultiHeadAttention over KvCache: decoding a module equals one call over the full sequence",
    "[mha][cache][bits]", Linear<float>, Linear<double>, FixedOrderLinear<float>,
    FixedOrderLinear<double>) {
  check_cuts<TestType>("nothing", NoRotation{}, NoBias{});
  check_cuts<TestType>("rope", yarn(), NoBias{});
  check_cuts<TestType>("alibi", NoRotation{}, alibi());
  check_cuts<TestType>("both", yarn(), alibi());
}

TEMPLATE_TEST_CASE(
    "MultiHeadAttention over KvCache: the split into calls does not matter over a 16-bit cache",
    "[mha][cache][bits]", Eigen::half, Eigen::bfloat16) {
  const auto module = make_module<FixedOrderLinear<float>>(yarn(), alibi());
  const auto x = tokens<float>(4);
  const auto want = in_chunks(module, x, {}, full_cache<TestType>(), length);
  for (const Index chunk : {1, 9}) {
    CHECK(module_test::same_bits(in_chunks(module, x, {}, full_cache<TestType>(), chunk), want));
  }
  // Keys and values were rounded to 8 or 11 bits only.
  CHECK(largest_difference(want, at_once(module, x, {})) < 0.05);
}

TEMPLATE_TEST_CASE(
    "MultiHeadAttention over KvCache: sequences of different lengths decode in one batch",
    "[mha][cache][bits]", Linear<float>, FixedOrderLinear<float>, FixedOrderLinear<double>) {
  using T = typename TestType::Scalar;
  const auto module = make_module<TestType>(yarn(), alibi());
  constexpr Index steps = 6;
  const std::vector<Index> prompts{5, 125, 0}, sequences{2, 0, 3};
  auto cache = full_cache<T>(length, 4);
  std::vector<Embeddings<T>> x, want, got;
  for (std::size_t b = 0; b < 3; ++b) {
    x.push_back(tokens<T>(10 + b, prompts[b] + steps));
    want.push_back(at_once(module, x[b], {}));
    got.emplace_back(1, prompts[b] + steps, dim);
    module.forward(slice_seq(bsd(x[b]), 0, prompts[b]), Positions::range(0, prompts[b]), cache,
                   std::span(&sequences[b], 1), slice_seq(bsd(got[b]), 0, prompts[b]),
                   {.causal = Causal::BottomRight});
  }
  for (Index step = 0; step < steps; step += 2) {
    Embeddings<T> now(3, 2, dim), out(3, 2, dim);
    for (std::size_t b = 0; b < 3; ++b) {
      std::copy_n(&x[b](0, prompts[b] + step, 0), 2 * dim, &now(static_cast<Index>(b), 0, 0));
    }
    module.forward(bsd(now), Positions::starts({5 + step, 125 + step, step}, 2), cache, sequences,
                   bsd(out), {.causal = Causal::BottomRight});
    for (std::size_t b = 0; b < 3; ++b) {
      std::copy_n(&out(static_cast<Index>(b), 0, 0), 2 * dim, &got[b](0, prompts[b] + step, 0));
    }
  }
  for (std::size_t b = 0; b < 3; ++b) {
    INFO("sequence " << b);
    check_near(module, x[b], got[b], want[b]);
  }
  CHECK(cache.length(1) == 0);
}

TEST_CASE("softmax_scale_multiplier: YaRN's counts once in a module, with a cache and without",
          "[mha][cache]") {
  const Rope rope = yarn();
  const double mscale = 0.1 * std::log(40.0) + 1;
  const auto module = make_module<Linear<float>>(rope);
  const auto x = tokens<float>(5);
  const auto positions = Positions::range(0, length);
  for (const std::optional<double> scale : {std::optional<double>(), std::optional<double>(0.3)}) {
    support::Heads<float> q(1, length, heads, head_dim), k(1, length, kv_heads, head_dim),
        v(1, length, kv_heads, value_dim), mixed(1, length, heads, value_dim);
    const auto merged = [](support::Heads<float>& h) {
      const auto view = h.view();
      const Index width = view.heads * view.dim;
      return posenc::EmbeddingsView<float>{view.data,      1, view.seq, width, view.batch_stride,
                                           view.seq_stride};
    };
    module.query_projection.apply(bsd(x), merged(q));
    module.key_projection.apply(bsd(x), merged(k));
    module.value_projection.apply(bsd(x), merged(v));
    rope.rotate(q.view(), positions);
    rope.rotate(k.view(), positions);
    const double factor = scale.value_or(1 / std::sqrt(double{head_dim})) * mscale * mscale;
    posenc::attention(q.view(), k.view(), v.view(), mixed.view(),
                      {.scale = factor, .causal = Causal::BottomRight});
    Embeddings<float> want(1, length, dim);
    module.output_projection.apply(merged(mixed), bsd(want));
    CHECK(module_test::same_bits(at_once(module, x, {.scale = scale}), want));
    CHECK(module_test::same_bits(
        in_chunks(module, x, {.scale = scale}, full_cache<float>(), length), want));
  }
}

TEST_CASE("MultiHeadAttention over KvCache: cached keys have the positions of the options",
          "[mha][cache]") {
  const auto module = make_module<FixedOrderLinear<float>>(NoRotation{}, alibi());
  const auto x = tokens<float>(6);
  const auto want = at_once(module, x, {});
  const std::vector<Index> sequence{0};
  for (const Causal causal : {Causal::BottomRight, Causal::ByPosition}) {
    auto cache = full_cache<float>();
    Embeddings<float> out(1, length, dim);
    for (Index first = 0; first < length; first += 35) {
      // ALiBi depends on distances only, so all positions may be shifted.
      module.forward(slice_seq(bsd(x), first, 35), Positions::range(first - 1000, 35), cache,
                     sequence, slice_seq(bsd(out), first, 35),
                     {.causal = causal, .key_positions = Positions::range(-1000, first + 35)});
    }
    CHECK(module_test::same_bits(out, want));
  }
}

TEST_CASE("temperature over KvCache: reads positions of queries, and needs none of cached keys",
          "[mha][cache]") {
  const auto module = make_module<FixedOrderLinear<float>>(NoRotation{});
  const auto x = tokens<float>(8);
  const AttentionOptions<float> options{.causal = Causal::BottomRight,
                                        .temperature = [](double i) { return 1 + i / 64; },
                                        .temperature_of = posenc::TemperatureOf::ScaledScores};
  Embeddings<float> want(1, length, dim), out(1, length, dim);
  module.forward(bsd(x), Positions::range(1000, length), bsd(want), options);
  auto cache = full_cache<float>();
  const std::vector<Index> sequence{0};
  for (Index first = 0; first < length; first += 20) {
    module.forward(slice_seq(bsd(x), first, 20), Positions::range(1000 + first, 20), cache,
                   sequence, slice_seq(bsd(out), first, 20), options);
  }
  CHECK(module_test::same_bits(out, want));
}

TEST_CASE("MultiHeadAttention over KvCache: positions on several axes serve the rotation only",
          "[mha][cache]") {
  const auto axes = posenc::PairAxes::sections({1, 1, 2});
  const auto flat = make_module<FixedOrderLinear<float>>(yarn());
  const auto module = make_module<FixedOrderLinear<float>>(Rope(yarn().frequencies(), 0, axes));
  const auto x = tokens<float>(7);
  const auto on_axes = [](Index first, Index count) {
    return Positions::axes(std::vector<Positions>(3, Positions::range(first, count)));
  };
  const AttentionOptions<float> options{.causal = Causal::BottomRight,
                                        .dropout = {.probability = 0.2, .seed = 1}};
  const auto want = at_once(flat, x, options);
  Embeddings<float> out(1, length, dim), pieces(1, length, dim);
  module.forward(bsd(x), on_axes(0, length), bsd(out), options);
  CHECK(module_test::same_bits(out, want));
  auto cache = full_cache<float>();
  const std::vector<Index> sequence{0};
  for (Index first = 0; first < length; first += 20) {
    module.forward(slice_seq(bsd(x), first, 20), on_axes(first, 20), cache, sequence,
                   slice_seq(bsd(pieces), first, 20), options);
  }
  CHECK(module_test::same_bits(pieces, want));
}

}  // namespace multi_head_decode_test
