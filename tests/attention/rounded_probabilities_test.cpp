// SPDX-License-Identifier: MIT
// Tests Probabilities::RoundedToBfloat16. RandomCall draws it as well: references, tiers, threads
// and cuts of it are tested where other options are.
#include "attention_case.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>
#include <posenc/kv/cached_attention.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace rounded_probabilities_test {

using attention_test::Case;
using attention_test::Lse;
using attention_test::Mask;
using attention_test::Shape;
using Eigen::bfloat16;
using posenc::Causal;
using posenc::ConfigError;
using posenc::Index;
using posenc::Probabilities;
using support::Heads;
using support::message_of;
using support::to_double;

namespace {

template <class T>
posenc::AttentionOptions<T> rounding(Causal causal = Causal::BottomRight) {
  return {.scale = 0.3, .causal = causal, .probabilities = Probabilities::RoundedToBfloat16};
}

Heads<float> widened(const Heads<bfloat16>& x) {
  Heads<bfloat16> from = x;
  const auto view = from.view();
  Heads<float> to(view.batch, view.seq, view.heads, view.dim);
  for (Index s = 0; s < view.seq; ++s) {
    for (Index h = 0; h < view.heads; ++h) {
      for (Index d = 0; d < view.dim; ++d) {
        to.view().row(0, s, h)[d] = static_cast<float>(view.row(0, s, h)[d]);
      }
    }
  }
  return to;
}

template <class S>
posenc::KvCache<S> cache_of(Case<S>& c) {
  posenc::KvCache<S> cache({.kv_heads = c.shape.kv_heads,
                            .head_dim = c.shape.dim,
                            .value_dim = c.shape.value_dim,
                            .capacity = c.shape.keys});
  cache.append(0, c.k.view(), c.v.view());
  return cache;
}

/// Fills values with normal(0, 1) * 2^exponent, |exponent| <= range.
void fill(Heads<bfloat16>& x, support::Random& random, double range) {
  x.for_each([&](bfloat16& value) {
    value = static_cast<bfloat16>(
        static_cast<float>(random.normal() * std::exp2(random.uniform(-range, range))));
  });
}

}  // namespace

TEST_CASE("round_weights_to_bfloat16: probabilities are the nearest of bfloat16",
          "[attention][bfloat16]") {
  // One query and two keys: the probabilities before their division are 1 and exp(-score).
  for (const float score : {0.25F, 0.7F, 1.0F, 3.5F, 10.0F, 60.0F}) {
    Case<bfloat16> c({1, 1, 1, 1, 2, 1, 2}, 1);
    c.q.view().row(0, 0, 0)[0] = bfloat16(1.0F);
    c.k.view().row(0, 0, 0)[0] = bfloat16(0.0F);
    c.k.view().row(0, 1, 0)[0] = bfloat16(-score);
    for (const Index d : {0, 1}) {
      c.v.view().row(0, 0, 0)[d] = bfloat16(d == 0 ? 1.0F : 0.0F);
      c.v.view().row(0, 1, 0)[d] = bfloat16(d == 0 ? 0.0F : 1.0F);
    }
    const auto q = widened(c.q);
    Heads<float> out(1, 1, 1, 2);
    auto options = rounding<float>(Causal::No);
    options.scale = 1;
    const auto cache = cache_of(c);
    const double exact = std::exp(-to_double(bfloat16(score)));
    const double nearest = to_double(static_cast<bfloat16>(static_cast<float>(exact)));
    const auto check = [&] {
      INFO("score " << score);
      CHECK(std::abs(to_double(out.view().row(0, 0, 0)[0]) - 1 / (1 + exact)) <= 3e-7);
      CHECK(std::abs(to_double(out.view().row(0, 0, 0)[1]) / (nearest / (1 + exact)) - 1) <= 3e-7);
    };
    Heads<float> queries = q;
    posenc::attention(queries.view(), cache, {0}, out.view(), options);
    check();
    posenc::attention(queries.view(), c.k.view(), c.v.view(), out.view(), options);
    check();
  }
}

TEST_CASE("RoundedToBfloat16: the same bits from tensors, caches and in any type of query",
          "[attention][bits][bfloat16]") {
  support::Random random(1);
  for (const Index queries : {1, 3, 40}) {
    for (const Index value_dim : {1, 5, 16, 40, 128}) {
      for (const Causal causal : {Causal::BottomRight, Causal::No}) {
        Case<bfloat16> c({1, 6, 2, queries, 299, 24, value_dim}, 5);
        fill(c.v, random, 2);
        const auto cache = cache_of(c);
        Heads<float> q = widened(c.q);
        const auto options = rounding<float>(causal);
        Heads<float> want(1, queries, 6, value_dim), got = want, unrounded = want;
        posenc::attention(q.view(), c.k.view(), c.v.view(), want.view(), options);
        posenc::attention(q.view(), cache, {0}, got.view(), options);
        INFO(queries << " queries, " << value_dim << " values");
        CHECK(support::same_bits(got.view(), want.view()));
        posenc::attention(q.view(), cache, {0}, unrounded.view(), {.scale = 0.3, .causal = causal});
        CHECK_FALSE(support::same_bits(unrounded.view(), want.view()));
        const auto is_rounded = [&] {
          bool same = true;
          for (Index s = 0; s < queries; ++s) {
            for (Index h = 0; h < 6; ++h) {
              for (Index d = 0; d < value_dim; ++d) {
                const auto stored = static_cast<bfloat16>(want.view().row(0, s, h)[d]);
                same &= support::same_bits(&stored, &c.out.view().row(0, s, h)[d], 1);
              }
            }
          }
          return same;
        };
        posenc::attention(c.q.view(), c.k.view(), c.v.view(), c.out.view(),
                          rounding<bfloat16>(causal));
        CHECK(is_rounded());
        posenc::attention(c.q.view(), cache, {0}, c.out.view(), rounding<bfloat16>(causal));
        CHECK(is_rounded());
      }
    }
  }
}

