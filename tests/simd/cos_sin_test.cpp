// SPDX-License-Identifier: MIT
// Tests cos_sin at angles whose results are known exactly; cos_sin_mpfr_test.cpp measures its errors.
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include "support/worse.hpp"
#include <posenc/simd/cos_sin.hpp>

#include <bit>
#include <cmath>
#include <cstdint>

namespace cos_sin_test {

using posenc::detail::cos_sin;
using posenc::detail::CosSin;
using posenc::detail::DoubleDouble;
using One = posenc::Pack<double, posenc::tier::Scalar>;

TEST_CASE("cos_sin: position 0 is exactly (1, 0) at any frequency", "[cos_sin]") {
  for (const double turns : {0.0, 1.0, 0x1.45f306dc9c883p-1, -3.25, 1e-300, 1e6}) {
    for (const double zero : {0.0, -0.0}) {
      const CosSin value = cos_sin(zero, turns);
      CHECK(std::bit_cast<std::uint64_t>(value.cos) == std::bit_cast<std::uint64_t>(1.0));
      CHECK(std::bit_cast<std::uint64_t>(value.sin) == std::bit_cast<std::uint64_t>(0.0));
    }
  }
}

TEST_CASE("cos_sin: whole quarter turns give exact values", "[cos_sin]") {
  constexpr double cos[] = {1, 0, -1, 0}, sin[] = {0, 1, 0, -1};
  for (const double far : {0.0, 0x1p20, 0x1p40, 0x1p49}) {
    for (int k = -8; k <= 8; ++k) {
      const double quarters = far + k;
      CAPTURE(quarters);
      const CosSin value = cos_sin(quarters, 1.0);
      const int quadrant = k & 3;
      CHECK(value.cos == cos[quadrant]);
      CHECK(value.sin == sin[quadrant]);
    }
  }
}

TEST_CASE("cos_sin: the low part of the frequency counts", "[cos_sin]") {
  const CosSin value = cos_sin(0x1p40, DoubleDouble(4.0, 0x1p-52));
  CHECK(value.cos == Approx(std::cos(std::acos(-1.0) / 2 * 0x1p-12)).epsilon(1e-15));
  CHECK(value.sin == Approx(std::sin(std::acos(-1.0) / 2 * 0x1p-12)).epsilon(1e-15));
}

TEST_CASE("cos_sin: a reduced angle is a whole number and the stated remainder", "[cos_sin]") {
  support::Random random(21);
  for (const double reach : {1.0, 0x1p20, 0x1p40, 0x1p49}) {
    double widest = 0;
    for (int i = 0; i < 5000; ++i) {
      const double turns = random.uniform(-1, 1);
      const auto angle = posenc::detail::reduce_angle(One{reach * random.uniform(-1, 1)},
                                                      One{turns}, One{turns * 0x1p-54});
      const double whole = angle.quadrant_bits.v - posenc::detail::shifter;
      REQUIRE(whole == std::rint(whole));
      widest = support::worse(widest, std::abs(angle.remainder.v));
    }
    CAPTURE(reach);
    CHECK(widest <= 0.5625);
  }
  // The largest remainders, of frequencies whose low part is half an ulp. The last angle is 2^50
  // radians.
  for (const double position : {0x1.45ep49, 0x1.45ep39}) {
    const bool far = position > 0x1p40;
    const double fraction = far ? 0.5 : 0.4999, of_far = POSENC_HAS_FMA ? 0.580 : 0.643;
    const auto angle =
        posenc::detail::reduce_angle(One{position + fraction}, One{1.0}, One{0x1p-53});
    CAPTURE(position);
    CHECK(std::abs(angle.remainder.v) <= (far ? of_far : 0.501));
    if (far) CHECK(std::abs(angle.remainder.v) > 0.5625);
  }
}

TEST_CASE("cos_sin: cos is even and sin is odd, bit for bit", "[cos_sin]") {
  support::Random random(22);
  for (int i = 0; i < 5000; ++i) {
    const double position = std::exp2(random.uniform(-30, 49));
    const double turns = random.uniform(0, 1);
    const DoubleDouble exact(turns, turns * 0x1p-54 * random.uniform(-1, 1));
    const CosSin forward = cos_sin(position, exact);
    const CosSin backward = cos_sin(-position, exact);
    REQUIRE(std::bit_cast<std::uint64_t>(backward.cos) ==
            std::bit_cast<std::uint64_t>(forward.cos));
    REQUIRE(std::bit_cast<std::uint64_t>(backward.sin) ==
            std::bit_cast<std::uint64_t>(-forward.sin));
  }
}

TEST_CASE("cos_sin: agrees with the standard library at small angles", "[cos_sin]") {
  support::Random random(23);
  double largest = 0, off_circle = 0;
  for (int i = 0; i < 20000; ++i) {
    const double angle = random.uniform(-50, 50);
    const CosSin value = cos_sin(angle, posenc::detail::two_over_pi);
    largest = support::worse(largest, support::worse(std::abs(value.cos - std::cos(angle)),
                                                     std::abs(value.sin - std::sin(angle))));
    off_circle =
        support::worse(off_circle, std::abs(value.cos * value.cos + value.sin * value.sin - 1));
  }
  CHECK(largest / 1e-16 <= 4);
  CHECK(off_circle / 1e-16 <= 8);
}

}  // namespace cos_sin_test
