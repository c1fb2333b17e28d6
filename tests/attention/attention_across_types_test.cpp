// SPDX-License-Identifier: MIT
// Queries over keys and values of another type, in memory of the caller.
#include "attention_case.hpp"
#include "random_call.hpp"
#include "random_shape.hpp"
#include "support/catch.hpp"
#include "support/devices.hpp"
#include "support/sampled.hpp"
#include "support/throws.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/kv/cached_attention.hpp>

#include <Eigen/Core>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace attention_across_types_test {

using attention_test::Case;
using attention_test::edge_shape;
using attention_test::RandomCall;
using attention_test::Shape;
using attention_test::small_shape;
using posenc::Causal;
using posenc::HeadsView;
using posenc::Index;
using support::Heads;

namespace {

/// Returns x in another layout and type, and rounds x to that type.
template <class S>
Heads<S> stored_as(Heads<float>& x, const support::Layout& layout) {
  const auto from = x.view();
  Heads<S> to(from.batch, from.seq, from.heads, from.dim, layout);
  for (Index b = 0; b < from.batch; ++b) {
    for (Index s = 0; s < from.seq; ++s) {
      for (Index h = 0; h < from.heads; ++h) {
        for (Index d = 0; d < from.dim; ++d) {
          float& value = from.row(b, s, h)[d];
          const S stored = static_cast<S>(value);
          to.view().row(b, s, h)[d] = stored;
          value = static_cast<float>(stored);
        }
      }
    }
  }
  return to;
}

template <class S>
void check(std::uint64_t seed, const Shape& shape) {
  const auto& layouts = support::layouts();
  RandomCall<float> call(seed, shape, {}, layouts[seed % 5]);
  auto k = stored_as<S>(call.c.k, layouts[(seed + 1) % 5]);
  auto v = stored_as<S>(call.c.v, layouts[(seed + 2) % 5]);
  INFO("seed " << seed << ": " << shape.heads << " heads over " << shape.kv_heads << ", "
               << shape.queries << " queries, " << shape.keys << " keys, dims " << shape.dim
               << " and " << shape.value_dim);
  const auto q = call.c.q.view();
  if (call.bias) {
    posenc::attention(q, k.view(), v.view(), call.c.out.view(), call.options, *call.bias,
                      call.memory);
  } else {
    posenc::attention(q, k.view(), v.view(), call.c.out.view(), call.options, {}, call.memory);
  }
  CHECK(call.c.out.surroundings_kept());
  CHECK(worst_error(call.c, call.rules(), call.roundings, call.lse.view()) <= 1);
  const Heads<float> got = call.c.out;
  call.run();
  CHECK(support::same_bits(Heads<float>(got).view(), call.c.out.view()));
}

}  // namespace

TEMPLATE_TEST_CASE(
    "attention of mixed types: float queries over 16-bit tensors equal the reference and float "
    "tensors",
    "[attention][sweep]", Eigen::bfloat16, Eigen::half) {
  support::Random random(11);
  for (std::uint64_t seed = 1; seed <= support::sampled(150); ++seed) {
    check<TestType>(seed, small_shape(random));
  }
  for (std::uint64_t seed = 1001; seed <= 1000 + support::sampled(80); ++seed) {
    check<TestType>(seed, edge_shape(random));
  }
}

TEMPLATE_TEST_CASE(
    "attention of mixed types: float queries over 16-bit tensors have the bits of a cache",
    "[attention][cache][bits]", Eigen::bfloat16, Eigen::half) {
  using S = TestType;
  for (const Index queries : {1, 3, 40}) {
    for (const Index dim : {8, 33, 64}) {
      INFO(queries << " queries, dim " << dim);
      Case<float> c({1, 6, 2, queries, 300, dim, 24}, 5);
      support::Random random(9);
      for (auto* x : {&c.q, &c.k}) {
        x->for_each([&](float& value) { value = static_cast<float>(random.normal()); });
      }
      auto k = stored_as<S>(c.k, support::layouts()[1]), v = stored_as<S>(c.v, {});
      posenc::KvCache<S> cache({.kv_heads = 2, .head_dim = dim, .value_dim = 24, .capacity = 300});
      cache.append(0, k.view(), v.view());
      posenc::attention(c.q.view(), cache, {0}, c.out.view(), {.causal = Causal::BottomRight});
      Heads<float> out(1, queries, 6, 24);
      posenc::attention(c.q.view(), k.view(), v.view(), out.view(),
                        {.causal = Causal::BottomRight});
      CHECK(support::same_bits(out.view(), c.out.view()));
      Eigen::ThreadPool pool(3);
      const Eigen::ThreadPoolDevice device(&pool, 3);
      Heads<float> again(1, queries, 6, 24);
      posenc::attention(c.q.view(), HeadsView<const S>(k.view()), v.view(), again.view(),
                        {.causal = Causal::BottomRight}, {}, {}, device);
      CHECK(support::same_bits(out.view(), again.view()));
    }
  }
}

