// SPDX-License-Identifier: MIT
// Documented error bounds of DoubleDouble, checked against MPFR.
#ifdef POSENC_HAVE_MPFR

#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/mpfr.hpp"
#include "support/random.hpp"
#include "support/worse.hpp"
#include <posenc/core/detail/double_double.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace double_double_mpfr_test {

using posenc::detail::DoubleDouble;
using support::absolute_error;
using support::Mpfr;
using support::relative_error;

namespace {

/// Returns a random value that uses all 106 bits: `high` plus at most half an ulp of it.
DoubleDouble full(support::Random& random, double high) {
  return posenc::detail::quick_two_sum(high, high * 0x1p-54 * random.uniform(-1, 1));
}

/// Returns a random value of either sign with a magnitude between 2^low and 2^high.
DoubleDouble any_sign(support::Random& random, double low, double high) {
  const double magnitude = std::exp2(random.uniform(low, high));
  return full(random, random.uniform() < 0.5 ? -magnitude : magnitude);
}

template <class Draw, class Function>
double largest_error(const Draw& draw, const Function& function) {
  double largest = 0;
  for (int i = 0; i < 8000; ++i) {
    const DoubleDouble x = draw();
    largest = support::worse(largest, relative_error(function(x), function(Mpfr(x))));
  }
  return largest;
}

}  // namespace

TEST_CASE("DoubleDouble: + - * / are within 2^-103", "[double_double][mpfr]") {
  support::Random random(11);
  double sum = 0, difference = 0, product = 0, quotient = 0;
  for (int i = 0; i < 20000; ++i) {
    const double reach = i % 3 == 0 ? 1 : 60;
    const DoubleDouble a = any_sign(random, -reach, reach);
    const DoubleDouble b = i % 3 == 1 ? full(random, a.hi * (1 + std::exp2(random.uniform(-50, 0))))
                                      : any_sign(random, -reach, reach);
    const Mpfr x = a, y = b;
    sum = support::worse(sum, relative_error(a + b, x + y));
    difference = support::worse(difference, relative_error(a - b, x - y));
    product = support::worse(product, relative_error(a * b, x * y));
    quotient = support::worse(quotient, relative_error(a / b, x / y));
  }
  CHECK(std::log2(sum) <= -103);
  CHECK(std::log2(difference) <= -103);
  CHECK(std::log2(product) <= -103);
  CHECK(std::log2(quotient) <= -103);
}

TEST_CASE("two_sum and two_product: are exact", "[double_double][mpfr]") {
  support::Random random(12);
  for (int i = 0; i < 2000; ++i) {
    const double a = any_sign(random, -50, 50).hi, b = any_sign(random, -50, 50).hi;
    REQUIRE(absolute_error(posenc::detail::two_sum(a, b), Mpfr(a) + Mpfr(b)) == 0);
    REQUIRE(absolute_error(posenc::detail::two_product(a, b), Mpfr(a) * Mpfr(b)) == 0);
  }
}

TEST_CASE("exp of DoubleDouble: within 2^-97 for results from 2^-64 to 2^64",
          "[double_double][mpfr]") {
  support::Random random(13);
  const auto exponential = [](const auto& x) { return exp(x); };
  const auto between = [&](double low, double high) {
    return [&random, low, high] { return full(random, random.uniform(low, high)); };
  };
  CHECK(std::log2(largest_error(between(-44.3, 44.3), exponential)) <= -97);
  CHECK(std::log2(largest_error(between(-16.2, 0), exponential)) <=
        -97);  // frequencies: -ln(base) .. 0
  CHECK(std::log2(largest_error(between(-1e-3, 1e-3), exponential)) <= -97);
}

TEST_CASE("log of DoubleDouble: within 2^-97 for arguments from 2^-64 to 2^64",
          "[double_double][mpfr]") {
  support::Random random(14);
  const auto logarithm = [](const auto& x) { return log(x); };
  const auto powers = [&](double low, double high) {
    return [&random, low, high] { return full(random, std::exp2(random.uniform(low, high))); };
  };
  CHECK(std::log2(largest_error(powers(0.5, 64), logarithm)) <= -97);
  CHECK(std::log2(largest_error(powers(-64, -0.5), logarithm)) <= -97);
  CHECK(std::log2(largest_error(powers(8, 24), logarithm)) <= -97);  // bases of published models
}

TEST_CASE("log of DoubleDouble: within 2^-97 near 1, where its result is small",
          "[double_double][mpfr]") {
  support::Random random(15);
  const auto near_1 = [&] {
    const double distance = std::exp2(random.uniform(-40, -1));
    return full(random, 1 + (random.uniform() < 0.5 ? -distance : distance));
  };
  CHECK(std::log2(largest_error(near_1, [](const auto& x) { return log(x); })) <= -97);
}

TEST_CASE("pow of DoubleDouble: within 2^-97 for |y log x| up to 40", "[double_double][mpfr]") {
  support::Random random(16);
  double largest = 0, of_frequencies = 0;
  for (int i = 0; i < 4000; ++i) {
    const double x = std::exp2(random.uniform(1, 64));
    const DoubleDouble y = full(random, random.uniform(-40, 40) / std::log(x));
    largest =
        support::worse(largest, relative_error(pow(DoubleDouble(x), y), pow(Mpfr(x), Mpfr(y))));
  }
  for (const double base : {10000.0, 150000.0, 500000.0, 1e6, 5e6}) {
    for (int i = 0; i < 64; ++i) {
      const double y = -i / 64.0;
      of_frequencies = support::worse(
          of_frequencies, relative_error(pow(DoubleDouble(base), y), pow(Mpfr(base), y)));
    }
  }
  CHECK(std::log2(largest) <= -97);
  CHECK(std::log2(of_frequencies) <= -97);
}

TEST_CASE("floor of DoubleDouble: agrees with MPFR", "[double_double][mpfr]") {
  support::Random random(17);
  for (int i = 0; i < 2000; ++i) {
    const DoubleDouble x = any_sign(random, -3, 100);
    REQUIRE(absolute_error(posenc::detail::floor(x), floor(Mpfr(x))) == 0);
  }
}

TEST_CASE("two_product: is exact up to the largest doubles", "[double_double][mpfr]") {
  support::Random random(18);
  for (int i = 0; i < 2000; ++i) {
    const double a = any_sign(random, 980, 1023.99).hi;
    const double b = any_sign(random, -950, std::min(1023.99, 1021.9 - std::ilogb(a))).hi;
    for (const auto& [x, y] : {std::pair{a, b}, {b, a}}) {
      const DoubleDouble product = posenc::detail::two_product(x, y);
      CAPTURE(x, y);
      REQUIRE(std::isfinite(product.hi));
      REQUIRE(absolute_error(product, Mpfr(x) * Mpfr(y)) == 0);
    }
  }
  const double largest = std::numeric_limits<double>::max();
  CHECK(posenc::detail::two_product(largest, 1) == DoubleDouble(largest));
}

}  // namespace double_double_mpfr_test

#endif
