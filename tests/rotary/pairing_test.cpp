// SPDX-License-Identifier: MIT
// Channels of pairs in both pairings.
#include "support/catch.hpp"
#include <posenc/rotary/pairing.hpp>
#include <posenc/rotary/rope.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace pairing_test {

using posenc::HalfRotate;
using posenc::Index;
using posenc::Interleaved;

TEST_CASE("Pairing: channels of a pair by hand", "[pairing]") {
  STATIC_REQUIRE(Interleaved::first(3, 8) == 6);
  STATIC_REQUIRE(Interleaved::second(3, 8) == 7);
  STATIC_REQUIRE(HalfRotate::first(3, 8) == 3);
  STATIC_REQUIRE(HalfRotate::second(3, 8) == 11);
  CHECK(std::string(Interleaved::name) == "interleaved");
  CHECK(std::string(HalfRotate::name) == "half");
}

TEMPLATE_TEST_CASE("Pairing: every channel belongs to one pair", "[pairing]", Interleaved,
                   HalfRotate) {
  for (Index pairs = 1; pairs < 10; ++pairs) {
    std::vector<int> uses(static_cast<std::size_t>(2 * pairs));
    for (Index pair = 0; pair < pairs; ++pair) {
      ++uses.at(static_cast<std::size_t>(TestType::first(pair, pairs)));
      ++uses.at(static_cast<std::size_t>(TestType::second(pair, pairs)));
    }
    CHECK(uses == std::vector<int>(uses.size(), 1));
  }
}

TEMPLATE_TEST_CASE("Pairing: a pair is rotated from its first channel towards its second",
                   "[pairing]", Interleaved, HalfRotate) {
  const std::array inv_freq{1.0, 0.5, 0.25};
  const posenc::Rope<TestType> rope(posenc::Frequencies::from_inv_freq(inv_freq));
  for (Index pair = 0; pair < 3; ++pair) {
    std::array<double, 6> x{}, expected{};
    const auto first = static_cast<std::size_t>(TestType::first(pair, 3));
    const auto second = static_cast<std::size_t>(TestType::second(pair, 3));
    const double angle = 2 * inv_freq[static_cast<std::size_t>(pair)];
    x[first] = 1;
    expected[first] = std::cos(angle);
    expected[second] = std::sin(angle);
    rope.rotate(posenc::HeadsView<double>{x.data(), 1, 1, 1, 6}, posenc::Positions::range(2, 1));
    for (std::size_t channel = 0; channel < 6; ++channel) {
      CAPTURE(pair, channel);
      CHECK(x[channel] == Approx(expected[channel]).margin(1e-15));
    }
  }
}

}  // namespace pairing_test
