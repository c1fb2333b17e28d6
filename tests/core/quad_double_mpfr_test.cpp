// SPDX-License-Identifier: MIT
// Documented error bounds of QuadDouble, checked against MPFR.
#ifdef POSENC_HAVE_MPFR

#include "accuracy/promises.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/mpfr.hpp"
#include "support/random.hpp"
#include "support/worse.hpp"
#include <posenc/core/detail/quad_double.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace quad_double_mpfr_test {

using posenc::detail::QuadDouble;
using support::Mpfr;

namespace {

Mpfr exact(const QuadDouble& x) {
  return Mpfr(x.limbs[3]) + Mpfr(x.limbs[2]) + Mpfr(x.limbs[1]) + Mpfr(x.limbs[0]);
}

/// Returns `high` followed by three limbs, each up to half an ulp of the previous one.
QuadDouble full(support::Random& random, double high) {
  std::array<double, 4> limbs{high};
  for (std::size_t i = 1; i < 4; ++i) limbs[i] = limbs[i - 1] * 0x1p-54 * random.uniform(-1, 1);
  return posenc::detail::renormalized_sum(limbs);
}

QuadDouble any_sign(support::Random& random, double low, double high) {
  const double magnitude = std::exp2(random.uniform(low, high));
  return full(random, random.uniform() < 0.5 ? -magnitude : magnitude);
}

/// True if each of the first `count` limbs is at most half an ulp of the previous one.
bool is_normalized(const QuadDouble& x, std::size_t count = 4) {
  for (std::size_t i = 0; i + 1 < count; ++i) {
    if (x.limbs[i] + x.limbs[i + 1] != x.limbs[i]) return false;
  }
  return true;
}

double relative_to(double scale, const QuadDouble& value, const Mpfr& truth) {
  return support::absolute_error(exact(value), truth) / scale;
}

}  // namespace

TEST_CASE("QuadDouble: + - * / are within 2^-195 and normalised", "[quad_double][mpfr]") {
  support::Random random(21);
  double sum = 0, difference = 0, product = 0, quotient = 0;
  bool normalized = true;
  for (int i = 0; i < 6000; ++i) {
    const double reach = i % 3 == 0 ? 1 : 60;
    const QuadDouble a = any_sign(random, -reach, reach);
    // Every third b cancels all but some of the bits of a.
    const QuadDouble b =
        i % 3 == 1 ? a + a * std::exp2(random.uniform(-200, 0)) : any_sign(random, -reach, reach);
    const Mpfr x = exact(a), y = exact(b);
    const double larger = std::max(std::abs(a.limbs[0]), std::abs(b.limbs[0]));
    sum = support::worse(sum, relative_to(larger, a + b, x + y));
    difference = support::worse(difference, relative_to(larger, a - b, x - y));
    product = support::worse(product, support::relative_error(exact(a * b), x * y));
    quotient = support::worse(quotient, support::relative_error(exact(a / b), x / y));
    normalized = normalized && is_normalized(a + b) && is_normalized(a - b, 2) &&
                 is_normalized(a * b) && is_normalized(a / b);
  }
  CHECK(std::log2(sum) <= std::log2(promises::quad_double.value()));
  CHECK(std::log2(difference) <= std::log2(promises::quad_double.value()));
  CHECK(std::log2(product) <= std::log2(promises::quad_double.value()));
  CHECK(std::log2(quotient) <= std::log2(promises::quad_double.value()));
  CHECK(normalized);
}

TEST_CASE("QuadDouble: exp and log are within 2^-185", "[quad_double][mpfr]") {
  support::Random random(22);
  double exponential = 0, logarithm = 0;
  for (int i = 0; i < 1500; ++i) {
    const QuadDouble x = full(random, random.uniform(-200, 200));
    exponential =
        support::worse(exponential, support::relative_error(exact(exp(x)), exp(exact(x))));
    const QuadDouble y = full(random, std::exp2(random.uniform(-300, 300)));
    const double scale = std::max(1.0, std::abs(std::log(y.limbs[0])));
    logarithm = support::worse(logarithm, relative_to(scale, log(y), log(exact(y))));
  }
  CHECK(std::log2(exponential) <= std::log2(promises::quad_double_exp.value()));
  CHECK(std::log2(logarithm) <= std::log2(promises::quad_double_exp.value()));
  CHECK(exp(QuadDouble(0)) == QuadDouble(1));
  CHECK(log(QuadDouble(1)) == QuadDouble(0));
}

TEST_CASE("QuadDouble: floor is the largest integer not above it", "[quad_double]") {
  CHECK(floor(QuadDouble(2.75)) == QuadDouble(2));
  CHECK(floor(QuadDouble(-2.25)) == QuadDouble(-3));
  // An integer in the first limb, and a fraction in a later one.
  const QuadDouble below(std::array{0x1p60, -0x1p-3, 0.0, 0.0});
  CHECK(floor(below) == QuadDouble(0x1p60) + QuadDouble(-1));
  const QuadDouble above(std::array{0x1p60, 3.0, 0x1p-60, 0.0});
  CHECK(floor(above) == QuadDouble(std::array{0x1p60, 3.0, 0.0, 0.0}));
  CHECK(QuadDouble(1) < QuadDouble(std::array{1.0, 0x1p-60, 0.0, 0.0}));
  CHECK_FALSE(QuadDouble(1) < QuadDouble(1));
}

}  // namespace quad_double_mpfr_test

#endif
