// SPDX-License-Identifier: MIT
// The promised accuracy of cos and sin against MPFR.
#ifdef POSENC_HAVE_MPFR

#include "frequency/bounds.hpp"
#include "frequency/presets.hpp"
#include "frequency/truth.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/mpfr.hpp"
#include "support/random.hpp"
#include "support/worse.hpp"
#include <posenc/frequency/detail/oscillator.hpp>

#include <algorithm>
#include <cmath>

namespace oscillator_mpfr_test {

using posenc::frequencies;
using posenc::Index;
using posenc::detail::DoubleDouble;
using posenc::detail::Oscillator;
using support::Mpfr;

namespace {

/// The largest share of the allowance over all angles tested.
class Worst {
 public:
  /// Tests pair i of the oscillator at a position; inv_freq is the true frequency.
  void test_angle(const Oscillator& oscillator, double position, Index i, const Mpfr& inv_freq) {
    const Mpfr angle = Mpfr(position) * inv_freq;
    double wide_cos = 0, wide_sin = 0;
    float cos_float = 0, sin_float = 0;
    oscillator.cos_sin_row(position, i, 1, 1.0, &wide_cos, &wide_sin);
    oscillator.cos_sin_row(position, i, 1, 1.0, &cos_float, &sin_float);
    include(wide_cos, cos_float, cos(angle), static_cast<double>(angle));
    include(wide_sin, sin_float, sin(angle), static_cast<double>(angle));
  }

  /// Tests a single frequency, taken as exact.
  void test_angle(DoubleDouble inv_freq, double position) {
    test_angle(Oscillator({&inv_freq, 1}), position, 0, inv_freq);
  }

  double of_double = 0, of_float = 0;

 private:
  void include(double wide, float narrow, const Mpfr& truth, double angle) {
    const double error = support::absolute_error(wide, truth);
    const double float_error = support::absolute_error(static_cast<double>(narrow), truth);
    of_double = support::worse(of_double, bounds::share(error, angle));
    of_float = support::worse(of_float,
                              bounds::float_share(float_error, static_cast<double>(truth), angle));
  }
};

void check(const Worst& worst) {
  CHECK(worst.of_double <= 1);
  CHECK(worst.of_float <= 1);
}

template <class Rule>
void check_rule(const Rule& rule) {
  const Oscillator oscillator(posenc::detail::exact_inv_freq(frequencies(rule)));
  const truth::InvFreq inv_freq = truth::inv_freq(rule);
  Worst worst;
  for (const double position : presets::positions) {
    for (Index i = 0; i < oscillator.size(); ++i) {
      worst.test_angle(oscillator, position, i, inv_freq[static_cast<std::size_t>(i)]);
    }
  }
  check(worst);
}

}  // namespace

TEST_CASE("Oscillator: every pair of published models, near and far", "[oscillator][mpfr]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    check_rule(posenc::Unscaled{.rotary_dim = dim, .base = base});
  }
}

TEST_CASE("Oscillator: every pair of scaled models, near and far", "[oscillator][mpfr]") {
  check_rule(posenc::LinearScaling{.rotary_dim = 64, .base = 10000, .factor = 3});
  check_rule(posenc::NtkScaling{.rotary_dim = 64, .base = 10000, .factor = 3});
  check_rule(posenc::YarnScaling{
      .rotary_dim = 64, .base = 150000, .factor = 32, .original_max_position = 4096});
}

TEST_CASE("Oscillator: any frequency and position up to 2^40 radians", "[oscillator][mpfr]") {
  support::Random random(51);
  Worst whole, real;
  for (int n = 0; n < 5000; ++n) {
    const double inv_freq = std::exp2(random.uniform(-24, 2));
    const double position = std::exp2(random.uniform(-10, 39.9)) / inv_freq;
    whole.test_angle(inv_freq, std::rint(std::min(position, 0x1p53)));
    real.test_angle(n % 2 == 0 ? inv_freq : -inv_freq, position);
  }
  check(whole);
  check(real);
}

TEST_CASE("Oscillator: frequencies with all bits of a double-double in use", "[oscillator][mpfr]") {
  support::Random random(52);
  Worst worst;
  for (int n = 0; n < 5000; ++n) {
    const double high = std::exp2(random.uniform(-24, 2));
    const DoubleDouble inv_freq =
        posenc::detail::quick_two_sum(high, high * 0x1p-54 * random.uniform(-1, 1));
    worst.test_angle(inv_freq, std::exp2(random.uniform(20, 40)) / high);
  }
  check(worst);
}

TEST_CASE("Oscillator: from 2^40 to 2^50 radians", "[oscillator][mpfr]") {
  support::Random random(53);
  Worst worst;
  for (int n = 0; n < 5000; ++n) {
    const double inv_freq = std::exp2(random.uniform(-3, 2));
    worst.test_angle(inv_freq, std::rint(std::exp2(random.uniform(40, 50)) / inv_freq));
  }
  const auto llama = posenc::Unscaled{.rotary_dim = 128, .base = 500000};
  const Oscillator oscillator(posenc::detail::exact_inv_freq(frequencies(llama)));
  const truth::InvFreq inv_freq = truth::inv_freq(llama);
  for (const double position : {0x1p50, -0x1p50 + 1, 0x1p49 + 3}) {
    for (Index i = 0; i < 64; ++i) {
      worst.test_angle(oscillator, position, i, inv_freq[static_cast<std::size_t>(i)]);
    }
  }
  check(worst);
}

TEST_CASE("Oscillator: angles next to quarter turns and half way between them",
          "[oscillator][mpfr]") {
  support::Random random(54);
  Worst worst;
  for (int n = 0; n < 4000; ++n) {
    const double inv_freq = std::exp2(random.uniform(-20, 0));
    const double quarters = std::rint(std::exp2(random.uniform(0, 39))) + (n % 2 == 0 ? 0 : 0.5);
    const double position = quarters * 0x1.921fb54442d18p+0 / inv_freq;
    worst.test_angle(inv_freq, position);
    worst.test_angle(inv_freq, std::nextafter(position, 0));
  }
  check(worst);
}

}  // namespace oscillator_mpfr_test

#endif
