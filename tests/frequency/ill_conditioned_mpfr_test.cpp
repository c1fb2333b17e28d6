// SPDX-License-Identifier: MIT
// Rules with settings for which a small difference decides. They stay within 2^-95 of their
// definition in MPFR.
#ifdef POSENC_HAVE_MPFR

#include "frequency/truth.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/mpfr.hpp"
#include "support/random.hpp"
#include "support/worse.hpp"
#include <posenc/core/detail/quad_double.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace ill_conditioned_mpfr_test {

using namespace posenc;  // NOLINT: every rule there is
using support::Mpfr;

namespace {

/// Returns log2 of the largest relative error.
template <class Rule, class... Length>
double bits_of(const Rule& rule, Length... length) {
  const Frequencies ours = frequencies(rule, length...);
  const truth::InvFreq expected = truth::inv_freq(rule, length...);
  double largest = 0x1p-200;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = support::worse(
        largest, support::relative_error(posenc::detail::exact_inv_freq(ours)[i], expected[i]));
  }
  return std::log2(largest);
}

Llama3Scaling llama3(double factor, double low, double high) {
  return {.rotary_dim = 128,
          .base = 500000,
          .factor = factor,
          .low_freq_factor = low,
          .high_freq_factor = high,
          .original_max_position = 8192};
}

}  // namespace

TEST_CASE("YarnScaling: equal betas keep 95 bits", "[rules][mpfr]") {
  for (const double factor : {1.5, 40.0, 1e100}) {
    for (const Index dim : {64, 128, 1024}) {
      YarnScaling rule{.rotary_dim = dim,
                       .base = 10000,
                       .factor = factor,
                       .original_max_position = 4096,
                       .truncate = false};
      // The step, 0.001 wide, begins just before a pair.
      for (const double before : {1e-15, 1e-9, 0.0005, 0.001 - 1e-12}) {
        const double index = static_cast<double>(dim) / 4 - before;
        rule.beta_fast = rule.beta_slow =
            4096 / (2 * std::numbers::pi) / std::pow(10000.0, 2 * index / static_cast<double>(dim));
        CAPTURE(factor, dim, before);
        CHECK(bits_of(rule) <= -95);
      }
    }
  }
}

TEST_CASE("Llama3Scaling: adjacent factors keep 95 bits", "[rules][mpfr]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto unscaled = truth::power_law(500000, 128);
  for (const double factor : {1.5, 8.0, 1e100}) {
    for (const std::size_t pair : {std::size_t{5}, std::size_t{30}, std::size_t{63}}) {
      const auto rotations =
          static_cast<double>(Mpfr(8192) * unscaled[pair] / (Mpfr(2) * Mpfr::pi()));
      const double low = std::nextafter(rotations, 0), high = std::nextafter(rotations, infinity);
      CAPTURE(factor, pair);
      CHECK(bits_of(llama3(factor, low, rotations)) <= -95);
      CHECK(bits_of(llama3(factor, rotations, high)) <= -95);
      CHECK(bits_of(llama3(factor, low, high)) <= -95);
      CHECK(bits_of(llama3(factor, 1e-3, high)) <= -95);
      CHECK(bits_of(llama3(factor, low, 1e300)) <= -95);
      CHECK(bits_of(NtkByPartsScaling{.rotary_dim = 128,
                                      .base = 500000,
                                      .factor = factor,
                                      .original_max_position = 8192,
                                      .alpha = low,
                                      .beta = high}) <= -95);
    }
  }
}

