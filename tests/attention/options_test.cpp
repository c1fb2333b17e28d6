// SPDX-License-Identifier: MIT
// Tests that options whose mistakes would be silent have no default, such as the causal alignment,
// and that the softmax scale may be split as a model's files do.
#include "nn/module_case.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/kv/cached_attention.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace options_test {

using module_test::Embeddings;
using posenc::AttentionOptions;
using posenc::bsd;
using posenc::Causal;
using posenc::ConfigError;
using posenc::Index;
using posenc::KvCache;
using posenc::Positions;
using support::Heads;
using support::message_of;

namespace {

const std::string rule =
    "causal must be set to Causal::No (every key), TopLeft, BottomRight (for decoding), "
    "FromStart or ByPosition";

constexpr Index heads = 2, dim = 4;

Heads<float> ones(Index batch, Index seq) {
  Heads<float> x(batch, seq, heads, dim);
  x.for_each([](float& value) { value = 1; });
  return x;
}

/// Returns the error message for these options, over tensors of these lengths.
std::string error_of(Index batch, Index queries, Index keys,
                     const AttentionOptions<float>& options = {}) {
  auto q = ones(batch, queries), k = ones(batch, keys), out = ones(batch, queries);
  const std::string message = message_of<ConfigError>(
      [&] { posenc::attention(q.view(), k.view(), k.view(), out.view(), options); });
  bool written = false;
  out.for_each([&](float& value) { written |= value != 1; });
  return written ? "something was written; " + message : message;
}

}  // namespace

TEST_CASE("causal: is required by attention", "[attention][errors]") {
  // All extents: equal lengths or not, empty or not, and lengths for which the rules agree.
  for (const Index batch : {0, 1, 2}) {
    for (const Index queries : {0, 1, 3}) {
      for (const Index keys : {0, 1, 3, 5}) {
        INFO(batch << " rows of " << queries << " queries and " << keys << " keys");
        CHECK(error_of(batch, queries, keys) == "posenc::attention: " + rule);
      }
    }
  }
  // Other options do not imply a rule, and values outside the enumeration are rejected.
  const std::vector<Index> starts{0};
  CHECK(error_of(1, 3, 3, {.window = posenc::sliding_window(2)}) == "posenc::attention: " + rule);
  CHECK(error_of(1, 3, 3, {.query_starts = starts}) == "posenc::attention: " + rule);
  CHECK(error_of(1, 3, 3,
                 {.query_positions = Positions::range(0, 3),
                  .key_positions = Positions::range(0, 3)}) == "posenc::attention: " + rule);
  CHECK(error_of(1, 3, 3, {.causal = static_cast<Causal>(17)}) == "posenc::attention: " + rule);
  CHECK(error_of(1, 3, 3, {.causal = Causal::BottomRight}) == "nothing was thrown");
}

TEST_CASE("causal: is required by attention over a cache", "[attention][cache][errors]") {
  KvCache<float> cache({.sequences = 2, .kv_heads = heads, .head_dim = dim, .capacity = 128});
  auto k = ones(1, 3);
  cache.append(0, k.view(), k.view());
  for (const Index sequence : {0, 1}) {
    for (const Index queries : {0, 1, 3}) {
      auto q = ones(1, queries), out = ones(1, queries);
      const std::vector<Index> rows{sequence};
      CHECK(message_of<ConfigError>([&] {
              posenc::attention(q.view(), cache, rows, out.view(), {});
            }) == "posenc::attention: " + rule);
    }
  }
}

TEST_CASE("causal: is required by MultiHeadAttention, which appends nothing without it",
          "[mha][errors]") {
  posenc::MultiHeadAttention<float> module({.model_dim = heads * dim, .heads = heads});
  module.randomize(1);
  const std::string message = "posenc::MultiHeadAttention::forward: " + rule;
  for (const Index seq : {0, 1, 3}) {
    Embeddings<float> x(1, seq, heads * dim), out(1, seq, heads * dim);
    x.setConstant(1);
    const auto at = Positions::range(0, seq);
    CHECK(message_of<ConfigError>([&] { module.forward(bsd(x), at, bsd(out), {}); }) == message);
    CHECK(message_of<ConfigError>(
              [&] { module.forward(bsd(x), at, bsd(x), bsd(x), at, bsd(out), {}); }) == message);
    KvCache<float> cache({.kv_heads = heads, .head_dim = dim, .capacity = 128});
    const std::vector<Index> rows{0};
    CHECK(message_of<ConfigError>([&] { module.forward(bsd(x), at, cache, rows, bsd(out), {}); }) ==
          message);
    CHECK(cache.length(0) == 0);
  }
}

