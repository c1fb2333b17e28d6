// SPDX-License-Identifier: MIT
// Half at compile time, its numbers, and its rounding at every midpoint.
#include "support/catch.hpp"
#include <posenc/simd/half.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace half_test {

using posenc::Half;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

}  // namespace

static_assert(std::is_trivial_v<Half> && sizeof(Half) == 2 && alignof(Half) == 2);
static_assert(std::is_convertible_v<Half, float> && !std::is_convertible_v<float, Half>);

// Rounding to nearest even at compile time.
static_assert(Half(1.0F).bits() == 0x3c00 && Half(-2.5F) == -2.5F && Half{} == 0.0F);
static_assert(Half(1.0F + 0x1p-11F).bits() == 0x3c00 && Half(1.0F + 0x3p-11F).bits() == 0x3c02);
static_assert(Half(65519.0F).bits() == 0x7bff && Half(65520.0F) == infinity);
static_assert(Half(0x1p-24F).bits() == 1 && Half(0x1p-25F).bits() == 0 && Half(0x1.8p-25F) > 0.0F);
static_assert(Half::from_bits(0x8001) == -0x1p-24F && Half::from_bits(0xfc00) == -infinity);

TEST_CASE("Half: numbers of the format by hand", "[simd][float16]") {
  CHECK(Half::from_bits(0x3555) == 0.333251953125F);
  CHECK(Half::from_bits(0xc248) == -3.140625F);
  CHECK(Half::from_bits(0x7bff) == 65504);
  CHECK(Half::from_bits(0x0400) == 0x1p-14F);
  CHECK(Half::from_bits(0x03ff) == 0x3ffp-24F);
  CHECK(std::signbit(static_cast<float>(Half::from_bits(0x8000))));
}

TEST_CASE("Half: every midpoint is rounded to even, and its neighbours to theirs",
          "[simd][float16]") {
  int wrong = 0;
  for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const auto next = static_cast<std::uint16_t>(bits + 1);
    const float low = Half::from_bits(bits), high = Half::from_bits(next);
    const float middle = (low + high) / 2;  // exact
    const std::uint16_t even = bits % 2 == 0 ? bits : next;
    wrong += Half(middle).bits() != even || Half(-middle).bits() != (even | 0x8000);
    wrong += Half(std::nextafter(middle, 0.0F)).bits() != bits;
    wrong += Half(std::nextafter(middle, infinity)).bits() != next;
  }
  CHECK(wrong == 0);
}

}  // namespace half_test
