// SPDX-License-Identifier: MIT
// Tests queries and keys in bfloat16, whose products a processor may compute in pairs. Scores have
// the bits of floats unless numbers or sums are below 2^-126; then the stated bound is tested.
#include "attention_case.hpp"
#include "support/catch.hpp"
#include <posenc/kv/cached_attention.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace attention_bfloat16_test {

using attention_test::attend;
using attention_test::Case;
using attention_test::Lse;
using attention_test::Mask;
using attention_test::Shape;
using Eigen::bfloat16;
using posenc::Index;
using posenc::ReturnedScores;
using support::to_double;

namespace {

constexpr Index sequence = 0;
const std::span<const Index> sequences(&sequence, 1);

template <class S, class T>
posenc::KvCache<S> cache_of(Case<T>& c) {
  posenc::KvCache<S> cache({.kv_heads = c.shape.kv_heads,
                            .head_dim = c.shape.dim,
                            .value_dim = c.shape.value_dim,
                            .capacity = c.shape.keys});
  cache.append(0, c.k.view(), c.v.view());
  return cache;
}

/// Numbers of normal(0, 1) * 2^exponent, |exponent| <= range, in bfloat16, and equal ones in float.
struct Both {
  Case<bfloat16> narrow;
  Case<float> wide;

  Both(const Shape& shape, std::uint64_t seed, double range) : narrow(shape, 1), wide(shape, 1) {
    support::Random random(seed);
    const auto fill = [&](auto& to, auto& copy) {
      to.for_each([&](bfloat16& x) {
        x = static_cast<bfloat16>(
            static_cast<float>(random.normal() * std::exp2(random.uniform(-range, range))));
      });
      for (Index s = 0; s < to.view().seq; ++s) {
        for (Index h = 0; h < to.view().heads; ++h) {
          for (Index d = 0; d < to.view().dim; ++d) {
            copy.view().row(0, s, h)[d] = static_cast<float>(to.view().row(0, s, h)[d]);
          }
        }
      }
    };
    fill(narrow.q, wide.q);
    fill(narrow.k, wide.k);
    fill(narrow.v, wide.v);
  }
};

template <class T>
const posenc::AttentionOptions<T> options{.scale = 0.3, .causal = posenc::Causal::BottomRight};

/// Scores and log-sum-exps of one call.
struct Results {
  Mask<float> scores;
  Lse<float> lse;

  explicit Results(const Shape& s)
      : scores(1, s.heads, s.queries, s.keys), lse(1, s.heads, s.queries) {}

  template <class T>
  posenc::AttentionMemory<T> memory() {
    return {.lse = lse.view(), .weights = scores.view(), .returned = ReturnedScores::Scaled};
  }

  bool same_bits(Results& other) {
    return support::same_bits(scores.values.data(), other.scores.values.data(),
                              scores.values.size()) &&
           attention_test::same_bits(lse.view(), other.lse.view());
  }
};

/// True if outputs in float, rounded, equal those in bfloat16.
bool same_when_rounded(Case<float>& wide, Case<bfloat16>& narrow) {
  bool same = true;
  for (Index s = 0; s < wide.shape.queries; ++s) {
    for (Index h = 0; h < wide.shape.heads; ++h) {
      for (Index d = 0; d < wide.shape.value_dim; ++d) {
        const auto want = static_cast<bfloat16>(wide.out.view().row(0, s, h)[d]);
        same &= support::same_bits(&want, &narrow.out.view().row(0, s, h)[d], 1);
      }
    }
  }
  return same;
}

}  // namespace

TEST_CASE("attention in bfloat16: the bits of the same numbers in float",
          "[attention][bits][bfloat16]") {
  for (const Index dim : {1, 2, 3, 8, 31, 64, 65, 128}) {
    for (const Index queries : {1, 3, 16}) {
      const Shape shape{1, 4, 2, queries, 150, dim, 5};
      Both both(shape, 1, 2);
      INFO("dim " << dim << ", queries " << queries);
      Results wide(shape), narrow(shape), cached(shape), mixed(shape), widened(shape);
      attend(both.wide.q.view(), both.wide.k.view(), both.wide.v.view(), both.wide.out.view(),
             options<float>, nullptr, wide.memory<float>());
      auto& c = both.narrow;
      attend(c.q.view(), c.k.view(), c.v.view(), c.out.view(), options<bfloat16>, nullptr,
             narrow.memory<bfloat16>());
      CHECK(narrow.same_bits(wide));
      CHECK(same_when_rounded(both.wide, c));
      auto cache = cache_of<bfloat16>(c);
      posenc::attention(c.q.view(), cache, sequences, c.out.view(), options<bfloat16>, {},
                        cached.memory<bfloat16>());
      CHECK(cached.same_bits(wide));
      CHECK(same_when_rounded(both.wide, c));
      posenc::attention(both.wide.q.view(), cache, sequences, both.wide.out.view(), options<float>,
                        {}, mixed.memory<float>());
      CHECK(mixed.same_bits(wide));
      auto wide_cache = cache_of<float>(both.wide);
      posenc::attention(c.q.view(), wide_cache, sequences, c.out.view(), options<bfloat16>, {},
                        widened.memory<bfloat16>());
      CHECK(widened.same_bits(wide));
    }
  }
}