TEST_CASE("RotaryRule: 95 bits at the ends of settings", "[rules][mpfr]") {
  for (const double base : {1 + 0x1p-52, 1 + 1e-12, 1e100}) {
    for (const double factor : {1 + 0x1p-52, 1e100}) {
      CAPTURE(base, factor);
      CHECK(bits_of(Unscaled{.rotary_dim = 256, .base = base}) <= -95);
      CHECK(bits_of(LinearScaling{.rotary_dim = 256, .base = base, .factor = factor}) <= -95);
      CHECK(bits_of(NtkScaling{.rotary_dim = 256, .base = base, .factor = factor}) <= -95);
      CHECK(bits_of(VllmNtkScaling{.rotary_dim = 256, .base = base, .factor = factor}) <= -95);
      for (const double b : {1e-3, 0.5, 1000.0}) {
        CAPTURE(b);
        CHECK(bits_of(VllmMixedNtkScaling{
                  .rotary_dim = 32, .base = base, .factor = factor, .mixed_b = b}) <= -95);
      }
      const YarnScaling yarn{
          .rotary_dim = 256, .base = base, .factor = factor, .original_max_position = 4096};
      CHECK(bits_of(yarn) <= -95);
      const TwoRampNtkScaling two{
          .rotary_dim = 256, .base = base, .factor = factor, .original_max_position = 2048};
      CHECK(bits_of(two) <= -95);
      const DynamicNtkScaling dynamic{
          .rotary_dim = 256, .base = base, .factor = factor, .original_max_position = 1};
      CHECK(bits_of(dynamic, Index{1} << 53) <= -95);
      const DivisorScaling divisors{.rotary_dim = 4, .base = base, .divisors = {1e-100, 1e100}};
      CHECK(bits_of(divisors) <= -95);
    }
  }
}

TEST_CASE("QuadDouble: keeps its bits in ill-conditioned rules", "[wide][mpfr]") {
  using posenc::detail::QuadDouble;
  const auto truth_of = [](const QuadDouble& x) {
    return Mpfr(x.limbs[0]) + Mpfr(x.limbs[1]) + Mpfr(x.limbs[2]) + Mpfr(x.limbs[3]);
  };
  support::Random random(31);
  double worst_sum = 0, worst_product = 0, worst_quotient = 0, worst_exp = 0, worst_log = 0;
  const auto draw = [&] {
    QuadDouble x;
    double size = std::exp2(random.uniform(-60, 60));
    for (int i = 0; i < 4; ++i)
      x = x + QuadDouble(size * random.uniform(0.5, 1) * std::exp2(-54.0 * i));
    return random.uniform() < 0.5 ? -x : x;
  };
  for (int i = 0; i < 300; ++i) {
    const QuadDouble a = draw(),
                     b = i % 3 == 0 ? a * -(1 + std::exp2(random.uniform(-180, -1))) : draw();
    const Mpfr x = truth_of(a), y = truth_of(b);
    worst_sum = support::worse(worst_sum, support::absolute_error(truth_of(a + b), x + y) /
                                              std::max(std::abs(a.limbs[0]), std::abs(b.limbs[0])));
    worst_product = support::worse(worst_product, support::relative_error(truth_of(a * b), x * y));
    worst_quotient =
        support::worse(worst_quotient, support::relative_error(truth_of(a / b), x / y));
    const QuadDouble power =
        QuadDouble(random.uniform(-250, 250)) + QuadDouble(random.uniform() * 0x1p-90);
    worst_exp = support::worse(worst_exp,
                               support::relative_error(truth_of(exp(power)), exp(truth_of(power))));
    const QuadDouble positive = a.limbs[0] < 0 ? -a : a;
    const QuadDouble near_1 = QuadDouble(1) + std::exp2(random.uniform(-60, -1));
    for (const QuadDouble& z : {positive, near_1}) {
      worst_log =
          support::worse(worst_log, support::absolute_error(truth_of(log(z)), log(truth_of(z))));
    }
  }
  CHECK(std::log2(worst_sum) <= -195);
  CHECK(std::log2(worst_product) <= -195);
  CHECK(std::log2(worst_quotient) <= -195);
  CHECK(std::log2(worst_exp) <= -185);
  CHECK(std::log2(worst_log) <= -185);
}

}  // namespace ill_conditioned_mpfr_test

#endif
