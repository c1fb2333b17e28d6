// SPDX-License-Identifier: MIT
// Tests DoubleDouble at values that are known exactly; double_double_mpfr_test.cpp measures its errors.
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include "support/worse.hpp"
#include <posenc/core/detail/double_double.hpp>

#include <cmath>

namespace double_double_test {

using posenc::detail::DoubleDouble;

namespace {

/// Returns |value / truth - 1|, accurate enough to compare with a bound.
double relative_error(DoubleDouble value, DoubleDouble truth) {
  const DoubleDouble error = value - truth;
  return std::abs(error.hi / truth.hi);
}

}  // namespace

TEST_CASE("DoubleDouble: holds what a double cannot", "[double_double]") {
  const DoubleDouble sum = DoubleDouble(1.0) + 0x1p-80;
  CHECK(sum == DoubleDouble(1.0, 0x1p-80));
  CHECK(sum - 1.0 == DoubleDouble(0x1p-80));
  CHECK(DoubleDouble(0x1.0000001p0) * 0x1.0000001p0 == DoubleDouble(0x1.0000002p0, 0x1p-56));
  CHECK((DoubleDouble(1.0) / 3.0) * 3.0 == DoubleDouble(1.0));
  CHECK(-DoubleDouble(1.0, 0x1p-60) == DoubleDouble(-1.0, -0x1p-60));
}

TEST_CASE("two_sum and two_product: lose nothing", "[double_double]") {
  using posenc::detail::two_product;
  using posenc::detail::two_sum;
  CHECK(two_sum(1.0, 0x1p-100) == DoubleDouble(1.0, 0x1p-100));
  CHECK(two_sum(0x1p-100, 1.0) == DoubleDouble(1.0, 0x1p-100));
  CHECK(two_sum(0x1p53, 1.0) == DoubleDouble(0x1p53, 1.0));
  // (1 + 2^-52)^2 = 1 + 2^-51 + 2^-104
  CHECK(two_product(1 + 0x1p-52, 1 + 0x1p-52) == DoubleDouble(1 + 0x1p-51, 0x1p-104));
  // (2^53 - 1)^2 = 2^106 - 2^54 + 1
  CHECK(two_product(0x1p53 - 1, 0x1p53 - 1) == DoubleDouble(0x1p106 - 0x1p54, 1.0));
}

TEST_CASE("DoubleDouble: compares as a number", "[double_double]") {
  CHECK(DoubleDouble(1.0, -0x1p-60) < DoubleDouble(1.0));
  CHECK(DoubleDouble(1.0) < DoubleDouble(1.0, 0x1p-60));
  CHECK(DoubleDouble(-1.0) < DoubleDouble(0.0));
  CHECK(DoubleDouble(2.0) == 2.0);
}

TEST_CASE("floor of DoubleDouble: by hand", "[double_double]") {
  using posenc::detail::floor;
  CHECK(floor(DoubleDouble(2.75)) == 2.0);
  CHECK(floor(DoubleDouble(-2.25)) == -3.0);
  CHECK(floor(DoubleDouble(3.0)) == 3.0);
  CHECK(floor(DoubleDouble(3.0, 0x1p-60)) == 3.0);
  CHECK(floor(DoubleDouble(3.0, -0x1p-60)) == 2.0);
  CHECK(floor(DoubleDouble(-3.0, -0x1p-60)) == -4.0);
  CHECK(floor(DoubleDouble(0x1p60, 0.5)) == DoubleDouble(0x1p60, 0.0));
  CHECK(floor(DoubleDouble(0x1p60, -0.5)) == DoubleDouble(0x1p60, -1.0));
}

TEST_CASE("exp, log and pow of DoubleDouble: exact where scaling rules rely on it",
          "[double_double]") {
  CHECK(exp(DoubleDouble(0.0)) == DoubleDouble(1.0));
  CHECK(log(DoubleDouble(1.0)) == DoubleDouble(0.0));
  for (const double x : {0.001, 0.5, 1.0, 1.0001, 2.0, 10000.0, 1e9, 0x1p64}) {
    CAPTURE(x);
    CHECK(pow(DoubleDouble(x), 0.0) == DoubleDouble(1.0));
    CHECK(pow(DoubleDouble(1.0), x) == DoubleDouble(1.0));
    CHECK(DoubleDouble(x) / 1.0 == DoubleDouble(x));
    CHECK(DoubleDouble(x) * 1.0 == DoubleDouble(x));
    CHECK(DoubleDouble(x) + 0.0 == DoubleDouble(x));
  }
}

TEST_CASE("exp, log and pow of DoubleDouble: known constants", "[double_double]") {
  // Expected values from mpmath with 60 digits.
  const DoubleDouble e{0x1.5bf0a8b145769p+1, 0x1.4d57ee2b1013ap-53};
  const DoubleDouble ln_10{0x1.26bb1bbb55516p+1, -0x1.f48ad494ea3e9p-53};
  const DoubleDouble root_2{0x1.6a09e667f3bcdp+0, -0x1.bdd3413b26456p-54};
  CHECK(std::log2(relative_error(exp(DoubleDouble(1.0)), e)) <= -97);
  CHECK(std::log2(relative_error(log(DoubleDouble(10.0)), ln_10)) <= -97);
  CHECK(std::log2(relative_error(pow(DoubleDouble(2.0), 0.5), root_2)) <= -97);
  CHECK(std::log2(relative_error(pow(DoubleDouble(10000.0), -0.25), DoubleDouble(1.0) / 10.0)) <=
        -97);
}

TEST_CASE("exp of DoubleDouble: undoes log", "[double_double]") {
  support::Random random(7);
  double largest = 0;
  for (int i = 0; i < 2000; ++i) {
    const DoubleDouble x = std::exp2(random.uniform(-20, 30));
    largest = support::worse(largest, relative_error(exp(log(x)), x));
  }
  CHECK(std::log2(largest) <= -97);
}

}  // namespace double_double_test
