// SPDX-License-Identifier: MIT
// Tests numbers that break a careless softmax, distributed over several tiles of keys.
#include "attention_case.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

namespace attention_hostile_test {

using attention_test::Case;
using attention_test::infinity;
using attention_test::Lse;
using attention_test::Mask;
using attention_test::plain_rule;
using attention_test::seeing;
using attention_test::worst_error;
using posenc::AttentionOptions;
using posenc::Index;

namespace {

template <class T>
T number(double x) {
  return static_cast<T>(static_cast<float>(x));
}

constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN();

/// Returns a call with one feature, so that key j has the score scores[j].
template <class T>
Case<T> with_scores(const std::vector<double>& scores, Index value_dim = 5) {
  Case<T> c({1, 2, 1, 3, static_cast<Index>(scores.size()), 1, value_dim}, 1);
  c.q.for_each([](T& x) { x = number<T>(1); });
  for (std::size_t j = 0; j < scores.size(); ++j) {
    c.k.view().row(0, static_cast<Index>(j), 0)[0] = number<T>(scores[j]);
  }
  return c;
}

template <class T>
bool row_is_nan(Case<T>& c, Index h, Index i) {
  const auto row = support::row_of(c.out.view(), 0, i, h);
  return std::all_of(row.begin(), row.end(), [](double x) { return std::isnan(x); });
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("attention: scores of +-1e4 in any tile", "[attention][hostile]",
                        attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  constexpr Index keys = 300;
  Mask<Real> weights(1, 2, 3, keys);
  Lse<Real> lse(1, 2, 3);
  for (const double other : {-9984.0, 0.0, 9600.0}) {
    for (const Index top : {0, 1, 31, 127, 128, 200, 256, 299}) {
      std::vector<double> scores(keys, other);
      scores[static_cast<std::size_t>(top)] = 9984;
      auto c = with_scores<T>(scores);
      c.run({.scale = 1, .causal = posenc::Causal::No}, {},
            {.lse = lse.view(), .weights = weights.view()});
      INFO("9984 at key " << top << ", others at " << other);
      for (Index i = 0; i < 3; ++i) {
        CHECK(support::same_bits(c.out.view().row(0, i, 0), c.v.view().row(0, top, 0), 5));
        CHECK(lse.values(0, 1, i) == Real{9984});
        double sum = 0;
        for (Index j = 0; j < keys; ++j) sum += static_cast<double>(weights.at(0, 1, i, j));
        CHECK(weights.at(0, 1, i, top) == Real{1});
        CHECK(sum == 1);
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE(
    "attention: scores that climb and fall over tiles by more than exp can hold",
    "[attention][hostile]", attention_test::Scalars) {
  using T = TestType;
  Lse<posenc::Compute<T>> lse(1, 2, 3);
  for (const int direction : {1, -1}) {
    std::vector<double> scores;
    for (int j = 0; j < 400; ++j) scores.push_back(direction * (j / 128 * 512 + j % 128 / 2));
    auto c = with_scores<T>(scores);
    c.run({.scale = 1, .causal = posenc::Causal::No}, {}, {.lse = lse.view()});
    CHECK(worst_error(
              c, [](Index, Index) { return reference::AttentionRule{}; }, {}, lse.view()) <= 1);
  }
}

TEMPLATE_LIST_TEST_CASE("attention: equal scores give equal weights over many tiles",
                        "[attention][hostile]", attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  constexpr Index keys = 512;
  Mask<Real> weights(1, 2, 3, keys);
  for (const double score : {-9984.0, -1.5, 0.0, 1.0, 9984.0}) {
    auto c = with_scores<T>(std::vector<double>(keys, score));
    c.run({.scale = 1, .causal = posenc::Causal::No}, {}, {.weights = weights.view()});
    INFO("scores of " << score);
    const auto* begin = weights.values.data();
    CHECK(std::all_of(begin, begin + weights.values.size(),
                      [](Real x) { return static_cast<double>(x) == 1.0 / keys; }));
  }
}

TEMPLATE_LIST_TEST_CASE("attention: visible values count, however small their weight",
                        "[attention][hostile]", attention_test::Scalars) {
  using T = TestType;
  // The weight of the bad key is 0 in every type, but 0 * inf and 0 * NaN are NaN.
  for (const double bad : {infinity, -infinity, quiet_nan}) {
    for (const Index keys : {2, 128, 129, 300}) {
      for (const Index at : {Index{0}, keys - 1}) {
        std::vector<double> scores(static_cast<std::size_t>(keys), 0);
        scores[static_cast<std::size_t>(at)] = -9984;
        auto c = with_scores<T>(scores);
        c.run({.scale = 1, .causal = posenc::Causal::No});
        auto clean = c.out;
        c.v.view().row(0, at, 0)[3] = number<T>(bad);
        c.run({.scale = 1, .causal = posenc::Causal::No});
        INFO(keys << " keys, value of key " << at << " is " << bad);
        bool arrives = true;
        for (Index h = 0; h < 2; ++h) {
          for (Index i = 0; i < 3; ++i) {
            arrives &= std::isnan(support::to_double(c.out.view().row(0, i, h)[3]));
            c.out.view().row(0, i, h)[3] = clean.view().row(0, i, h)[3];
          }
        }
        CHECK(arrives);
        CHECK(support::same_bits(c.out.view(), clean.view()));
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("attention: an infinite value with some weight is infinite",
                        "[attention][hostile]", attention_test::Scalars) {
  using T = TestType;
  for (const Index at : {0, 130}) {
    auto c = with_scores<T>(std::vector<double>(140, 0.5));
    c.v.view().row(0, at, 0)[1] = number<T>(infinity);
    c.v.view().row(0, at, 0)[2] = number<T>(-infinity);
    c.run();
    for (Index i = 0; i < 3; ++i) {
      CHECK(support::to_double(c.out.view().row(0, i, 1)[1]) == infinity);
      CHECK(support::to_double(c.out.view().row(0, i, 1)[2]) == -infinity);
      CHECK(std::isfinite(support::to_double(c.out.view().row(0, i, 1)[0])));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("attention: denormal values, queries and keys are computed with",
                        "[attention][hostile]", attention_test::Scalars) {
  using T = TestType;
  // Constructs the n-th denormal from its bits.
  const auto denormal = [](Index n) {
    T x{};
    const auto bits = static_cast<unsigned char>(n);
    std::memcpy(static_cast<void*>(&x), &bits, 1);
    return x;
  };
  auto c = with_scores<T>({3});
  for (Index d = 0; d < 5; ++d) c.v.view().row(0, 0, 0)[d] = denormal(d + 1);
  c.run({.scale = 1, .causal = posenc::Causal::No});
  for (Index i = 0; i < 3; ++i) {
    CHECK(support::same_bits(c.out.view().row(0, i, 0), c.v.view().row(0, 0, 0), 5));
  }
  // With scores close to 0 the output is the mean of the values.
  Case<T> tiny({1, 1, 1, 2, 200, 4, 6}, 2);
  for (auto* x : {&tiny.q, &tiny.k}) x->for_each([&](T& value) { value = denormal(7); });
  tiny.run();
  CHECK(worst_error(tiny, plain_rule(tiny)) <= 1);
}

TEMPLATE_LIST_TEST_CASE("attention: tiles that are hidden as a whole change nothing",
                        "[attention][hostile]", attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  constexpr Index keys = 400;
  for (const Index tile : {0, 1, 2, 3}) {
    Case<T> c({1, 2, 1, 3, keys, 8, 5}, 3);
    const auto shown = [=](Index, Index, Index, Index j) { return j / 128 != tile; };
    Mask<bool> keep(1, 1, 1, keys);
    Mask<Real> additive(1, 1, 3, keys);
    for (Index j = 0; j < keys; ++j) {
      keep.values(0, 0, 0, j) = shown(0, 0, 0, j);
      for (Index i = 0; i < 3; ++i) {
        additive.values(0, 0, i, j) = keep.values(0, 0, 0, j) ? Real{0} : number<Real>(-infinity);
      }
      if (!shown(0, 0, 0, j)) {
        c.k.view().row(0, j, 0)[0] = number<T>(quiet_nan);
        c.v.view().row(0, j, 0)[0] = number<T>(quiet_nan);
      }
    }
    INFO("tile " << tile);
    c.run({.causal = posenc::Causal::No, .keep = keep.view()});
    CHECK(worst_error(c, seeing(c, shown)) <= 1);
    const auto kept = c.out;
    c.run({.causal = posenc::Causal::No, .additive = additive.view()});
    CHECK(support::same_bits(c.out.view(), support::Heads<T>(kept).view()));
  }
}

TEMPLATE_LIST_TEST_CASE("additive mask: -inf, NaN and +inf, mixed", "[attention][hostile]",
                        attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  for (const Index keys : {4, 260}) {
    INFO(keys << " keys");
    Case<T> c({1, 2, 1, 6, keys, 8, 5}, 4);
    Mask<Real> additive(1, 1, 6, keys, Real{0}), weights(1, 2, 6, keys);
    Lse<Real> lse(1, 2, 6);
    for (Index j = 0; j < keys; ++j) {
      additive.values(0, 0, 1, j) = number<Real>(-infinity);               // no visible key
      additive.values(0, 0, 2, j) = number<Real>(j == 1 ? 0 : -infinity);  // one visible key
    }
    additive.values(0, 0, 3, 0) = number<Real>(-infinity);
    additive.values(0, 0, 3, keys - 1) = number<Real>(quiet_nan);
    additive.values(0, 0, 4, keys - 2) = number<Real>(infinity);
    additive.values(0, 0, 5, 2) = number<Real>(-1e30);
    c.run();
    auto clean = c.out;
    c.run({.causal = posenc::Causal::No, .additive = additive.view()}, {},
          {.lse = lse.view(), .weights = weights.view()});
    for (Index h = 0; h < 2; ++h) {
      CHECK(support::same_bits(c.out.view().row(0, 0, h), clean.view().row(0, 0, h), 5));
      for (const double x : support::row_of(c.out.view(), 0, 1, h)) CHECK(x == 0);
      CHECK(static_cast<double>(lse.values(0, h, 1)) == -infinity);
      CHECK(support::same_bits(c.out.view().row(0, 2, h), c.v.view().row(0, 1, 0), 5));
      CHECK(row_is_nan(c, h, 3));
      CHECK(std::isnan(lse.values(0, h, 3)));
      CHECK(static_cast<double>(weights.at(0, h, 3, 0)) == 0);
      CHECK(row_is_nan(c, h, 4));
      CHECK(static_cast<double>(weights.at(0, h, 5, 2)) == 0);
      for (const double x : support::row_of(c.out.view(), 0, 5, h)) CHECK(std::isfinite(x));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("additive mask: a hidden key may get NaN or inf", "[attention][hostile]",
                        attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  for (const Index keys : {4, 260}) {
    Case<T> c({1, 2, 1, 3, keys, 8, 5}, 5);
    Mask<bool> keep(1, 1, 1, keys, true);
    Mask<Real> additive(1, 1, 1, keys, Real{0});
    for (Index j = 0; j < keys; j += 3) keep.values(0, 0, 0, j) = false;
    AttentionOptions<T> options{
        .causal = posenc::Causal::No, .keep = keep.view(), .additive = additive.view()};
    c.run(options);
    auto clean = c.out;
    for (const double bad : {quiet_nan, infinity}) {
      for (Index j = 0; j < keys; j += 3) additive.values(0, 0, 0, j) = number<Real>(bad);
      c.run(options);
      CHECK(support::same_bits(c.out.view(), clean.view()));
    }
  }
}

}  // namespace attention_hostile_test
