// SPDX-License-Identifier: MIT
// Tests the tokens that attention() passes to a TokenBias.
#include "attention_case.hpp"
#include "random_call.hpp"
#include "random_shape.hpp"
#include "support/catch.hpp"
#include "support/sampled.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/nn/multi_head_attention.hpp>

#include <cstdint>
#include <vector>

namespace token_bias_test {

using attention_test::RandomCall;
using attention_test::Shape;
using posenc::Index;
using posenc::TokenSpan;
using posenc::TokenTile;

namespace {

/// Returns a number that differs for batch rows, heads, queries and keys.
double of_tokens(Index batch, Index head, Index query, Index key) {
  return 0.125 * static_cast<double>((batch * 5 + head * 3 + query * 7 + key * 11) % 13 - 6);
}

/// User-supplied TokenBias. Keys count from their sequence's first one, whose index in the row is
/// in `boundaries`.
struct BiasOfTokens {
  const RandomCall<float>& call;

  void check(const char*, const TokenSpan& span) const {
    CHECK(span.heads == call.c.shape.heads);
    if (span.has_aligned_key && span.queries > 0) {
      CHECK(static_cast<double>(first_key(span.sequence) + span.aligned_key) ==
            call.place(span.batch, span.first_query));
    }
  }

  void add(const TokenTile& tokens, posenc::MatrixView<float> tile) const {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j) {
        tile.row(i)[j] +=
            static_cast<float>(of_tokens(tokens.batch, tokens.head, tokens.first_query + i,
                                         first_key(tokens.sequence) + tokens.first_key + j));
      }
    }
  }

  Index first_key(Index sequence) const {
    const auto& boundaries = call.options.cu_seqlens_k;
    return boundaries.empty() ? 0 : boundaries[static_cast<std::size_t>(sequence)];
  }
};
static_assert(posenc::TokenBias<BiasOfTokens, float>);

/// User-supplied TokenBias that notes the sequences that it checks.
struct CheckedBias {
  std::vector<Index>& checked;

  void check(const char*, const TokenSpan& span) const { checked.push_back(span.sequence); }
  void add(const TokenTile&, posenc::MatrixView<float>) const {}
};
static_assert(posenc::TokenBias<CheckedBias, float>);

}  // namespace

TEST_CASE("TokenBias: every sequence is checked", "[attention][scores]") {
  support::Random random(4);
  auto x = support::Heads<float>::random(random, 3, 2, 1, 4), out = x;
  std::vector<Index> checked;
  posenc::attention(x.view(), x.view(), x.view(), out.view(), {.causal = posenc::Causal::No},
                    CheckedBias{checked});
  CHECK(checked == std::vector<Index>{0, 1, 2});
}

TEST_CASE("TokenBias: gets the tokens of each tile", "[attention][scores]") {
  support::Random random(1);
  for (std::uint64_t seed = 1; seed <= support::sampled(120); ++seed) {
    const Shape shape =
        seed % 4 == 0 ? attention_test::edge_shape(random) : attention_test::small_shape(random);
    RandomCall<float> call(seed, shape, {.bias = true});
    if (shape.heads == 0) continue;
    INFO("seed " << seed);
    auto& c = call.c;
    posenc::attention(c.q.view(), c.k.view(), c.v.view(), c.out.view(), call.options,
                      BiasOfTokens{call}, call.memory);
    const auto rules = [&](Index b, Index h) {
      auto rule = call.rule(b, h);
      rule.bias = [b, h](Index i, Index j) { return of_tokens(b, h, i, j); };
      return rule;
    };
    auto roundings = call.roundings;
    roundings.bias = true;
    CHECK(worst_error(c, rules, roundings, call.lse.view()) <= 1);
  }
}

TEST_CASE("RelativeBias: in a module, decoding equals one pass", "[attention][mha][relative]") {
  constexpr Index tokens = 140, width = 16, heads = 2;
  support::Random random(2);
  auto table = support::Heads<float>::random(random, 1, 65, 1, 8);
  posenc::RelativeBias<float> shaw;
  shaw.table = table.view();
  shaw.index = {.order = posenc::RelativeOrder::KeyMinusQuery,
                .first = -32,
                .beyond = posenc::BeyondTable::Nearest};
  shaw.scale = posenc::RelativeScale::Scaled;
  posenc::MultiHeadAttention<float, posenc::NoRotation, posenc::RelativeBias<float>,
                             posenc::FixedOrderLinear<float>>
      module({.model_dim = width, .heads = heads}, {}, shaw);
  module.randomize(3);
  std::vector<float> x(tokens * width), at_once(x.size()), one_by_one(x.size());
  random.fill_normal(x);
  const auto view = [](auto& numbers, Index first, Index count) {
    return posenc::EmbeddingsView<float>{numbers.data() + first * width, 1, count, width};
  };
  module.forward(view(x, 0, tokens), posenc::Positions::range(0, tokens), view(at_once, 0, tokens),
                 {.causal = posenc::Causal::TopLeft});
  posenc::KvCache<float> cache(
      {.sequences = 1, .kv_heads = heads, .head_dim = 8, .capacity = tokens});
  for (Index t = 0; t < tokens; ++t) {
    module.forward(view(x, t, 1), posenc::Positions::range(t, 1), cache, {0},
                   view(one_by_one, t, 1), {.causal = posenc::Causal::BottomRight});
  }
  CHECK(support::same_bits(at_once.data(), one_by_one.data(), tokens * width));

  table.for_each([](float& value) { value = 0; });
  std::vector<float> plain(x.size());
  module.forward(view(x, 0, tokens), posenc::Positions::range(0, tokens), view(plain, 0, tokens),
                 {.causal = posenc::Causal::TopLeft});
  CHECK(plain != at_once);
}

}  // namespace token_bias_test
