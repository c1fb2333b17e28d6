// SPDX-License-Identifier: MIT
// Compares attention() with a softmax in three steps of equal precision; both are compared with the
// reference.
#include "attention_case.hpp"
#include "random_call.hpp"
#include "support/catch.hpp"
#include "support/sampled.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace attention_accuracy_test {

using attention_test::RandomCall;
using attention_test::Shape;
using posenc::Index;
using reference::Matrix;

namespace {

/// Computes attention in its usual form: all scores, their maximum, exponentials and their sum,
/// quotients, and the weighted sum of values; everything in Real, rounded to T at the end.
template <class T>
Matrix three_steps(const Matrix& q, const Matrix& k, const Matrix& v,
                   const reference::AttentionRule& rule) {
  using Real = posenc::Compute<T>;
  constexpr Real hidden = -std::numeric_limits<Real>::infinity();
  const auto real = [](double x) { return static_cast<Real>(x); };
  Matrix out(q.rows, v.cols);
  std::vector<Real> p(static_cast<std::size_t>(k.rows));
  for (Index i = 0; i < q.rows; ++i) {
    Real largest = rule.sink ? real(*rule.sink) : hidden;
    for (Index j = 0; j < k.rows; ++j) {
      Real& score = p[static_cast<std::size_t>(j)];
      score = hidden;
      if (!rule.allowed(i, j)) continue;
      Real dot = 0;
      for (Index d = 0; d < q.cols; ++d) dot += real(q(i, d)) * real(k(j, d));
      score = real(rule.scale) * dot;
      const Real bias = rule.bias ? real(rule.bias(i, j)) : 0, cap = real(rule.softcap);
      if (rule.softcap_order == reference::SoftcapOrder::AfterBias) score += bias;
      if (cap != 0) score = cap * std::tanh(score / cap);
      if (rule.softcap_order == reference::SoftcapOrder::BeforeBias) score += bias;
      if (rule.added) score += real(rule.added(i, j));
      largest = std::max(largest, score);
    }
    if (largest == hidden) continue;
    Real sum = rule.sink ? std::exp(real(*rule.sink) - largest) : 0;
    for (Real& x : p) sum += x = std::exp(x - largest);
    for (Index d = 0; d < v.cols; ++d) {
      Real mixed = 0;
      for (Index j = 0; j < k.rows; ++j) {
        const Real kept = rule.dropout ? real(rule.dropout(i, j)) : 1;
        mixed += p[static_cast<std::size_t>(j)] / sum * kept * real(v(j, d));
      }
      out(i, d) = support::to_double(static_cast<T>(mixed));
    }
  }
  return out;
}

/// Errors of outputs, in units of one rounding of the largest value.
struct Errors {
  double largest = 0, squares = 0;

  void add(double got, double want, double rounding) {
    const double error = support::abs_difference(got, want) / rounding;
    largest = support::worse(largest, error);
    squares += error * error;
  }
};

struct Comparison {
  Errors ours, theirs;
};

Shape random_shape(support::Random& random) {
  const Index kv_heads = random.integer(1, 2);
  return {1,
          kv_heads * random.integer(1, 2),
          kv_heads,
          random.integer(1, 8),
          random.integer(1, random.integer(0, 1) == 0 ? 40 : 700),
          random.integer(1, 128),
          random.integer(1, 40)};
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("attention: is at most twice as far off as a softmax in three steps",
                        "[attention][accuracy]", attention_test::Scalars) {
  using T = TestType;
  support::Random random(1);
  // The few numbers of one call may be accurate by chance. So errors are collected over calls of a
  // kind: with or without a soft cap, with one tile of keys or several.
  std::array<Comparison, 4> kinds;
  for (std::uint64_t seed = 1; seed <= support::sampled(300); ++seed) {
    const Shape shape = random_shape(random);
    RandomCall<T> call(seed, shape, {.rounding = true});
    auto& c = call.c;
    for (auto* x : {&c.q, &c.k}) {
      x->for_each([&](T& value) { value = static_cast<T>(random.normal()); });
    }
    call.run();
    Comparison& kind = kinds[(call.options.softcap != 0 ? 1u : 0u) +
                             (shape.keys > posenc::detail::tile_keys ? 2u : 0u)];
    for (Index h = 0; h < shape.heads; ++h) {
      const Index kv = h / (shape.heads / shape.kv_heads);
      const auto want = attention_test::answer(c, call.rules(), 0, h).output;
      const auto v = attention_test::matrix_of(c.v.view(), 0, kv);
      const auto plain =
          three_steps<T>(attention_test::matrix_of(c.q.view(), 0, h),
                         attention_test::matrix_of(c.k.view(), 0, kv), v, call.rule(0, h));
      const auto got = attention_test::matrix_of(c.out.view(), 0, h);
      const double rounding = support::rounding<T>(support::max_abs(v.values));
      for (std::size_t n = 0; n < want.values.size(); ++n) {
        kind.ours.add(got.values[n], want.values[n], rounding);
        kind.theirs.add(plain.values[n], want.values[n], rounding);
      }
    }
  }
  for (std::size_t n = 0; n < kinds.size(); ++n) {
    INFO("kind " << n);
    CHECK(kinds[n].ours.squares > 0);
    CHECK(kinds[n].ours.largest <= 2 * kinds[n].theirs.largest);
    CHECK(std::sqrt(kinds[n].ours.squares) <= 1.5 * std::sqrt(kinds[n].theirs.squares));
  }
}

}  // namespace attention_accuracy_test
