// SPDX-License-Identifier: MIT
// Tests the bits that dropout, random weights and the numbers of tests are made from.
#include "support/catch.hpp"
#include "support/random.hpp"
#include <posenc/core/detail/random_bits.hpp>

#include <cstdint>
#include <random>

namespace random_bits_test {

using posenc::detail::mix_bits;
using posenc::detail::uniform;

TEST_CASE("mix_bits: gives the sequence of SplitMix64", "[random_bits]") {
  // The first outputs of the authors' program with seed 0, whose state grows by this step.
  constexpr std::uint64_t step = 0x9e3779b97f4a7c15u;
  std::uint64_t state = 0;
  for (const std::uint64_t expected :
       {0xe220a8397b1dcdafu, 0x6e789e6aa1b965f4u, 0x06c45d188009454fu}) {
    CHECK(mix_bits(state) == expected);
    state += step;
  }
}

TEST_CASE("uniform: scales the upper 53 bits to less than one", "[random_bits]") {
  for (const std::uint64_t zero : {std::uint64_t{0}}) {
    CHECK(uniform(zero) == 0);
    CHECK(uniform(zero + 0x7ff) == 0);
    CHECK(uniform(zero + 0x800) == 0x1p-53);
    CHECK(uniform(zero + (std::uint64_t{1} << 63)) == 0.5);
    CHECK(uniform(~zero) == 1 - 0x1p-53);
  }
}

TEST_CASE("MersenneTwister: gives the numbers of std::mt19937_64", "[random_bits]") {
  for (const std::uint64_t seed : {0u, 1u, 5489u}) {
    support::MersenneTwister numbers(seed);
    std::mt19937_64 expected(seed);
    for (int i = 0; i < 1000; ++i) REQUIRE(numbers() == expected());
  }
}

}  // namespace random_bits_test
