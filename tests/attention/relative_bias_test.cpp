// SPDX-License-Identifier: MIT
// Tests biases by products with a relative table: compared with their definition, for every
// division, and invalid input.
#include "attention_case.hpp"
#include "random_call.hpp"
#include "random_shape.hpp"
#include "relative_case.hpp"
#include "support/catch.hpp"
#include "support/sampled.hpp"
#include "support/throws.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace relative_bias_test {

using attention_test::edge_shape;
using attention_test::random_table;
using attention_test::RandomCall;
using attention_test::RelativeCase;
using attention_test::RelativeShape;
using attention_test::roundings_with_bias;
using attention_test::Shape;
using attention_test::small_shape;
using attention_test::words_of;
using posenc::BeyondTable;
using posenc::Causal;
using posenc::ConfigError;
using posenc::Index;
using posenc::PositionError;
using posenc::RelativeBias;
using posenc::RelativeOrder;
using posenc::RelativeScale;
using posenc::ShapeError;
using support::message_of;

namespace {

template <class T>
void check(std::uint64_t seed, const Shape& shape, support::Random& random) {
  RandomCall<T> call(seed, shape, {.bias = true});
  if (shape.heads == 0) return;
  const RelativeShape of_table = random_table(random, shape.keys);
  RelativeCase<T> relative(call, of_table);
  const auto bias = relative.bias();
  posenc::attention(call.c.q.view(), call.c.k.view(), call.c.v.view(), call.c.out.view(),
                    call.options, bias, call.memory);
  INFO("seed " << seed << ": " << words_of(shape, of_table));
  CHECK(worst_error(call.c, relative.rules(), roundings_with_bias(call.roundings),
                    call.lse.view()) <= 1);
}

}  // namespace

TEMPLATE_TEST_CASE("RelativeBias: adds products with its table", "[attention][relative]", float,
                   double, Eigen::bfloat16) {
  support::Random random(1), of_tables(2);
  for (std::uint64_t seed = 1; seed <= support::sampled(150); ++seed) {
    check<TestType>(seed, small_shape(random), of_tables);
  }
  for (std::uint64_t seed = 1001; seed <= 1000 + support::sampled(80); ++seed) {
    check<TestType>(seed, edge_shape(random), of_tables);
  }
}

TEST_CASE("RelativeBias: a query has the same bits in every cut", "[attention][relative]") {
  constexpr Index tokens = 300;
  const std::vector<RelativeShape> shapes{
      {.rows = 33, .first = -16},
      {.rows = 600, .first = 0, .per_head = true, .order = RelativeOrder::QueryMinusKey},
      {.rows = 140,
       .first = 0,
       .own_queries = 16,
       .order = RelativeOrder::QueryMinusKey,
       .beyond = BeyondTable::Nothing,
       .scale = RelativeScale::Unscaled},
      {.rows = 64, .first = -64, .of_key = true, .mapped = true},
  };
  for (const RelativeShape& shape : shapes) {
    CAPTURE(shape.rows);
    RandomCall<float> call(1, {1, 4, 2, tokens, tokens, 10, 20}, {.bias = true});
    RelativeCase<float> relative(call, shape);
    auto bias = relative.bias();
    auto& c = call.c;
    posenc::attention(c.q.view(), c.k.view(), c.v.view(), c.out.view(),
                      {.causal = Causal::BottomRight}, bias);

    posenc::KvCache<float> cache(
        {.sequences = 1, .kv_heads = 2, .head_dim = 10, .value_dim = 20, .capacity = tokens});
    support::Heads<float> out(1, tokens, 4, 20);
    const auto own = bias.queries;
    for (Index i = 0, n = 0; i < tokens; i += n) {
      n = i < 200 ? 100 : i < 260 ? 30 : 1;
      cache.append(0, slice_seq(c.k.view(), i, n), slice_seq(c.v.view(), i, n));
      if (own.data != nullptr) bias.queries = slice_seq(own, i, n);
      posenc::attention(slice_seq(c.q.view(), i, n), cache, {0}, slice_seq(out.view(), i, n),
                        {.causal = Causal::BottomRight}, bias);
    }
    CHECK(support::same_bits(out.view(), c.out.view()));
  }
}

TEST_CASE("RelativeBias: NaN in the table reaches only what sees its distance",
          "[attention][relative]") {
  RandomCall<float> call(3, {1, 1, 1, 6, 6, 8, 8}, {.bias = true});
  auto& c = call.c;
  support::Heads<float> table(1, 11, 1, 8);
  table.for_each([](float& value) { value = 0.25F; });
  *table.view().row(0, 5 - 4, 0) = std::numeric_limits<float>::quiet_NaN();  // four keys back
  posenc::attention(c.q.view(), c.k.view(), c.v.view(), c.out.view(), {.causal = Causal::TopLeft},
                    RelativeBias<float>{.table = table.view(),
                                        .index = {.order = RelativeOrder::KeyMinusQuery,
                                                  .first = -5,
                                                  .beyond = BeyondTable::Refused},
                                        .scale = RelativeScale::Scaled});
  for (Index i = 0; i < 6; ++i) CHECK(std::isnan(*c.out.view().row(0, i, 0)) == (i >= 4));
}

