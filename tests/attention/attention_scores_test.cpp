// SPDX-License-Identifier: MIT
// Tests the stages between q k and the values: soft cap, bias, returned scores, extreme values.
#include "attention_case.hpp"
#include "reference/alibi.hpp"
#include "support/catch.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/bias/alibi.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace attention_scores_test {

using attention_test::Case;
using attention_test::infinity;
using attention_test::Mask;
using attention_test::plain_rule;
using attention_test::RuleOf;
using attention_test::worst_error;
using posenc::Alibi;
using posenc::AlibiForm;
using posenc::Causal;
using posenc::Index;
using posenc::ReturnedScores;
using posenc::SoftcapOrder;

namespace {

/// Returns the rule of ALiBi with the heads of the case, at positions equal to the indices.
template <class T>
RuleOf alibi_rule(const Case<T>& c, reference::AlibiForm form) {
  return [plain = plain_rule(c), slopes = reference::alibi_slopes(c.shape.heads), form](Index b,
                                                                                        Index h) {
    auto rule = plain(b, h);
    rule.bias = [slope = slopes[static_cast<std::size_t>(h)], form](Index i, Index j) {
      return reference::alibi_bias(slope, static_cast<double>(i), static_cast<double>(j), form);
    };
    return rule;
  };
}

/// Returns the largest error of returned scores, compared with of(b, h, i, j), in half ulp of float
/// (or double) of `size`.
template <class Real, class Of>
double worst_score(const Mask<Real>& scores, double size, const Of& of) {
  double worst = 0;
  const auto& extents = scores.values.dimensions();
  for (Index b = 0; b < extents[0]; ++b) {
    for (Index h = 0; h < extents[1]; ++h) {
      for (Index i = 0; i < extents[2]; ++i) {
        for (Index j = 0; j < extents[3]; ++j) {
          const double error =
              support::abs_difference(static_cast<double>(scores.at(b, h, i, j)), of(b, h, i, j));
          worst = support::worse(worst, error / support::rounding<Real>(size));
        }
      }
    }
  }
  return worst;
}

/// Computes the reference's matrix for each batch row and head, and returns a function of these.
template <class T>
auto by_reference(Case<T>& c, const RuleOf& rule_of,
                  reference::Matrix reference::AttentionResult::*part) {
  std::vector<reference::Matrix> matrices;
  for (Index b = 0; b < c.shape.batch; ++b) {
    for (Index h = 0; h < c.shape.heads; ++h) {
      matrices.push_back(answer(c, rule_of, b, h).*part);
    }
  }
  return [matrices, heads = c.shape.heads](Index b, Index h, Index i, Index j) {
    return matrices[static_cast<std::size_t>(b * heads + h)](i, j);
  };
}

template <class T>
auto scores_by(Case<T>& c, const RuleOf& rule_of) {
  return by_reference(c, rule_of, &reference::AttentionResult::scores);
}

template <class T>
auto weights_by(Case<T>& c, const RuleOf& rule_of) {
  return by_reference(c, rule_of, &reference::AttentionResult::weights);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("softcap: applies before or after the bias as named", "[attention][scores]",
                        attention_test::Scalars) {
  using T = TestType;
  Case<T> c({2, 3, 1, 5, 5}, 1);
  const Alibi alibi({.heads = 3, .form = AlibiForm::Symmetric});
  for (const double cap : {0.5, 2.0, 50.0}) {
    INFO("softcap " << cap);
    const auto capped = [&](reference::SoftcapOrder order) {
      return [=, plain = alibi_rule(c, reference::AlibiForm::Symmetric)](Index b, Index h) {
        auto rule = plain(b, h);
        rule.softcap = cap;
        rule.softcap_order = order;
        return rule;
      };
    };
    c.run({.causal = Causal::No, .softcap = cap, .softcap_order = SoftcapOrder::BeforeBias}, alibi);
    CHECK(worst_error(c, capped(reference::SoftcapOrder::BeforeBias),
                      {.softcap = true, .bias = true}) <= 1);
    c.run({.causal = Causal::No, .softcap = cap, .softcap_order = SoftcapOrder::AfterBias}, alibi);
    CHECK(worst_error(c, capped(reference::SoftcapOrder::AfterBias),
                      {.softcap = true, .bias = true}) <= 1);
  }
}

TEMPLATE_LIST_TEST_CASE("Alibi: is added to the scaled scores", "[attention][scores]",
                        attention_test::Scalars) {
  Case<TestType> c({2, 6, 2, 7, 7}, 2);
  c.run({.causal = Causal::No}, Alibi({.heads = 6, .form = AlibiForm::Symmetric}));
  CHECK(worst_error(c, alibi_rule(c, reference::AlibiForm::Symmetric), {.bias = true}) <= 1);

  c.run({.causal = Causal::TopLeft}, Alibi({.heads = 6, .form = AlibiForm::Causal}));
  const auto causal = [&](Index b, Index h) {
    auto rule = alibi_rule(c, reference::AlibiForm::Causal)(b, h);
    rule.allowed = [](Index i, Index j) { return j <= i; };
    return rule;
  };
  CHECK(worst_error(c, causal, {.bias = true}) <= 1);
}

TEMPLATE_LIST_TEST_CASE("weights: scores are returned at the stage asked for",
                        "[attention][scores]", attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  const Index keys = GENERATE(6, 300);
  Case<T> c({2, 2, 1, 4, keys}, 3);
  Mask<Real> weights(2, 2, 4, keys), additive(1, 1, 1, keys);
  support::Random random(4);
  additive.fill([&] { return static_cast<Real>(random.normal()); });
  const Alibi alibi({.heads = 2, .form = AlibiForm::Causal});
  const double cap = 2.5;
  const posenc::AttentionOptions<T> options{.causal = Causal::BottomRight,
                                            .additive = additive.view(),
                                            .softcap = cap,
                                            .softcap_order = SoftcapOrder::BeforeBias};
  const RuleOf rule_of = [&](Index b, Index h) {
    auto rule = plain_rule(c)(b, h);
    rule.softcap = cap;
    rule.allowed = [keys](Index i, Index j) { return j <= i + keys - 4; };
    const double slope = reference::alibi_slopes(2)[static_cast<std::size_t>(h)];
    rule.bias = [&additive, slope, keys](Index i, Index j) {
      return static_cast<double>(additive.at(0, 0, 0, j)) +
             reference::alibi_bias(slope, static_cast<double>(i + keys - 4), static_cast<double>(j),
                                   reference::AlibiForm::Causal);
    };
    return rule;
  };
  const auto scaled_rule = [&](bool with_cap) {
    auto rule = plain_rule(c)(0, 0);
    rule.softcap = with_cap ? cap : 0;
    return rule;
  };
  const auto scores_of = [&](const reference::AttentionRule& rule) {
    return scores_by(c, [rule](Index, Index) { return rule; });
  };
  const double largest =
      std::max({largest_score(c, rule_of(0, 0), 0, 0), largest_score(c, rule_of(0, 1), 0, 1),
                largest_score(c, rule_of(1, 0), 1, 0), largest_score(c, rule_of(1, 1), 1, 1)});

  // Checks every entry of the first two stages, also of keys that are masked later: 2 and 9
  // roundings, twice as many if the reference is in double as well.
  const double reference_too = std::is_same_v<T, double> ? 2 : 1;
  double all = 0;
  for (Index b = 0; b < 2; ++b) {
    for (Index h = 0; h < 2; ++h) all = std::max(all, largest_score(c, scaled_rule(false), b, h));
  }
  c.run(options, alibi, {.weights = weights.view(), .returned = ReturnedScores::Scaled});
  CHECK(worst_score(weights, all, scores_of(scaled_rule(false))) <= 2 * reference_too);
  c.run(options, alibi, {.weights = weights.view(), .returned = ReturnedScores::Capped});
  CHECK(worst_score(weights, all, scores_of(scaled_rule(true))) <= 9 * reference_too);

  c.run(options, alibi, {.weights = weights.view(), .returned = ReturnedScores::Masked});
  CHECK(worst_score(weights, largest, scores_by(c, rule_of)) <=
        attention_test::Roundings{true, true, true}.count() * reference_too);

  c.run(options, alibi, {.weights = weights.view(), .returned = ReturnedScores::Probabilities});
  const double relative = attention_test::probability_error<T>(
      largest, attention_test::Roundings{true, true, true}.count(), keys);
  CHECK(worst_score(weights, 1, weights_by(c, rule_of)) <= relative / support::rounding<Real>(1));
  CHECK(worst_error(c, rule_of, {.softcap = true, .bias = true, .additive = true}) <= 1);
}

TEMPLATE_LIST_TEST_CASE("additive mask: comes after bias and soft cap, wherever those stand",
                        "[attention][scores]", attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  Case<T> c({1, 2, 2, 3, 3}, 5);
  const Alibi alibi({.heads = 2, .form = AlibiForm::Symmetric});
  Mask<Real> additive(1, 1, 3, 3), without(1, 2, 3, 3), with(1, 2, 3, 3);
  support::Random random(6);
  additive.fill([&] { return static_cast<Real>(random.normal()); });
  for (const auto order : {SoftcapOrder::BeforeBias, SoftcapOrder::AfterBias}) {
    posenc::AttentionOptions<T> options{
        .causal = Causal::No, .softcap = 1.5, .softcap_order = order};
    c.run(options, alibi, {.weights = without.view(), .returned = ReturnedScores::Masked});
    options.additive = additive.view();
    c.run(options, alibi, {.weights = with.view(), .returned = ReturnedScores::Masked});
    CHECK(worst_score(with, 1, [&](Index b, Index h, Index i, Index j) {
            return static_cast<double>(without.at(b, h, i, j) + additive.at(b, h, i, j));
          }) == 0);
  }
}

TEMPLATE_LIST_TEST_CASE("weights: returning scores does not change the output",
                        "[attention][scores]", attention_test::Scalars) {
  using Real = posenc::Compute<TestType>;
  Case<TestType> c({2, 2, 1, 4, 6}, 5);
  c.run({.causal = Causal::TopLeft});
  auto want = c.out;
  Mask<Real> weights(2, 2, 4, 6);
  for (const auto stage : {ReturnedScores::Probabilities, ReturnedScores::Scaled,
                           ReturnedScores::Capped, ReturnedScores::Masked}) {
    c.run({.causal = Causal::TopLeft}, {}, {.weights = weights.view(), .returned = stage});
    CHECK(support::same_bits(c.out.view(), want.view()));
  }
}

TEMPLATE_LIST_TEST_CASE("weights: probabilities of a row sum to 1", "[attention][scores]",
                        attention_test::Scalars) {
  using Real = posenc::Compute<TestType>;
  for (const Index keys : {1, 7, 400}) {
    Case<TestType> c({2, 2, 1, 3, keys}, 6);
    Mask<Real> weights(2, 2, 3, keys);
    c.run({.scale = 2, .causal = Causal::No}, {}, {.weights = weights.view()});
    for (Index b = 0; b < 2; ++b) {
      for (Index h = 0; h < 2; ++h) {
        for (Index i = 0; i < 3; ++i) {
          double sum = 0;
          for (Index j = 0; j < keys; ++j) sum += static_cast<double>(weights.at(b, h, i, j));
          // Roundings of the sum of numerators and of the divisions; this sum is in double.
          const double roundings = static_cast<double>(keys) + 1;
          CHECK(std::abs(sum - 1) <= support::rounding<Real>(2 * roundings));
        }
      }
    }
  }
}

TEMPLATE_LIST_TEST_CASE("attention: huge scores give the largest key all the weight",
                        "[attention][scores]", attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  Case<T> c({1, 1, 1, 2, 4, 2, 3}, 7);
  Mask<Real> weights(1, 1, 2, 4);
  c.q.for_each([](T& value) { value = static_cast<T>(128.0F); });
  const std::array<float, 4> keys{-39, 39, 38, 0};  // scores of about -1e4, 1e4, 9.7e3, 0
  for (Index j = 0; j < 4; ++j) {
    for (Index d = 0; d < 2; ++d) {
      c.k.view().row(0, j, 0)[d] = static_cast<T>(keys[static_cast<std::size_t>(j)]);
    }
  }
  c.run({.scale = 1, .causal = Causal::No}, {}, {.weights = weights.view()});
  for (Index i = 0; i < 2; ++i) {
    CHECK(weights.at(0, 0, i, 0) == 0);
    CHECK(weights.at(0, 0, i, 1) == 1);
    CHECK(support::same_bits(c.out.view().row(0, i, 0), c.v.view().row(0, 1, 0), 3));
  }
}

TEMPLATE_LIST_TEST_CASE("attention: equal scores give equal weights, however large",
                        "[attention][scores]", attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  for (const double size : {0.0, 1.0, 100.0, -100.0}) {
    Case<T> c({1, 2, 1, 3, 8, 1, 4}, 8);
    c.q.for_each([](T& value) { value = static_cast<T>(100.0F); });
    c.k.for_each([&](T& value) { value = static_cast<T>(size); });
    Mask<Real> weights(1, 2, 3, 8);
    c.run({.causal = Causal::No}, {}, {.weights = weights.view()});
    INFO("scores of " << 100 * size);
    CHECK(worst_score(weights, 1, [](Index, Index, Index, Index) { return 0.125; }) == 0);
  }
}

TEMPLATE_LIST_TEST_CASE("attention: an infinite score and visible NaN reach their row alone",
                        "[attention][scores]", attention_test::Scalars) {
  using T = TestType;
  Case<T> clean({1, 2, 2, 4, 5}, 9);
  clean.run({.causal = Causal::BottomRight});
  const auto infinite = static_cast<T>(std::numeric_limits<float>::infinity());
  const auto nan = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  for (const T bad : {infinite, nan}) {
    auto c = clean;
    for (Index d = 0; d < 8; ++d) c.q.view().row(0, 2, 1)[d] = bad;
    c.run({.causal = Causal::BottomRight});
    for (Index d = 0; d < 8; ++d) {
      CHECK(std::isnan(support::to_double(c.out.view().row(0, 2, 1)[d])));
      c.out.view().row(0, 2, 1)[d] = clean.out.view().row(0, 2, 1)[d];
    }
    CHECK(support::same_bits(c.out.view(), clean.out.view()));
  }

  // A NaN in one value reaches its own feature of the rows that see its key, and nothing else.
  auto c = clean;
  c.v.view().row(0, 3, 0)[5] = nan;
  c.run({.causal = Causal::BottomRight});
  for (const Index i : {2, 3}) {
    CHECK(std::isnan(support::to_double(c.out.view().row(0, i, 0)[5])));
    c.out.view().row(0, i, 0)[5] = clean.out.view().row(0, i, 0)[5];
  }
  CHECK(support::same_bits(c.out.view(), clean.out.view()));
}

}  // namespace attention_scores_test
