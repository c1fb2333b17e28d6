// SPDX-License-Identifier: MIT
#include "attention.hpp"
#include <posenc/attention/merge.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <utility>

namespace bits {
namespace {

template <class T>
posenc::EmbeddingsView<T> tokens(Heads<T>& x, Index first, Index count) {
  return {x.values.data() + first * x.dim, x.batch, count, x.dim, x.seq * x.dim, x.dim};
}

/// Runs FixedOrderLinear separately, on one row, which it computes without packing, and on several.
template <class T>
void report_linear(const std::string& type) {
  for (const auto& [in, out] : {std::pair<Index, Index>{1, 130}, {19, 256}, {64, 3}}) {
    Hash hash;
    posenc::FixedOrderLinear<T> linear(in, out, true);
    linear.randomize(9);
    Random random(static_cast<std::uint64_t>(in + out));
    for (Index n = 0; n < out; ++n) linear.bias.data()[n] = static_cast<T>(random.number());
    for (const Index rows : {1, 2, 13, 40}) {
      Heads<T> x(1, rows, 1, in, random), y(1, rows, 1, out);
      linear.apply(tokens(x, 0, rows), tokens(y, 0, rows), nullptr, Threads{});
      hash.add(y.values);
    }
    report("linear/" + type + "/" + std::to_string(in) + "_to_" + std::to_string(out), hash);
  }
}

template <class T>
void report_module(const std::string& type) {
  using Rope = posenc::Rope<posenc::HalfRotate>;
  const posenc::MultiHeadAttention<T, Rope, posenc::Alibi, posenc::FixedOrderLinear<T>> proto(
      {.model_dim = 72, .heads = 6, .kv_heads = 2, .head_dim = 12},
      Rope(posenc::Unscaled{.rotary_dim = 12, .base = 10000}),
      posenc::Alibi({.heads = 6, .form = posenc::AlibiForm::Symmetric}));
  auto module = proto;
  module.randomize(3);
  constexpr Index batch = 2, length = 200;
  Random random(4);
  Heads<T> x(batch, length, 1, 72, random), whole(batch, length, 1, 72);
  posenc::AttentionOptions<T> options;
  options.causal = posenc::Causal::BottomRight;
  options.dropout = {0.2, 5};
  module.forward(tokens(x, 0, length), posenc::Positions::range(0, length),
                 tokens(whole, 0, length), options, {}, Threads{});
  Hash hash;
  hash.add(whole.values);
  report("module/" + type + "/whole", hash);

  Heads<T> cross(batch, 20, 1, 72);
  options.causal = posenc::Causal::No;
  module.forward(tokens(x, 9, 20), posenc::Positions::range(9, 20), tokens(x, 0, length),
                 tokens(x, 0, length), posenc::Positions::range(0, length), tokens(cross, 0, 20),
                 options, {}, Threads{});
  Hash of_cross;
  of_cross.add(cross.values);
  report("module/" + type + "/cross", of_cross);

  options.causal = posenc::Causal::BottomRight;
  options.window = posenc::sliding_window(50);
  posenc::KvCache<T> cache(
      {.sequences = batch, .kv_heads = 2, .head_dim = 12, .window = 50, .max_append = 7});
  const std::vector<Index> sequences{1, 0};
  Heads<T> decoded(batch, length, 1, 72);
  for (Index first = 0; first < length; first += 7) {
    const Index count = (std::min)(Index{7}, length - first);
    module.forward(tokens(x, first, count), posenc::Positions::range(first, count), cache,
                   sequences, tokens(decoded, first, count), options, {}, Threads{});
  }
  Hash of_cache;
  of_cache.add(decoded.values);
  report("module/" + type + "/ring", of_cache);
}

/// Merges the results of two halves of the keys.
template <class T>
void report_merge(const std::string& type) {
  const Shape half{"", 1, 4, 2, 9, 140, 16, 24};
  Call<T> a(half, 1), b(half, 2);
  a.options.causal = b.options.causal = posenc::Causal::No;
  run(a);
  run(b);
  posenc::merge(a.out.view(), a.memory.lse, posenc::HeadsView<const T>(b.out.view()),
                posenc::LseView<const posenc::Compute<T>>(b.memory.lse), Threads{});
  Hash hash;
  a.add_results(hash);
  report("merge/" + type, hash);
}

template <class T>
void report_modules_of(const std::string& name) {
  if constexpr (takes<T>) {
    report_linear<T>(name);
    report_module<T>(name);
    report_merge<T>(name);
  }
}

}  // namespace

void report_all_modules() {
  report_modules_of<float>("float");
  report_modules_of<double>("double");
}

}  // namespace bits
