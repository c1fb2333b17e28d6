// SPDX-License-Identifier: MIT
// Tests log-sum-exps and sinks, and that weights, log-sum-exps and sinks are consistent.
#include "attention_case.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace attention_lse_test {

using attention_test::Case;
using attention_test::infinity;
using attention_test::Lse;
using attention_test::Mask;
using attention_test::plain_rule;
using attention_test::worst_error;
using posenc::Causal;
using posenc::Index;
using posenc::ReturnedScores;

namespace {

/// Returns the plain rule with sinks.
template <class T>
attention_test::RuleOf with_sinks(const Case<T>& c, const std::vector<posenc::Compute<T>>& sinks) {
  return [plain = plain_rule(c), &sinks](Index b, Index h) {
    auto rule = plain(b, h);
    rule.sink = static_cast<double>(sinks[static_cast<std::size_t>(h)]);
    return rule;
  };
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("lse: is the log-sum-exp of the scores", "[attention][lse]",
                        attention_test::Scalars) {
  using Real = posenc::Compute<TestType>;
  for (const Index keys : {1, 2, 31, 128, 129, 500}) {
    INFO(keys << " keys");
    Case<TestType> c({2, 4, 2, 3, keys}, 1);
    Lse<Real> lse(2, 4, 3);
    c.run({.causal = Causal::No}, {}, {.lse = lse.view()});
    CHECK(worst_error(c, plain_rule(c), {}, lse.view()) <= 1);
  }
}

TEMPLATE_LIST_TEST_CASE("lse: of one key is its score", "[attention][lse]",
                        attention_test::Scalars) {
  using Real = posenc::Compute<TestType>;
  Case<TestType> c({1, 2, 2, 3, 1}, 2);
  Lse<Real> lse(1, 2, 3);
  Mask<Real> scores(1, 2, 3, 1);
  c.run({.causal = Causal::No}, {},
        {.lse = lse.view(), .weights = scores.view(), .returned = ReturnedScores::Masked});
  for (Index h = 0; h < 2; ++h) {
    for (Index i = 0; i < 3; ++i) CHECK(lse.values(0, h, i) == scores.at(0, h, i, 0));
  }
}

TEMPLATE_LIST_TEST_CASE("lse: of a row without keys is -inf, or its sink", "[attention][lse]",
                        attention_test::Scalars) {
  using Real = posenc::Compute<TestType>;
  const std::vector<Real> sinks{Real{-3}, Real{0.5}};
  for (const Index keys : {0, 3, 200}) {
    Case<TestType> c({1, 2, 2, 2, keys}, 3);
    Lse<Real> lse(1, 2, 2);
    const std::vector<Index> lengths{0};
    c.run({.causal = Causal::No, .key_lengths = lengths}, {}, {.lse = lse.view()});
    for (Index h = 0; h < 2; ++h) CHECK(static_cast<double>(lse.values(0, h, 1)) == -infinity);
    c.run({.causal = Causal::No, .key_lengths = lengths, .sinks = sinks}, {}, {.lse = lse.view()});
    for (Index h = 0; h < 2; ++h) {
      CHECK(lse.values(0, h, 1) == sinks[static_cast<std::size_t>(h)]);
      for (Index d = 0; d < c.shape.value_dim; ++d) {
        CHECK(support::to_double(c.out.view().row(0, 1, h)[d]) == 0);
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("sinks: take their part of the sum", "[attention][lse]",
                        attention_test::Scalars) {
  using Real = posenc::Compute<TestType>;
  // Sinks below, among and above the scores, and so far off that they have no weight or all of it.
  for (const double size : {-3.0, 0.0, 2.0, 20.0, -1e4, 1e4}) {
    for (const Index keys : {1, 40, 128, 300}) {
      INFO("sinks of about " << size << ", " << keys << " keys");
      Case<TestType> c({2, 4, 2, 3, keys}, 4);
      Lse<Real> lse(2, 4, 3);
      std::vector<Real> sinks;
      for (const double part : {1.0, 1.01, 0.99, 0.5}) {
        sinks.push_back(static_cast<Real>(size * part));
      }
      c.run({.causal = Causal::No, .sinks = sinks}, {}, {.lse = lse.view()});
      CHECK(worst_error(c, with_sinks(c, sinks), {}, lse.view()) <= 1);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("sinks: 0 is softmax with one added to its sum", "[attention][lse]",
                        attention_test::Scalars) {
  using Real = posenc::Compute<TestType>;
  Case<TestType> c({1, 1, 1, 1, 1}, 5);
  Mask<Real> weights(1, 1, 1, 1);
  const std::vector<Real> sinks{Real{0}};
  // The probability of the key is exp(0) / (1 + exp(0)).
  c.run({.scale = 0, .causal = Causal::No, .sinks = sinks}, {}, {.weights = weights.view()});
  CHECK(static_cast<double>(weights.at(0, 0, 0, 0)) == 0.5);
}

TEMPLATE_LIST_TEST_CASE("weights: are exp(score - lse), and with the sink sum to 1",
                        "[attention][lse]", attention_test::Scalars) {
  using Real = posenc::Compute<TestType>;
  constexpr Index keys = 300;
  Case<TestType> c({1, 2, 1, 5, keys}, 6);
  Mask<Real> scores(1, 2, 5, keys), weights(1, 2, 5, keys);
  Lse<Real> lse(1, 2, 5);
  for (const std::vector<Real>& sinks : {std::vector<Real>{}, {Real{1.5}, Real{-2}}}) {
    const posenc::AttentionOptions<TestType> options{
        .causal = Causal::BottomRight, .window = posenc::sliding_window(200), .sinks = sinks};
    c.run(options, {},
          {.lse = lse.view(), .weights = scores.view(), .returned = ReturnedScores::Masked});
    c.run(options, {}, {.lse = lse.view(), .weights = weights.view()});
    // Scores are below 8 in magnitude: allows some roundings of a score, and of the sum.
    const double allowed = support::rounding<Real>(4 * 8 + keys + 30);
    for (Index h = 0; h < 2; ++h) {
      for (Index i = 0; i < 5; ++i) {
        const auto whole = static_cast<double>(lse.values(0, h, i));
        double sum =
            sinks.empty()
                ? 0
                : std::exp(static_cast<double>(sinks[static_cast<std::size_t>(h)]) - whole);
        double worst = 0;
        for (Index j = 0; j < keys; ++j) {
          const double score = static_cast<double>(scores.at(0, h, i, j)) - whole;
          const auto weight = static_cast<double>(weights.at(0, h, i, j));
          sum += weight;
          worst = std::max(worst, std::abs(weight - std::exp(score)));
        }
        CHECK(worst <= allowed);
        CHECK(std::abs(sum - 1) <= allowed);
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("lse: goes where its view says", "[attention][lse]",
                        attention_test::Scalars) {
  using Real = posenc::Compute<TestType>;
  Case<TestType> c({2, 3, 1, 4, 5}, 7);
  Lse<Real> rows(2, 3, 4);
  c.run({.causal = Causal::No}, {}, {.lse = rows.view()});
  // Memory order [query, head, batch], with every second number unused.
  std::vector<Real> apart(2 * 2 * 3 * 4, Real{7});
  c.run({.causal = Causal::No}, {}, {.lse = {apart.data(), 2, 3, 4, 2, 4, 12}});
  for (std::size_t n = 0; n < apart.size(); ++n) {
    const auto m = static_cast<Index>(n / 2);
    CHECK(apart[n] == (n % 2 == 1 ? Real{7} : rows.values(m % 2, m / 2 % 3, m / 6)));
  }
}

}  // namespace attention_lse_test
