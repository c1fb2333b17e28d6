// SPDX-License-Identifier: MIT
// Tests dropout of probabilities: a pure function of its arguments, unbiased, applied after the
// softmax.
#include "attention_case.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/dropout.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

namespace dropout_test {

using attention_test::Case;
using attention_test::Mask;
using attention_test::plain_rule;
using posenc::Causal;
using posenc::Dropout;
using posenc::dropout_factor;
using posenc::Index;
using posenc::Positions;

namespace {

/// Returns the factors at n points along one of the four coordinates, or along the seed.
std::vector<double> factors(double probability, int coordinate, Index n) {
  std::vector<double> values;
  for (Index i = 0; i < n; ++i) {
    const auto at = [&](int axis) { return axis == coordinate ? i : 3; };
    values.push_back(dropout_factor({probability, static_cast<std::uint64_t>(at(4))}, at(0), at(1),
                                    static_cast<double>(at(2)), static_cast<double>(at(3))));
  }
  return values;
}

}  // namespace

TEST_CASE("dropout: keeps 1 - p of any neighbours and preserves the mean", "[dropout]") {
  constexpr Index n = 40000;
  for (const double p : {0.05, 0.1, 0.5, 0.9}) {
    // Tolerance: five standard deviations of a binomial count. The numbers are the same in every
    // run.
    const double deviation = std::sqrt(p * (1 - p) / static_cast<double>(n));
    for (const int coordinate : {0, 1, 2, 3, 4}) {
      INFO("p " << p << ", coordinate " << coordinate);
      double kept = 0, sum = 0, both = 0, last = 0, others = 0;
      for (const double factor : factors(p, coordinate, n)) {
        others += factor != 0 && factor != 1 / (1 - p) ? 1 : 0;
        kept += factor != 0 ? 1 : 0;
        both += factor != 0 && last != 0 ? 1 : 0;
        sum += factor;
        last = factor;
      }
      CHECK(others == 0);
      CHECK(std::abs(kept / n - (1 - p)) <= 5 * deviation);
      CHECK(std::abs(sum / n - 1) <= 5 * deviation / (1 - p));
      // Neighbours are independent: both are kept with probability (1 - p)^2.
      const double pair = (1 - p) * (1 - p);
      CHECK(std::abs(both / n - pair) <= 10 * std::sqrt(pair * (1 - pair) / n));
    }
  }
}

TEST_CASE("dropout: each argument counts, and query and key are not exchanged", "[dropout]") {
  const Dropout half{0.5, 1};
  Index same_swapped = 0, same_head = 0, same_batch = 0, same_seed = 0;
  constexpr Index n = 64;
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) {
      const auto q = static_cast<double>(i), k = static_cast<double>(j + n);
      const double factor = dropout_factor(half, 0, 0, q, k);
      same_swapped += factor == dropout_factor(half, 0, 0, k, q) ? 1 : 0;
      same_head += factor == dropout_factor(half, 0, 1, q, k) ? 1 : 0;
      same_batch += factor == dropout_factor(half, 1, 0, q, k) ? 1 : 0;
      same_seed += factor == dropout_factor({0.5, 2}, 0, 0, q, k) ? 1 : 0;
    }
  }
  // Independent coins agree half of the time: within five standard deviations of n * n throws.
  for (const Index same : {same_swapped, same_head, same_batch, same_seed}) {
    CHECK(std::abs(same - n * n / 2) <= 5 * n / 2);
  }
}

TEST_CASE("dropout: rejects impossible probabilities", "[dropout]") {
  for (const double probability : {-0.5, 1.0, 1e300, std::nan("")}) {
    CHECK(support::message_of<posenc::ConfigError>([&] {
            (void)dropout_factor({probability, 1}, 0, 0, 1, 2);
          }).starts_with("posenc::dropout_factor: the dropout probability must lie in [0, 1)"));
  }
}

TEST_CASE("dropout: the hash is the documented one", "[dropout]") {
  // Computed with Python's integers.
  STATIC_REQUIRE(posenc::detail::dropout_bits(0, 0, 0, 0) == 0);
  CHECK(posenc::detail::dropout_bits(1, 2, 3, 4) == 0xc1c482b8u);
  CHECK(posenc::detail::dropout_bits(0xdeadbeefu, 0x12345678u, 0x9abcdef0u, 0x0badf00du) ==
        0xd3b1e396u);
  CHECK(posenc::detail::dropout_threshold(0) == 0);
  CHECK(posenc::detail::dropout_threshold(0.25) == 0x40000000u);
  CHECK(posenc::detail::dropout_threshold(1 - 0x1p-53) == 0xffffffffu);
}

TEST_CASE("dropout: is a pure function", "[dropout]") {
  const Dropout dropout{0.3, 42};
  const double first = dropout_factor(dropout, 1, 2, 3, 4);
  for (int again = 0; again < 3; ++again) CHECK(dropout_factor(dropout, 1, 2, 3, 4) == first);
  CHECK(dropout_factor({0, 42}, 1, 2, 3, 4) == 1);
  for (Index i = 0; i < 20; ++i) {
    const auto p = static_cast<double>(i);
    CHECK(dropout_factor(dropout, 0, 0, p, -0.0) == dropout_factor(dropout, 0, 0, p, 0.0));
  }
}

