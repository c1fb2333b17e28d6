// SPDX-License-Identifier: MIT
// Attention without outputs returns at once for every bias, dropout and boolean mask, however long
// other axes are. ctest's time limit checks this.
#include "hostile/empty_extents.hpp"
#include "support/catch.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/forget_gates.hpp>
#include <posenc/bias/forgetting.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/bias/log_cpb.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/bias/window.hpp>
#include <posenc/concepts.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <type_traits>
#include <vector>

namespace empty_scores_test {

using empty_extents::for_empty;
using empty_extents::make;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::HeadsView;
using posenc::Index;
using posenc::MatrixView;
using posenc::Positions;
using posenc::ScoresView;

namespace {

/// Extents of a call whose output has no elements.
struct Shape {
  Index batch, queries, keys, heads, dim, value_dim;

  bool has_rows() const { return batch != 0 && queries != 0 && heads != 0; }
  std::array<Index, 4> scores() const { return {batch, heads, queries, keys}; }
};

constexpr std::array<bool, 1> yes{true}, no{false};

ScoresView<const bool> mask(const std::array<bool, 1>& cell, const std::array<Index, 4>& n) {
  return {cell.data(), n[0], n[1], n[2], n[3]};
}

/// Calls visit(options) for the options besides a bias, one by one and combined.
void for_options(const Shape& n, const std::function<void(const AttentionOptions<float>&)>& visit) {
  const std::array<Index, 2> of_queries{0, n.queries}, of_keys{0, n.keys};
  const std::array<float, 1> sinks{1};
  for (const auto causal : {Causal::No, Causal::BottomRight, Causal::ByPosition}) {
    AttentionOptions<float> options{.causal = causal};
    if (causal == Causal::ByPosition) {
      if ((std::max)(n.queries, n.keys) > Index{1} << 53) continue;  // more than can be counted
      options.query_positions = Positions::range(0, n.queries);
      options.key_positions = Positions::range(0, n.keys);
    }
    visit(options);
    options.masked = mask(no, n.scores());
    visit(options);
    options.dropout = {.probability = 0.5, .seed = 1};
    options.keep = mask(yes, {1, 1, 1, 1});
    visit(options);
    options.keep = mask(no, {1, 1, 1, 1});
    visit(options);
    options.keep = options.masked = {};
    visit(options);
    options.window.left = 2;
    if (n.heads == 1) options.sinks = sinks;
    visit(options);
    options.cu_seqlens_q = of_queries;
    options.cu_seqlens_k = of_keys;
    visit(options);
  }
}

template <class Bias>
auto zero_gradient(const Bias& bias) {
  if constexpr (std::is_same_v<Bias, posenc::NoBias>) {
    return posenc::NoGradient();
  } else {
    return bias.zero_gradient();
  }
}

/// Calls forward, and backward if all gradients are zeros.
template <class Bias>
void attend(const Bias& bias, const Shape& n, const AttentionOptions<float>& options) {
  float number = 0;
  const auto heads = [&number](Index batch, Index seq, Index of, Index dim) {
    return HeadsView<float>{&number, batch, seq, of, dim};
  };
  const auto q = heads(n.batch, n.queries, n.heads, n.dim),
             k = heads(n.batch, n.keys, n.heads, n.dim),
             v = heads(n.batch, n.keys, n.heads, n.value_dim),
             out = heads(n.batch, n.queries, n.heads, n.value_dim);
  make([&] { posenc::attention<float>(q, k, v, out, options, bias); });
  if (n.has_rows() && n.dim != 0) return;
  const posenc::LseView<float> lse{&number, n.batch, n.heads, n.queries};
  if (!n.has_rows()) {
    make([&] { posenc::attention<float>(q, k, v, out, options, bias, {.lse = lse}); });
  }
  // Without rows, gradients of keys are zeros, which must be written.
  const auto writable = [](const HeadsView<float>& x) {
    return x.empty() ? x : HeadsView<float>{};
  };
  auto gradient = zero_gradient(bias);
  make([&] {
    posenc::attention_backward<float>(
        q, k, v, out, lse, out, {writable(q), writable(k), writable(v)}, options, bias, gradient);
  });
}

/// Makes all calls without outputs.
template <class Bias>
void sweep(const Bias& bias) {
  for_empty<6>({1, 3, 3, 1, 8, 8}, [&](const std::array<Index, 6>& extents) {
    const Shape n{extents[0], extents[1], extents[2], extents[3], extents[4], extents[5]};
    if (n.has_rows() && n.value_dim != 0) return;
    INFO(n.batch << ", " << n.queries << " queries, " << n.keys << " keys, " << n.heads
                 << " heads, " << n.dim << " and " << n.value_dim << " channels");
    for_options(n, [&](const AttentionOptions<float>& options) { attend(bias, n, options); });
  });
}

}  // namespace

TEST_CASE("attention without outputs: returns at once", "[hostile]") { sweep(posenc::NoBias()); }

TEST_CASE("attention without outputs: returns at once with T5Bias", "[hostile]") {
  const std::vector<float> table(8);
  for (const Index heads : {0, 1}) {
    sweep(posenc::T5Bias<float>(
        MatrixView<const float>{table.data(), 8, heads},
        {.buckets = 8, .max_distance = 16, .direction = posenc::T5Direction::Bidirectional}));
  }
}

TEST_CASE("attention without outputs: returns at once with Kerple", "[hostile]") {
  sweep(posenc::Kerple({.form = posenc::KerpleForm::Logarithmic, .r1 = {1}, .r2 = {1}}));
  sweep(posenc::Kerple({.form = posenc::KerpleForm::Power, .r1 = {1}, .r2 = {1}}));
}

TEST_CASE("attention without outputs: returns at once with Fire", "[hostile]") {
  sweep(posenc::Fire({.c = 1,
                      .threshold = 8,
                      .hidden_weight = {1},
                      .hidden_bias = {0},
                      .output_weight = {1},
                      .output_bias = {0}}));
}

TEST_CASE("attention without outputs: returns at once with WindowBias", "[hostile]") {
  std::vector<float> table(9);
  for (const Index heads : {0, 1}) {
    sweep(posenc::WindowBias<float>(MatrixView<const float>{table.data(), 9, heads},
                                    {.rows = 2, .cols = 2}));
  }
  const posenc::LogCpb network({.hidden_weight = {1, 1}, .hidden_bias = {0}, .output_weight = {1}},
                               {.rows = 2, .cols = 2});
  const MatrixView<float> made{table.data(), 9, 1};
  network.evaluate(made);
  sweep(posenc::WindowBias<float>(made, {.rows = 2, .cols = 2}));
}

TEST_CASE("attention without outputs: returns at once with ForgettingBias", "[hostile]") {
  for (const Index tokens : {0, 3}) {
    posenc::ForgetGates gates(1, 1);
    const std::vector<float> logits(3);
    gates.append(Index{0}, posenc::EmbeddingsView<const float>{logits.data(), 1, tokens, 1});
    const std::vector<Index> sequences{0};
    sweep(posenc::ForgettingBias(gates, sequences));
  }
}

}  // namespace empty_scores_test
