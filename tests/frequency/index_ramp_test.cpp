// SPDX-License-Identifier: MIT
// The ramp over the pair index.
#include "support/catch.hpp"
#include <posenc/frequency/index_ramp.hpp>

namespace index_ramp_test {

TEST_CASE("pair indices of the ramp's ends in published models", "[yarn]") {
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

}  // namespace index_ramp_test
