// SPDX-License-Identifier: MIT
// Tests checked sums and products at the limits of an Index.
#include "support/catch.hpp"
#include <posenc/core/detail/arithmetic.hpp>

#include <limits>
#include <optional>

namespace arithmetic_test {

using posenc::Index;
using posenc::detail::checked_add;
using posenc::detail::checked_mul;
using posenc::detail::checked_mul_or;

namespace {
constexpr Index max_index = std::numeric_limits<Index>::max();
constexpr Index min_index = std::numeric_limits<Index>::min();
}  // namespace

TEST_CASE("checked_add: adds up to the limits of an Index", "[arithmetic]") {
  // Not constants, so that the call happens at run time.
  for (const Index zero : {Index{0}}) {
    CHECK(checked_add(zero + 2, 3) == std::optional<Index>(5));
    CHECK(checked_add(zero + 2, -3) == std::optional<Index>(-1));
    CHECK(checked_add(max_index - 1, zero + 1) == std::optional<Index>(max_index));
    CHECK(checked_add(max_index, zero + 1) == std::nullopt);
    CHECK(checked_add(min_index + 1, zero - 1) == std::optional<Index>(min_index));
    CHECK(checked_add(min_index, zero - 1) == std::nullopt);
    CHECK(checked_add(max_index, zero) == std::optional<Index>(max_index));
    CHECK(checked_add(min_index, zero) == std::optional<Index>(min_index));
  }
}

TEST_CASE("checked_mul: multiplies up to the limits of an Index", "[arithmetic]") {
  for (const Index two : {Index{2}}) {
    CHECK(checked_mul(two, 3) == std::optional<Index>(6));
    CHECK(checked_mul(max_index / 2, two) == std::optional<Index>(max_index - 1));
    CHECK(checked_mul(max_index / 2 + 1, two) == std::nullopt);
    CHECK(checked_mul({two, 3, 5}) == std::optional<Index>(30));
    CHECK(checked_mul({two, max_index, max_index}) == std::nullopt);
    CHECK(checked_mul({two, -1}) == std::nullopt);
    CHECK(checked_mul({0, -1}) == std::nullopt);
    CHECK(checked_mul({0, two, max_index, max_index}) == std::optional<Index>(0));
    CHECK(checked_mul({max_index, 1}) == std::optional<Index>(max_index));
    CHECK(checked_mul_or(7, {two, 3}) == 6);
    CHECK(checked_mul_or(7, {two, max_index}) == 7);
  }
}

}  // namespace arithmetic_test