TEST_CASE("RelativeBias: rejected before anything is written if it does not fit",
          "[attention][relative][errors]") {
  RandomCall<float> call(4, {2, 4, 2, 5, 5, 8, 8}, {.bias = true});
  auto& c = call.c;
  c.out.for_each([](float& value) { value = 7; });
  support::Heads<float> table(1, 9, 1, 8), of_heads(1, 9, 4, 8), narrow(1, 9, 1, 7),
      short_one(1, 8, 1, 8);
  const RelativeBias<float> good{
      .table = table.view(),
      .index = {.order = RelativeOrder::KeyMinusQuery, .first = -4, .beyond = BeyondTable::Refused},
      .scale = RelativeScale::Scaled};
  const auto message = [&](const auto& change) {
    auto bias = good;
    change(bias);
    return [&c, bias] {
      posenc::attention(c.q.view(), c.k.view(), c.v.view(), c.out.view(), {.causal = Causal::No},
                        bias);
    };
  };
  using B = RelativeBias<float>;
  CHECK(
      message_of<ConfigError>(message([](B& b) { b.index.order = RelativeOrder::Unspecified; })) ==
      "posenc::attention: RelativeIndex::order must be set to KeyMinusQuery or QueryMinusKey");
  CHECK(message_of<ConfigError>(message([](B& b) { b.index.beyond = BeyondTable::Unspecified; })) ==
        "posenc::attention: RelativeIndex::beyond must be set to Nearest, Nothing or Refused");
  CHECK(message_of<ConfigError>(message([](B& b) { b.scale = RelativeScale::Unspecified; })) ==
        "posenc::attention: RelativeBias::scale must be set to Scaled or Unscaled");
  CHECK(message_of<ConfigError>(message([](B& b) { b.table = {}; })) ==
        "posenc::attention: RelativeBias needs a table, a key_table or both");
  CHECK(message_of<ShapeError>(message([&](B& b) { b.table = narrow.view(); })) ==
        "posenc::attention: RelativeBias::table [1, 9, 1, 7] must be [1, 9, 1 or 4, 8]");
  CHECK(message_of<ShapeError>(message([&](B& b) { b.key_table = short_one.view(); })) ==
        "posenc::attention: RelativeBias::key_table [1, 8, 1, 8] must be [1, 9, 1 or 4, 8]");
  CHECK(message_of<ShapeError>(message([&](B& b) { b.queries = of_heads.view(); })) ==
        "posenc::attention: RelativeBias::queries [1, 9, 4, 8] must have the batch, length and "
        "heads of q "
        "[2, 5, 4, 8]");
  CHECK(message_of<PositionError>(message([](B& b) { b.index.first = -3; })) ==
        "posenc::attention: the relative table has the distances key - query from -3 to 5, but "
        "the query "
        "at 4 attends to the key at 0");
  CHECK(
      message_of<PositionError>(message([](B& b) { b.index.first = Index{1} << 60; })) ==
      "posenc::attention: RelativeIndex::first must lie within +-2^52 but is 1152921504606846976");
  const auto rows_of_table = [&](Index count) {
    return message([&, count](B& b) { b.table = {table.view().data, 1, count, 1, 8, 0, 0, 8}; });
  };
  CHECK(message_of<ShapeError>(rows_of_table(0)) ==
        "posenc::attention: a relative table must have at least one row");
  CHECK(message_of<ShapeError>(rows_of_table(Index{1} << 31)) ==
        "posenc::attention: a relative table must have at most 2147483647 rows but has "
        "2147483648");
  for (const Index limit : {Index{1} << 52, -(Index{1} << 52)}) {
    CHECK(message_of<PositionError>(message([&](B& b) {
            b.index.first = limit;
            b.index.beyond = BeyondTable::Nothing;
          })) == "nothing was thrown");
  }
  c.out.for_each([](float& value) { value = 7; });
  const std::vector<Index> rows{0, 9};
  CHECK(message_of<ShapeError>(message([&](B& b) { b.index.rows = rows; })) ==
        "posenc::attention: RelativeIndex::rows must lie within the table's 9 rows but one is 9");
  bool untouched = true;
  c.out.for_each([&](float& value) { untouched = untouched && value == 7; });
  CHECK(untouched);
}