TEMPLATE_LIST_TEST_CASE("dropout: attention drops probabilities by dropout_factor",
                        "[dropout][attention]", attention_test::Scalars) {
  using T = TestType;
  using Real = posenc::Compute<T>;
  Case<T> c({2, 4, 2, 5, 7}, 1);
  Mask<Real> weights(2, 4, 5, 7);
  const Dropout dropout{0.4, 99};
  const auto queries = Positions::ids({5, 9, 1, 2, 70}), keys = Positions::range(1, 7);
  c.run(
      {.causal = Causal::No, .dropout = dropout, .query_positions = queries, .key_positions = keys},
      {}, {.weights = weights.view()});
  double worst_weight = 0, worst_output = 0;
  Index dropped = 0;
  for (Index b = 0; b < 2; ++b) {
    for (Index h = 0; h < 4; ++h) {
      const auto want = attention_test::answer(c, plain_rule(c), b, h);
      const auto v = attention_test::matrix_of(c.v.view(), b, h / 2);
      // Dropout adds two roundings: the factor and its product.
      const double relative =
          attention_test::probability_error<T>(
              attention_test::largest_score(c, plain_rule(c)(b, h), b, h), 2, 7) +
          support::rounding<Real>(2);
      const double allowed = attention_test::output_error<T>(
          support::max_abs(v.values) / (1 - dropout.probability), relative, 7);
      for (Index i = 0; i < 5; ++i) {
        std::vector<double> output(8, 0.0);
        for (Index j = 0; j < 7; ++j) {
          const double factor = dropout_factor(dropout, b, h, queries.at(b, i), keys.at(b, j));
          const double weight = factor * want.weights(i, j);
          dropped += factor == 0 ? 1 : 0;
          const double error = std::abs(static_cast<double>(weights.at(b, h, i, j)) - weight);
          if (error != 0) worst_weight = support::worse(worst_weight, error / (relative * weight));
          for (Index d = 0; d < 8; ++d) output[static_cast<std::size_t>(d)] += weight * v(j, d);
        }
        worst_output = support::worse(
            worst_output,
            support::max_abs_difference(support::row_of(c.out.view(), b, i, h), output) / allowed);
      }
    }
  }
  CHECK(worst_weight <= 1);
  CHECK(worst_output <= 1);
  CHECK(dropped > 0);
}

TEST_CASE("dropout: another seed drops others", "[dropout][attention]") {
  Case<float> c({1, 2, 2, 6, 6}, 2);
  c.run({.causal = Causal::No, .dropout = {0.5, 1}});
  auto first = c.out;
  c.run({.causal = Causal::No, .dropout = {0.5, 1}});
  CHECK(support::same_bits(first.view(), c.out.view()));
  c.run({.causal = Causal::No, .dropout = {0.5, 2}});
  CHECK_FALSE(support::same_bits(first.view(), c.out.view()));
  c.run({.causal = Causal::No, .dropout = {0, 1}});
  auto none = c.out;
  c.run();
  CHECK(support::same_bits(none.view(), c.out.view()));
}

TEST_CASE("dropout: the mean over seeds is attention without dropout", "[dropout][attention]") {
  Case<double> c({1, 1, 1, 2, 5}, 3);
  constexpr Index seeds = 4000;
  std::vector<double> sum(16, 0.0);
  for (Index seed = 0; seed < seeds; ++seed) {
    c.run({.causal = Causal::No,
           .dropout = {0.5, static_cast<std::uint64_t>(seed)},
           .query_positions = Positions::range(0, 2)});
    std::size_t at = 0;
    c.out.for_each([&](double& value) { sum[at++] += value; });
  }
  const auto answer = attention_test::answer(c, plain_rule(c), 0, 0);
  const auto v = attention_test::matrix_of(c.v.view(), 0, 0);
  std::size_t n = 0;
  for (Index i = 0; i < 2; ++i) {
    for (Index d = 0; d < 8; ++d) {
      // Factors 0 and 2 have variance 1; tolerance: five standard deviations of the mean.
      double variance = 0;
      for (Index j = 0; j < 5; ++j) variance += std::pow(answer.weights(i, j) * v(j, d), 2);
      CHECK(std::abs(sum[n++] / seeds - answer.output(i, d)) <= 5 * std::sqrt(variance / seeds));
    }
  }
}

TEST_CASE("dropout: needs positions where nothing implies them", "[dropout][attention][errors]") {
  Case<float> c({1, 1, 1, 2, 5}, 4);
  CHECK(support::message_of<posenc::ConfigError>([&] {
          c.run({.causal = Causal::No, .dropout = {0.5, 1}});
        }) ==
        "posenc::attention: dropout requires query_positions or query_starts for 2 queries and 5 "
        "keys without a causal alignment");
  CHECK_NOTHROW(c.run({.causal = posenc::Causal::BottomRight, .dropout = {0.5, 1}}));
}

}  // namespace dropout_test
