// SPDX-License-Identifier: MIT
// ReLU network of one hidden layer as a piecewise linear function, on every tier.
#include "simd/tiers.hpp"
#include "support/catch.hpp"
#include "support/guarded.hpp"
#include "support/heads.hpp"
#include "support/worse.hpp"
#include <posenc/bias/detail/piecewise_linear.hpp>

#include <cmath>
#include <vector>

namespace piecewise_linear_test {

using posenc::Index;
using Values = std::vector<double>;

namespace {

struct Network {
  Values hidden_weight, hidden_bias, output_weight;
  double output_bias;

  double operator()(double x) const {
    double sum = output_bias;
    for (std::size_t k = 0; k < hidden_weight.size(); ++k) {
      sum += output_weight[k] * std::max(hidden_weight[k] * x + hidden_bias[k], 0.0);
    }
    return sum;
  }
  double magnitude(double x) const {
    double sum = std::abs(output_bias);
    for (std::size_t k = 0; k < hidden_weight.size(); ++k) {
      sum +=
          std::abs(output_weight[k]) * (std::abs(hidden_weight[k]) * x + std::abs(hidden_bias[k]));
    }
    return sum;
  }
};

/// Units that begin, end, are always active, never active, begin or end at 0, and have no weight.
const Network every_kind{.hidden_weight = {2, -1, 0.5, -3, 1, -1, 0, 0, 4, -0.25},
                         .hidden_bias = {-1, 0.75, 1, -2, 0, 0, 1, -1, -1, 2},
                         .output_weight = {1, -2, 0.5, 9, 0.75, 9, 3, 9, -1.5, 0.125},
                         .output_bias = -0.3};

}  // namespace

TEMPLATE_LIST_TEST_CASE("PiecewiseLinear: equals the network on every tier",
                        "[simd][piecewise_linear]", tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  INFO(Tier::name);
  constexpr Index width = TestType::P::width, longest = 9 * width + 1;
  const posenc::detail::PiecewiseLinear<T> f(every_kind.hidden_weight, every_kind.hidden_bias,
                                             every_kind.output_weight, every_kind.output_bias);
  support::Random random(3);
  support::Guarded<T> scores(longest);
  support::Guarded<double> values(longest + width);
  for (Index count = 0; count <= longest; ++count) {
    // Not the first breakpoints of the list are reached.
    const double greatest = count % 2 == 0 ? 4 : 0.6;
    // x does not always begin below all breakpoints, of which one is at 0.5.
    const double least = count % 4 == 0 ? 1.2 : 0;
    const Index padded = (count + width - 1) / width * width;
    double* value = values.last(padded);
    T* score = scores.last(count);
    std::vector<T> before;
    for (Index i = 0; i < padded; ++i) value[i] = random.uniform(least, greatest);
    if (count > 0) value[0] = least;
    for (Index i = 0; i < count; ++i) {
      score[i] = static_cast<T>(random.normal());
      before.push_back(score[i]);
    }
    const posenc::detail::DoubleDouble factor(0.5);
    std::vector<T> again = before;
    f.template add<Tier>(value, factor, {least, greatest}, score, count);
    // Breakpoints that no x reaches, or that all x pass, may be visited or not.
    f.template add<Tier>(value, factor, {0, 1000}, again.data(), count);
    CHECK(support::same_bits(score, again.data(), count));
    std::vector<T> written(static_cast<std::size_t>(count) + 1, T{42});
    f.template write<Tier>(value, factor, {least, greatest}, written.data(), count);
    CHECK(written.back() == 42);
    for (std::size_t i = 0; i < before.size(); ++i) written[i] = before[i] + written[i];
    CHECK(support::same_bits(score, written.data(), count));
    double worst = 0;
    for (Index i = 0; i < count; ++i) {
      const double x = 0.5 * value[i];
      const auto old = static_cast<double>(before[static_cast<std::size_t>(i)]);
      const double want = old + every_kind(x);
      // 14 ulp are 28 roundings.
      const double tolerance = support::rounding<T>(28 * every_kind.magnitude(x) + std::abs(want));
      worst = support::worse(worst, std::abs(static_cast<double>(score[i]) - want) / tolerance);
    }
    CAPTURE(count);
    CHECK(worst <= 1);
  }
}

TEST_CASE("PiecewiseLinear: without breakpoints is a line", "[piecewise_linear]") {
  const Values one{1}, two{2}, three{3};
  const posenc::detail::PiecewiseLinear<double> f(one, two, three, 0.5);
  const std::vector<double> values(16, 4.0);
  std::vector<double> scores(3, 100);
  f.add(values.data(), 0.25, {4, 4}, scores.data(), 3);
  CHECK(scores == std::vector<double>(3, 100 + 0.5 + 3 * (1 * 1 + 2)));
}

}  // namespace piecewise_linear_test
