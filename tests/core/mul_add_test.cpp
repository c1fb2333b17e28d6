// SPDX-License-Identifier: MIT
// mul_add rounds once with FMA and twice without it, whatever the compiler contracts.
#include "support/catch.hpp"
#include <posenc/core/mul_add.hpp>

#include <limits>

namespace mul_add_test {

namespace {

constexpr bool fused = POSENC_HAS_FMA != 0;

/// mul_add of numbers that the compiler does not know.
template <class T>
T mul_add(T a, T b, T c) {
  const volatile T x = a, y = b, z = c;
  return posenc::mul_add<T>(x, y, z);
}

}  // namespace

TEST_CASE("mul_add: keeps the low bits of a product only with FMA", "[mul_add]") {
  // (1 + 2^-27)^2 = 1 + 2^-26 + 2^-54, and the last term is a quarter of an ulp of 1.
  CHECK(mul_add(1 + 0x1p-27, 1 + 0x1p-27, -(1 + 0x1p-26)) == (fused ? 0x1p-54 : 0.0));
  CHECK(mul_add(1 + 0x1p-13F, 1 + 0x1p-13F, -(1 + 0x1p-12F)) == (fused ? 0x1p-26F : 0.0F));
}

TEST_CASE("mul_add: the product overflows only without FMA", "[mul_add]") {
  constexpr double most = std::numeric_limits<double>::max();
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(mul_add(most, 2.0, -most) == (fused ? most : infinity));
}

TEST_CASE("mul_add: adds the third number to the product of the others", "[mul_add]") {
  CHECK(mul_add(3.0, 5.0, 7.0) == 22);
  CHECK(mul_add(7.0F, 5.0F, 3.0F) == 38);
}

}  // namespace mul_add_test
