// SPDX-License-Identifier: MIT
// Seeded sample of the calls of the extents fuzzer, which makes more of them and under sanitizers.
#include "hostile/calls.hpp"
#include "support/catch.hpp"

#include <array>
#include <cstdint>
#include <random>
#include <string>

namespace hostile_test {

TEST_CASE("impossible extents, strides and counts are rejected", "[hostile]") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::array<std::uint8_t, 96> bytes;
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    const char* threw = hostile::make_call(bytes);
    INFO("call " << i);
    REQUIRE(std::string(threw == nullptr ? "" : threw) == "");
  }
}

}  // namespace hostile_test