TEST_CASE("attention in bfloat16: scores keep their bound, denormals and all",
          "[attention][accuracy][bfloat16]") {
  constexpr double least = 0x1p-126;
  for (const double range : {0.0, 10.0, 30.0, 64.0, 140.0}) {
    for (const Index dim : {3, 64, 127}) {
      const Shape shape{1, 2, 1, 13, 40, dim, 3};
      Both both(shape, 2, range);
      auto& c = both.narrow;
      // Limits keys so that products with the largest queries stay finite.
      c.k.for_each([&](bfloat16& x) {
        if (std::abs(to_double(x)) > 0x1p60) x = bfloat16(1.0F);
      });
      c.q.for_each([&](bfloat16& x) {
        if (std::abs(to_double(x)) > 0x1p60) x = bfloat16(-1.0F);
      });
      Results got(shape);
      attend(c.q.view(), c.k.view(), c.v.view(), c.out.view(), options<bfloat16>, nullptr,
             got.memory<bfloat16>());
      double worst = 0;
      for (Index h = 0; h < shape.heads; ++h) {
        const auto q = attention_test::matrix_of(c.q.view(), 0, h);
        const auto k = attention_test::matrix_of(c.k.view(), 0, 0);
        for (Index i = 0; i < q.rows; ++i) {
          for (Index j = 0; j <= i + shape.keys - shape.queries; ++j) {
            double sum = 0;
            double all = 0, lost = 0;
            for (Index d = 0; d < dim; ++d) {
              const double x = q(i, d), y = k(j, d);
              sum += x * y;
              all += std::abs(x * y);
              lost += least * (1 + std::abs(x) + std::abs(y));
            }
            // One rounding of the partial sums per channel, and one of the scale.
            const double allowed =
                1.01 * 0.3 *
                    (support::rounding<float>((static_cast<double>(dim) + 2) * all) + lost) +
                least;
            const double error =
                std::abs(to_double(got.scores.at(0, h, i, j)) - to_double(0.3F) * sum);
            worst = support::worse(worst, error / allowed);
          }
        }
      }
      INFO("exponents up to " << range << ", dim " << dim);
      CHECK(worst <= 1);
    }
  }
}

TEST_CASE("attention in bfloat16: the same bits in any cut, denormals and all",
          "[attention][bits][bfloat16]") {
  for (const double range : {64.0, 140.0}) {
    for (const Index dim : {3, 64}) {
      const Shape shape{1, 4, 2, 13, 150, dim, 5};
      Both both(shape, 4, range);
      auto& c = both.narrow;
      const auto ordinary = [](bfloat16& x) {
        if (std::abs(to_double(x)) > 0x1p40) x = bfloat16(1.0F);
      };
      c.q.for_each(ordinary);
      c.k.for_each(ordinary);
      c.v.for_each(ordinary);
      Results whole(shape), cached(shape);
      attend(c.q.view(), c.k.view(), c.v.view(), c.out.view(), options<bfloat16>, nullptr,
             whole.memory<bfloat16>());
      support::Heads<bfloat16> out = c.out;
      auto cache = cache_of<bfloat16>(c);
      posenc::attention(c.q.view(), cache, sequences, c.out.view(), options<bfloat16>, {},
                        cached.memory<bfloat16>());
      CHECK(cached.same_bits(whole));
      CHECK(support::same_bits(c.out.view(), out.view()));
      for (Index i = 0; i < shape.queries; ++i) {
        const auto one = [i](auto& x) { return posenc::slice_seq(x.view(), i, 1); };
        const Index seen = shape.keys - shape.queries + i + 1;
        Results alone({1, 4, 2, 1, seen, dim, 5});
        attend(one(c.q), posenc::slice_seq(c.k.view(), 0, seen),
               posenc::slice_seq(c.v.view(), 0, seen), one(c.out), options<bfloat16>, nullptr,
               alone.memory<bfloat16>());
        bool same = true;
        for (Index h = 0; h < shape.heads; ++h) {
          for (Index j = 0; j < seen; ++j) {
            const float got = alone.scores.at(0, h, 0, j), want = whole.scores.at(0, h, i, j);
            same &= support::same_bits(&got, &want, 1);
          }
        }
        INFO("exponents up to " << range << ", dim " << dim << ", query " << i);
        CHECK(same);
        CHECK(support::same_bits(one(c.out), one(out)));
      }
    }
  }
}

TEST_CASE("attention in bfloat16: infinities and NaN reach the rows that see them",
          "[attention][bfloat16]") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const Index dim : {5, 6}) {
    for (const Index channel : {Index{0}, Index{1}, dim - 1}) {
      for (const float hostile : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
        const Shape shape{1, 1, 1, 4, 4, dim, 3};
        Both both(shape, 3, 0);
        auto& c = both.narrow;
        c.k.view().row(0, 2, 0)[channel] = bfloat16(hostile);
        both.wide.k.view().row(0, 2, 0)[channel] = hostile;
        Results narrow(shape), wide(shape);
        attend(c.q.view(), c.k.view(), c.v.view(), c.out.view(), options<bfloat16>, nullptr,
               narrow.memory<bfloat16>());
        attend(both.wide.q.view(), both.wide.k.view(), both.wide.v.view(), both.wide.out.view(),
               options<float>, nullptr, wide.memory<float>());
        for (Index i = 0; i < 4; ++i) {
          const float got = narrow.scores.at(0, 0, i, 2), want = wide.scores.at(0, 0, i, 2);
          CHECK(((std::isnan(got) && std::isnan(want)) || got == want));
          const float seen = static_cast<float>(c.out.view().row(0, i, 0)[0]);
          CHECK(std::isnan(seen) == std::isnan(both.wide.out.view().row(0, i, 0)[0]));
          if (i < 2) CHECK(std::isfinite(seen));
        }
      }
    }
  }
}

}  // namespace attention_bfloat16_test