TEMPLATE_TEST_CASE("softmax_scale_multiplier: multiplies the scale and its default",
                   "[attention][scale]", float, double) {
  using T = TestType;
  Heads<T> q(1, 3, heads, dim), k(1, 5, heads, dim), v(1, 5, heads, dim);
  support::Random random(1);
  for (auto* x : {&q, &k, &v}) {
    x->for_each([&](T& value) { value = static_cast<T>(random.normal()); });
  }
  const auto run = [&](std::optional<double> scale, double multiplier) {
    Heads<T> out(1, 3, heads, dim);
    posenc::attention(
        q.view(), k.view(), v.view(), out.view(),
        {.scale = scale, .softmax_scale_multiplier = multiplier, .causal = Causal::BottomRight});
    return out;
  };
  const auto same = [](Heads<T> a, Heads<T> b) { return support::same_bits(a.view(), b.view()); };
  // With head_dim 4 the default scale is 1/2.
  CHECK(same(run(std::nullopt, 3), run(1.5, 1)));
  CHECK(same(run(0.25, 3), run(0.75, 1)));
  CHECK_FALSE(same(run(std::nullopt, 3), run(std::nullopt, 1)));
  // The use for DeepSeek: the multiplier is that of the encoding.
  const posenc::Rope<posenc::HalfRotate> rope(
      posenc::Frequencies::from_inv_freq({1.0, 0.5}, 1, 1.59));
  CHECK(same(run(std::nullopt, rope.softmax_scale_multiplier()), run(0.5 * 1.59, 1)));
}

TEST_CASE("softmax_scale_multiplier: applies once in a module", "[mha][scale]") {
  using Rope = posenc::Rope<posenc::HalfRotate>;
  const std::vector<double> w{1.0, 0.25};
  posenc::MultiHeadAttention<float, Rope> module({.model_dim = 8, .heads = 2},
                                                 Rope(posenc::Frequencies::from_inv_freq(w, 1, 4)));
  module.randomize(3);
  support::Random random(4);
  const auto x = module_test::random_embeddings<float>(random, 2, 3, 8);
  const auto run = [&](std::optional<double> scale, double multiplier) {
    Embeddings<float> out(2, 3, 8);
    module.forward(
        bsd(x), Positions::range(0, 3), bsd(out),
        {.scale = scale, .softmax_scale_multiplier = multiplier, .causal = Causal::BottomRight});
    return out;
  };
  CHECK(module_test::same_bits(run(std::nullopt, 4), run(std::nullopt, 1)));
  CHECK(module_test::same_bits(run(0.25, 4), run(0.25, 1)));
  CHECK_FALSE(module_test::same_bits(run(0.25, 4), run(0.5, 1)));
  CHECK_THROWS_AS(run(0.25, 2), ConfigError);
}

TEST_CASE("scale: rejected if the type of the arithmetic does not hold it",
          "[attention][scale][errors]") {
  const std::string name = "posenc::attention: ";
  const auto error = [](std::optional<double> scale, double multiplier) {
    return error_of(
        1, 3, 3,
        {.scale = scale, .softmax_scale_multiplier = multiplier, .causal = Causal::BottomRight});
  };
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string positive =
      name + "softmax_scale_multiplier must be positive and finite but is ";
  CHECK(error(1, 0) == positive + "0");
  CHECK(error(1, -1) == positive + "-1");
  CHECK(error(1, nan) == positive + "nan");
  CHECK(error(1, infinity) == positive + "inf");
  CHECK(error(1e30, 1e10) ==
        name + "scale times softmax_scale_multiplier must be finite but is 1e+30 times 1e+10");
  CHECK(error(std::nullopt, 1e39) ==
        name + "scale times softmax_scale_multiplier must be finite but is 0.5 times 1e+39");
  CHECK(error(1e200, 1e200) == name + "scale must be finite but is 1e+200");
}

}  // namespace options_test
