// SPDX-License-Identifier: MIT
// The ramp over the pair index.
#include "support/catch.hpp"
#include <posenc/frequency/index_ramp.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace index_ramp_test {

using posenc::YarnCrossing;
using posenc::detail::IndexRamp;
using posenc::detail::QuadDouble;

TEST_CASE("index_ramp: pair indices of the ramp's ends in published models", "[yarn]") {
  const auto index = [](posenc::Index dim, double base, posenc::Index length, double rotations) {
    return static_cast<double>(
        posenc::detail::pair_index_at_rotations(dim, base, length, rotations));
  };
  CHECK(index(128, 1e4, 4096, 32) == Approx(20.94).margin(0.005));
  CHECK(index(128, 1e4, 4096, 1) == Approx(45.03).margin(0.005));
  CHECK(index(64, 1e4, 4096, 32) == Approx(10.47).margin(0.005));
  CHECK(index(64, 1e4, 4096, 1) == Approx(22.51).margin(0.006));
  CHECK(index(128, 1e6, 32768, 32) == Approx(23.60).margin(0.005));
  CHECK(index(128, 1e6, 32768, 1) == Approx(39.65).margin(0.005));
  CHECK(index(64, 1.5e5, 4096, 32) == Approx(8.093).margin(0.0005));
  CHECK(index(64, 1.5e5, 4096, 1) == Approx(17.398).margin(0.0005));
  CHECK(index(8, 1e4, 64, 32) == Approx(-0.50).margin(0.005));
  CHECK(index(8, 1e4, 64, 1) == Approx(1.01).margin(0.005));
}

TEST_CASE("index_ramp: ends are rounded outward, clamped and kept apart", "[yarn]") {
  const auto ends = [](const IndexRamp& ramp) {
    return std::pair{static_cast<double>(ramp.low), static_cast<double>(ramp.high)};
  };
  using Ends = std::pair<double, double>;
  CHECK(ends(IndexRamp::between(128, 1e4, 4096, 32, 1, true)) == Ends{20, 46});
  const auto [low, high] = ends(IndexRamp::between(128, 1e4, 4096, 32, 1, false));
  CHECK(low == Approx(20.94).margin(0.005));
  CHECK(high == Approx(45.03).margin(0.005));
  // The low end lies before the first pair, and the high one after the last channel.
  CHECK(ends(IndexRamp::between(8, 1e4, 64, 32, 1e-6, true)) == Ends{0, 7});
  CHECK(ends(IndexRamp::between(128, 1e4, 4096, 1, 32, true)).second == Approx(45.001));
  CHECK(ends(IndexRamp::between(128, 1e4, 4096, 1, 32, true, YarnCrossing::Backwards)) ==
        Ends{45, 21});
}

TEST_CASE("index_ramp: frequencies are blended along it", "[yarn]") {
  std::vector<QuadDouble> a(7, QuadDouble(8)), equal(7, QuadDouble(3));
  blend(a, std::vector<QuadDouble>(7, QuadDouble(4)), {1, 5});
  blend(equal, std::vector<QuadDouble>(7, QuadDouble(3)), {0.3, 4.7});
  const double expected[] = {8, 8, 7, 6, 5, 4, 4};
  for (std::size_t i = 0; i < 7; ++i) {
    CAPTURE(i);
    CHECK(static_cast<double>(a[i]) == expected[i]);
    CHECK(equal[i] == QuadDouble(3));
  }
}

}  // namespace index_ramp_test
