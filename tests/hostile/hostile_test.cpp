// SPDX-License-Identifier: MIT
// Seeded sample of the calls of the extents fuzzer, which makes more of them and under sanitizers.
#include "hostile/calls.hpp"
#include "support/catch.hpp"

#include <array>
#include <cstdint>
#include <random>
#include <string>

namespace hostile_test {

namespace {

/// Makes calls of random bytes. The first byte of each is below `first_bytes`.
void make_calls(int count, unsigned first_bytes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < count; ++i) {
    std::array<std::uint8_t, 96> bytes;
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    bytes[0] = static_cast<std::uint8_t>(bytes[0] % first_bytes);
    const char* threw = hostile::make_call(bytes);
    INFO("call " << i);
    REQUIRE(std::string(threw == nullptr ? "" : threw) == "");
  }
}

}  // namespace

TEST_CASE("HeadsView: impossible extents, strides and counts are rejected", "[hostile]") {
  make_calls(20000, 256);
}

// Most of what is wrong here is an overflow, which UndefinedBehaviorSanitizer reports.
TEST_CASE("Positions: impossible extents are rejected, or there are none", "[hostile]") {
  make_calls(20000, hostile::byte_of_positions + 1);
}

}  // namespace hostile_test
