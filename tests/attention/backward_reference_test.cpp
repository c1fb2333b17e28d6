// SPDX-License-Identifier: MIT
// Compares the reference of attention's backward with central differences of the reference of
// attention.
#include "reference/attention_backward.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace backward_reference_test {

using reference::AttentionRule;
using reference::Matrix;

namespace {

constexpr std::int64_t queries = 4, keys = 5, dim = 3, value_dim = 2;
constexpr double step = 1e-4;

/// Call with every input that has a gradient.
struct Call {
  Matrix q{queries, dim}, k{keys, dim}, v{keys, value_dim}, grad{queries, value_dim};
  Matrix bias{queries, keys}, added{queries, keys}, kept{queries, keys};
  double sink = 0.3;
  AttentionRule rule;

  explicit Call(std::uint64_t seed) {
    support::Random random(seed);
    for (Matrix* x : {&q, &k, &v, &grad, &bias, &added}) random.fill_normal(x->values);
    for (double& factor : kept.values) factor = random.integer(0, 2) == 0 ? 0 : 1.5;
    rule.scale = 0.7;
    rule.bias = [this](auto i, auto j) { return bias(i, j); };
    rule.added = [this](auto i, auto j) { return added(i, j); };
    rule.dropout = [this](auto i, auto j) { return kept(i, j); };
    // Query 2 sees no key; the others see some of the keys.
    rule.allowed = [](auto i, auto j) { return i != 2 && (i + j) % 4 != 0; };
    rule.sink = sink;
  }
  Call(const Call&) = delete;  // the rule refers to members
  Call& operator=(const Call&) = delete;

  double loss() const {
    AttentionRule now = rule;
    if (now.sink) now.sink = sink;
    const auto output = reference::attention(q, k, v, now).output;
    double sum = 0;
    for (std::size_t n = 0; n < output.values.size(); ++n) {
      sum += output.values[n] * grad.values[n];
    }
    return sum;
  }

  double difference(double& x) const {
    const double before = x;
    x = before + step;
    const double above = loss();
    x = before - step;
    const double below = loss();
    x = before;
    return (above - below) / (2 * step);
  }
};

/// Returns the largest difference between any gradient and a central difference.
double worst(Call& call) {
  const auto [g, magnitudes] =
      reference::attention_backward(call.q, call.k, call.v, call.grad, call.rule);
  double worst = 0;
  const auto compare = [&](Matrix& x, const Matrix& got, const Matrix& magnitude) {
    for (std::size_t n = 0; n < x.values.size(); ++n) {
      worst = std::max(worst, support::abs_difference(got.values[n], call.difference(x.values[n])));
      CHECK(std::abs(got.values[n]) <= magnitude.values[n] * (1 + 1e-12));
    }
  };
  compare(call.q, g.q, magnitudes.q);
  compare(call.k, g.k, magnitudes.k);
  compare(call.v, g.v, magnitudes.v);
  compare(call.bias, g.bias, magnitudes.bias);
  compare(call.added, g.added, magnitudes.added);
  return std::max(worst,
                  support::abs_difference(g.sink, call.rule.sink ? call.difference(call.sink) : 0));
}

}  // namespace

TEST_CASE("reference of attention_backward: equals central differences", "[attention][backward]") {
  using reference::SoftcapOrder;
  using reference::TemperatureOf;
  for (const double cap : {0.0, 1.5}) {
    for (const auto order : {SoftcapOrder::BeforeBias, SoftcapOrder::AfterBias}) {
      for (const auto temperature_of : {TemperatureOf::ScaledScores, TemperatureOf::BiasedScores,
                                        TemperatureOf::CappedScores}) {
        CAPTURE(cap, static_cast<int>(order), static_cast<int>(temperature_of));
        Call call(1);
        call.rule.softcap = cap;
        call.rule.softcap_order = order;
        call.rule.temperature = [](auto i) { return 0.5 + 0.4 * static_cast<double>(i); };
        call.rule.temperature_of = temperature_of;
        CHECK(worst(call) < 1e-7);
      }
    }
  }
  Call without_sink(2);
  without_sink.rule.sink.reset();
  CHECK(worst(without_sink) < 1e-7);
  Call plain(3);
  plain.rule.allowed = {};
  plain.rule.dropout = {};
  plain.rule.sink.reset();
  CHECK(worst(plain) < 1e-7);
}

TEST_CASE("reference of attention_backward: does not read hidden keys", "[attention][backward]") {
  Call call(4);
  const auto clean = reference::attention_backward(call.q, call.k, call.v, call.grad, call.rule);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  call.q.set_row(2, {nan, nan, nan});  // query 2 sees no key
  call.grad.set_row(2, {nan, nan});
  call.rule.allowed = [](auto i, auto j) { return i != 2 && j != 1; };
  const auto without = reference::attention_backward(call.q, call.k, call.v, call.grad, call.rule);
  call.k.set_row(1, {nan, nan, nan});
  call.v.set_row(1, {nan, nan});
  const auto with = reference::attention_backward(call.q, call.k, call.v, call.grad, call.rule);
  CHECK(with.gradients.q.values == without.gradients.q.values);
  CHECK(with.gradients.k.values == without.gradients.k.values);
  CHECK(with.gradients.v.values == without.gradients.v.values);
  CHECK(with.gradients.k.row(1) == std::vector<double>(dim));
  CHECK(with.gradients.q.row(2) == std::vector<double>(dim));
  CHECK(clean.gradients.q.row(2) == std::vector<double>(dim));
}

}  // namespace backward_reference_test