TEST_CASE("RoundedToBfloat16: the same bits in any cut, tiny values and all",
          "[attention][bits][bfloat16]") {
  support::Random random(2);
  for (const double range : {2.0, 64.0, 130.0}) {
    for (const Index value_dim : {5, 40}) {
      const Shape shape{1, 4, 2, 13, 151, 24, value_dim};
      Case<bfloat16> c(shape, 4);
      fill(c.v, random, range);
      c.v.for_each([](bfloat16& x) {
        if (std::abs(to_double(x)) > 0x1p40) x = bfloat16(1.0F);
      });
      c.run(rounding<bfloat16>());
      Heads<bfloat16> out = c.out;
      const auto cache = cache_of(c);
      posenc::attention(c.q.view(), cache, {0}, c.out.view(), rounding<bfloat16>());
      CHECK(support::same_bits(c.out.view(), out.view()));
      for (Index i = 0; i < shape.queries; ++i) {
        const auto one = [i](auto& x) { return posenc::slice_seq(x.view(), i, 1); };
        const Index seen = shape.keys - shape.queries + i + 1;
        attention_test::attend(one(c.q), posenc::slice_seq(c.k.view(), 0, seen),
                               posenc::slice_seq(c.v.view(), 0, seen), one(c.out),
                               rounding<bfloat16>());
        INFO("exponents up to " << range << ", query " << i);
        CHECK(support::same_bits(one(c.out), one(out)));
      }
    }
  }
}

TEST_CASE("RoundedToBfloat16: a masked value that is not finite changes no bit",
          "[attention][bits][bfloat16]") {
  support::Random random(3);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const double range : {2.0, 130.0}) {
    for (const Index hidden : {0, 1, 63, 64, 126, 127, 130}) {
      Case<bfloat16> c({1, 4, 2, 9, 131, 24, 40}, 4);
      fill(c.v, random, range);
      Mask<bool> masked(1, 1, 1, 131);
      masked.values.data()[hidden] = true;
      auto options = rounding<bfloat16>(Causal::No);
      options.masked = masked.view();
      for (const bool in_cache : {false, true}) {
        const auto run = [&] {
          if (!in_cache) return c.run(options);
          const auto cache = cache_of(c);
          posenc::attention(c.q.view(), cache, {0}, c.out.view(), options);
        };
        const auto set = [&](float value) {
          for (Index h = 0; h < 2; ++h) {
            std::fill_n(c.v.view().row(0, hidden, h), 40, bfloat16(value));
          }
        };
        set(1);
        run();
        Heads<bfloat16> out = c.out;
        for (const float hostile : {infinity, std::numeric_limits<float>::quiet_NaN()}) {
          set(hostile);
          run();
          INFO("exponents up to " << range << ", key " << hidden << " is " << hostile);
          CHECK(support::same_bits(c.out.view(), out.view()));
        }
      }
    }
  }
}

TEST_CASE("RoundedToBfloat16: changes no log-sum-exp, returned probability or gradient",
          "[attention][bfloat16]") {
  const Shape shape{1, 4, 2, 9, 150, 24, 40};
  const auto results = [&](Probabilities probabilities) {
    Case<bfloat16> c(shape, 4);
    auto options = rounding<bfloat16>();
    options.probabilities = probabilities;
    Lse<float> lse(1, 4, 9);
    Mask<float> weights(1, 4, 9, 150);
    c.run(options, posenc::NoBias(), {.lse = lse.view(), .weights = weights.view()});
    Heads<bfloat16> dq(1, 9, 4, 24), dk(1, 150, 2, 24), dv(1, 150, 2, 40), out = c.out;
    out.for_each([](bfloat16& x) { x = bfloat16(0.5F); });  // the same for both
    posenc::attention_backward<bfloat16>(c.q.view(), c.k.view(), c.v.view(), out.view(), lse.view(),
                                         out.view(),
                                         {.q = dq.view(), .k = dk.view(), .v = dv.view()}, options);
    std::vector<float> all(lse.values.data(), lse.values.data() + lse.values.size());
    all.insert(all.end(), weights.values.data(), weights.values.data() + weights.values.size());
    for (auto* x : {&dq, &dk, &dv}) {
      x->for_each([&](bfloat16& value) { all.push_back(static_cast<float>(value)); });
    }
    return all;
  };
  CHECK(results(Probabilities::RoundedToBfloat16) == results(Probabilities::Unrounded));
}

TEST_CASE("RoundedToBfloat16: needs values of bfloat16", "[attention][errors]") {
  const auto check = [](auto number) {
    using T = decltype(number);
    Case<T> c({1, 2, 1, 3, 4, 8, 8}, 1);
    const std::string rule = "Probabilities::RoundedToBfloat16 needs values of bfloat16";
    CHECK(message_of<ConfigError>([&] { c.run(rounding<T>()); }) == "posenc::attention: " + rule);
    const auto cache = cache_of(c);
    CHECK(message_of<ConfigError>([&] {
            posenc::attention(c.q.view(), cache, {0}, c.out.view(), rounding<T>());
          }) == "posenc::attention: " + rule);
  };
  check(1.0F);
  check(1.0);
  check(Eigen::half(1.0F));
}

}  // namespace rounded_probabilities_test