TEST_CASE("RelativeBias: keys that a query does not see may be beyond the table",
          "[attention][relative]") {
  constexpr Index count = 5;
  RandomCall<float> call(6, {1, 2, 1, count, count, 8, 8}, {.bias = true});
  auto& c = call.c;
  support::Heads<float> table(1, count, 1, 8);
  call.random.fill_normal(std::span(table.view().data, count * 8));
  // This table covers only keys up to the query.
  RelativeBias<float> bias{.table = table.view(),
                           .index = {.order = RelativeOrder::QueryMinusKey, .first = 0},
                           .scale = RelativeScale::Scaled};
  attention_test::Mask<bool> triangle(1, 1, count, count);
  Index cell = 0;
  triangle.fill([&] {
    const Index query = cell / count, key = cell++ % count;
    return key <= query;
  });
  const std::vector<Index> descending{4, 3, 2, 1, 0};
  const posenc::Positions places = posenc::Positions::ids(descending);
  const posenc::AttentionOptions<float> by_mask{.causal = Causal::No, .keep = triangle.view()},
      by_position{.causal = Causal::ByPosition, .query_positions = places, .key_positions = places};
  for (const auto& options : {by_mask, by_position}) {
    const auto attend = [&](BeyondTable beyond) {
      bias.index.beyond = beyond;
      posenc::attention(c.q.view(), c.k.view(), c.v.view(), c.out.view(), options, bias);
      std::vector<float> all;
      c.out.for_each([&](float value) { all.push_back(value); });
      return all;
    };
    CHECK(attend(BeyondTable::Refused) == attend(BeyondTable::Nothing));
  }
  // A visible key beyond the table is rejected.
  attention_test::Mask<bool> more(1, 1, count, count);
  cell = 0;
  more.fill([&] { return cell++ % count <= 3; });
  bias.index.beyond = BeyondTable::Refused;
  CHECK(message_of<PositionError>([&] {
          posenc::attention(c.q.view(), c.k.view(), c.v.view(), c.out.view(),
                            {.causal = Causal::No, .keep = more.view()}, bias);
        }) ==
        "posenc::attention: the relative table has the distances key - query from -4 to 0, but "
        "the query at 0 attends to the key at 1");
}

TEST_CASE("RelativeBias: does not depend on the order of keys", "[attention][relative]") {
  // The first key is the farthest, 16 columns of the table and more from all others.
  constexpr Index keys = 5, dim = 4;
  const std::vector<Index> there{200, 3, 1, 4, 2}, back{2, 4, 1, 3, 200}, query{0};
  support::Random random(3);
  auto table = support::Heads<float>::random(random, 1, 256, 1, dim);
  auto q = support::Heads<float>::random(random, 1, 1, 1, dim);
  auto k = support::Heads<float>::random(random, 1, keys, 1, dim), reversed = k;
  for (Index j = 0; j < keys; ++j) {
    std::copy_n(k.view().row(0, j, 0), dim, reversed.view().row(0, keys - 1 - j, 0));
  }
  RelativeBias<float> bias;
  bias.table = table.view();
  bias.index = {.order = RelativeOrder::KeyMinusQuery, .first = 0, .beyond = BeyondTable::Refused};
  bias.scale = RelativeScale::Unscaled;
  const auto lse_of = [&](support::Heads<float>& x, const std::vector<Index>& positions) {
    support::Heads<float> out(1, 1, 1, dim);
    float lse = 0;
    posenc::attention(q.view(), x.view(), x.view(), out.view(),
                      {.causal = Causal::No,
                       .query_positions = posenc::Positions::ids(query),
                       .key_positions = posenc::Positions::ids(positions)},
                      bias, {.lse = {&lse, 1, 1, 1}});
    return static_cast<double>(lse);
  };
  CHECK(lse_of(k, there) == Approx(lse_of(reversed, back)).epsilon(1e-5));
}

TEST_CASE("add_heads_gradient: is the sum over tokens", "[relative]") {
  std::vector<float> grad(2 * 3 * 2 * 2), gradient{1, 0, 0, 0};
  for (std::size_t i = 0; i < grad.size(); ++i) grad[i] = static_cast<float>(i % 4);
  posenc::add_heads_gradient(posenc::HeadsView<const float>{grad.data(), 2, 3, 2, 2},
                             {gradient.data(), 1, 1, 2, 2});
  CHECK(gradient == std::vector<float>{1, 6, 12, 18});
  const posenc::HeadsView<float> heads{grad.data(), 2, 3, 2, 2};
  CHECK(message_of<ShapeError>([&] {
          posenc::add_heads_gradient<float>(heads, {gradient.data(), 1, 2, 1, 2});
        }) == "posenc::add_heads_gradient: gradient [1, 2, 1, 2] must be [1, 1, 2, 2]");
  CHECK(message_of<ShapeError>([&] {
          posenc::add_to_heads(heads, {gradient.data(), 1, 1, 1, 4}, heads);
        }) == "posenc::add_to_heads: bias [1, 1, 1, 4] must be [1, 1, 2, 2]");
  CHECK_THROWS_AS(
      posenc::add_heads_gradient(posenc::HeadsView<const float>{grad.data(), 2, 3, 2, 2},
                                 {gradient.data(), 1, 1, 2, 1}),
      posenc::ShapeError);
}

}  // namespace relative_bias_test
