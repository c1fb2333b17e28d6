// SPDX-License-Identifier: MIT
// Bfloat16 at compile time, its numbers, and its rounding at every midpoint.
#include "support/catch.hpp"
#include <posenc/simd/bfloat16.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace bfloat16_test {

using posenc::Bfloat16;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

}  // namespace

static_assert(std::is_trivial_v<Bfloat16> && sizeof(Bfloat16) == 2 && alignof(Bfloat16) == 2);
static_assert(std::is_convertible_v<Bfloat16, float> && !std::is_convertible_v<float, Bfloat16>);

// Rounding to nearest even at compile time.
static_assert(Bfloat16(1.0F).bits() == 0x3f80 && Bfloat16(-2.5F) == -2.5F && Bfloat16{} == 0.0F);
static_assert(Bfloat16(1.0F + 0x1p-8F).bits() == 0x3f80 &&
              Bfloat16(1.0F + 0x3p-8F).bits() == 0x3f82);
static_assert(Bfloat16(0x1.fefffep127F).bits() == 0x7f7f && Bfloat16(0x1.ffp127F) == infinity);
static_assert(Bfloat16(0x1p-133F).bits() == 1 && Bfloat16(0x1p-134F).bits() == 0);
static_assert(Bfloat16::from_bits(0x8001) == -0x1p-133F);

TEST_CASE("Bfloat16: numbers of the format by hand", "[simd][float16]") {
  CHECK(Bfloat16::from_bits(0x3eab) == 0.333984375F);
  CHECK(Bfloat16::from_bits(0xc049) == -3.140625F);
  CHECK(Bfloat16::from_bits(0x7f7f) == 0x1.fep127F);
  CHECK(Bfloat16::from_bits(0x0080) == 0x1p-126F);
  CHECK(std::signbit(static_cast<float>(Bfloat16::from_bits(0x8000))));
}

TEST_CASE("Bfloat16: every midpoint is rounded to even, and its neighbours to theirs",
          "[simd][float16]") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1, middle = bits << 16 | 0x8000;
    const auto rounded = [](std::uint32_t of_float) {
      return Bfloat16(std::bit_cast<float>(of_float)).bits();
    };
    wrong += rounded(middle) != even || rounded(middle | 0x80000000) != (even | 0x8000);
    wrong += rounded(middle - 1) != bits;
    wrong += rounded(middle + 1) != bits + 1;
  }
  CHECK(wrong == 0);
}

}  // namespace bfloat16_test