TEST_CASE("attention of mixed types: queries of 16 bits read keys of other types", "[attention]") {
  Case<float> c({1, 4, 2, 5, 140, 16, 16}, 3);
  auto q = stored_as<Eigen::half>(c.q, {});
  auto k = stored_as<Eigen::bfloat16>(c.k, {}), v = stored_as<Eigen::bfloat16>(c.v, {});
  c.run();
  Heads<Eigen::half> out(1, 5, 4, 16), of_float(1, 5, 4, 16);
  posenc::attention(q.view(), k.view(), v.view(), out.view(), {.causal = Causal::No});
  posenc::attention(q.view(), c.k.view(), c.v.view(), of_float.view(), {.causal = Causal::No});
  auto want = stored_as<Eigen::half>(c.out, {});
  CHECK(support::same_bits(out.view(), want.view()));
  CHECK(support::same_bits(of_float.view(), want.view()));
}

TEST_CASE("attention of mixed types: a relative bias and masked NaN reach keys of another type",
          "[attention]") {
  Case<float> c({1, 2, 1, 4, 9, 8, 8}, 4);
  support::Random random(2);
  auto table = Heads<float>::random(random, 1, 17, 2, 8);
  posenc::RelativeBias<float> relative;
  relative.index = {.order = posenc::RelativeOrder::QueryMinusKey,
                    .first = -8,
                    .beyond = posenc::BeyondTable::Nearest};
  relative.scale = posenc::RelativeScale::Scaled;
  relative.table = table.view();
  auto k = stored_as<Eigen::bfloat16>(c.k, {}), v = stored_as<Eigen::bfloat16>(c.v, {});
  c.run({.causal = Causal::TopLeft}, relative);
  Heads<float> out(1, 4, 2, 8);
  for (Index d = 0; d < 8; ++d) {
    const auto nan = std::numeric_limits<Eigen::bfloat16>::quiet_NaN();
    for (Index j = 4; j < 9; ++j) k.view().row(0, j, 0)[d] = v.view().row(0, j, 0)[d] = nan;
  }
  posenc::attention(c.q.view(), k.view(), v.view(), out.view(), {.causal = Causal::TopLeft},
                    relative);
  CHECK(support::same_bits(out.view(), c.out.view()));
}

TEST_CASE("attention of mixed types: keys are checked before anything is written",
          "[attention][errors]") {
  Case<float> c({1, 4, 2, 3, 5, 8, 8}, 1);
  auto k = stored_as<Eigen::half>(c.k, {}), v = stored_as<Eigen::half>(c.v, {});
  Heads<float> out(1, 3, 4, 8);
  const auto fails = [&](HeadsView<Eigen::half> keys, HeadsView<Eigen::half> values) {
    return support::message_of<posenc::ShapeError>(
        [&] { posenc::attention(c.q.view(), keys, values, out.view(), {.causal = Causal::No}); });
  };
  CHECK(fails(posenc::slice_features(k.view(), 0, 7), v.view()) ==
        "posenc::attention: k [1, 5, 2, 7] must have the batch and head_dim of q [1, 3, 4, 8]");
  CHECK(fails(k.view(), posenc::slice_seq(v.view(), 0, 4)) ==
        "posenc::attention: v [1, 4, 2, 8] must have the batch, length and heads of k "
        "[1, 5, 2, 8]");
  auto without = k.view();
  without.data = nullptr;
  CHECK(fails(without, v.view()).find("data is null") != std::string::npos);
  CHECK_THROWS_AS(posenc::attention(c.q.view(), k.view(), v.view(), out.view(), {}),
                  posenc::ConfigError);
  CHECK(support::same_bits(out.view(), Heads<float>(1, 3, 4, 8).view()));
}

}  // namespace attention_across_types_test
