// SPDX-License-Identifier: MIT
// Logarithms that biases are computed from.
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include "support/worse.hpp"
#include <posenc/bias/detail/logarithm.hpp>

#include <cmath>
#include <vector>

namespace logarithm_test {

using posenc::detail::log1p_branchless;
using posenc::detail::logarithm;

namespace {

/// Returns |got - want| in ulp of want.
double ulps(double got, long double want) {
  const double nearest = std::abs(static_cast<double>(want));
  const double unit = std::nextafter(nearest, 2 * nearest + 1) - nearest;
  return static_cast<double>(std::abs(static_cast<long double>(got) - want) /
                             static_cast<long double>(unit));
}

/// Returns arguments of all magnitudes, and many close to 1.
std::vector<double> arguments() {
  support::Random random(5);
  std::vector<double> all{0x1p-1022, 0x1.fffffffffffffp1023, 0.5, 2, std::sqrt(0.5), std::sqrt(2)};
  for (int i = 0; i < 40000; ++i) {
    all.push_back(std::exp2(random.uniform(-1000, 1000)));
    all.push_back(std::exp2(random.uniform(-60, 60)));
    all.push_back(std::exp2(random.uniform(-1, 1)));
  }
  return all;
}

}  // namespace

TEST_CASE("logarithm: within 1 ulp", "[logarithm]") {
  CHECK(logarithm(1) == 0);
  double worst = 0;
  for (const double x : arguments()) {
    worst = support::worse(worst, ulps(logarithm(x), std::log(static_cast<long double>(x))));
  }
  CHECK(worst <= 1);
}

TEST_CASE("log1p_branchless: within 1 ulp, also of small numbers", "[logarithm]") {
  CHECK(log1p_branchless(0) == 0);
  double worst = 0;
  for (const double y : arguments()) {
    worst =
        support::worse(worst, ulps(log1p_branchless(y), std::log1p(static_cast<long double>(y))));
  }
  CHECK(worst <= 1);
}

TEST_CASE("logarithm: as a sum of two doubles it has the square of a small number", "[logarithm]") {
  // ln(1 + y) = y - y^2 / 2 + ..., of which y alone is the nearest double.
  for (const double y : {0x1p-54, 0x1p-60}) {
    const auto sum = posenc::detail::log1p_double_double(y);
    CHECK(sum.hi == y);
    CHECK(sum.lo == Approx(-0.5 * y * y).epsilon(1e-3));
  }
}

TEST_CASE("logarithm: of zero lies below all others", "[logarithm]") {
  CHECK(logarithm(0) < -709);
  CHECK(logarithm(0x1p-1022) > -709);
}

}  // namespace logarithm_test
