// SPDX-License-Identifier: MIT
// The two steps of cos_sin(), reduction and polynomials, against MPFR. The oscillator's tests cover
// cos_sin() itself.
#ifdef POSENC_HAVE_MPFR

#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/mpfr.hpp"
#include "support/random.hpp"
#include "support/worse.hpp"
#include <posenc/simd/cos_sin.hpp>

#include <cmath>

namespace cos_sin_mpfr_test {

using posenc::detail::DoubleDouble;
using One = posenc::Pack<double, posenc::tier::Scalar>;
using support::absolute_error;
using support::Mpfr;

TEST_CASE("cos_sin: the polynomials are right to the last bits over their whole range",
          "[cos_sin][mpfr]") {
  const Mpfr quarter = Mpfr::pi() / 2;
  double cos_error = 0, sin_error = 0;
  constexpr int steps = 10000;
  for (int i = -steps; i <= steps; ++i) {
    const double r = 0.5625 * i / steps;
    const auto value = posenc::detail::cos_sin_reduced(One{r});
    const Mpfr angle = quarter * r;
    cos_error = support::worse(cos_error, absolute_error(value.cos.v, cos(angle)));
    sin_error = support::worse(sin_error, absolute_error(value.sin.v, sin(angle)));
  }
  CHECK(cos_error / 1e-16 <= 1.7);
  CHECK(sin_error / 1e-16 <= 2.2);
}

TEST_CASE("cos_sin: the reduction loses nothing to the size of the angle", "[cos_sin][mpfr]") {
  support::Random random(31);
  for (const double reach : {1.0, 0x1p20, 0x1p40, 0x1p49}) {
    double largest = 0;
    for (int i = 0; i < 5000; ++i) {
      const double position = reach * random.uniform(-1, 1), turns = random.uniform(-1, 1);
      const DoubleDouble exact(turns, turns * 0x1p-54 * random.uniform(-1, 1));
      const auto angle = posenc::detail::reduce_angle(One{position}, One{exact.hi}, One{exact.lo});
      largest = support::worse(
          largest,
          absolute_error(Mpfr(angle.quadrant_bits.v - posenc::detail::shifter) + angle.remainder.v,
                         Mpfr(position) * Mpfr(exact)));
    }
    CAPTURE(reach);
    CHECK(largest / 1e-16 <= 1.2);
  }
}

}  // namespace cos_sin_mpfr_test

#endif
