// SPDX-License-Identifier: MIT
// Frequencies with groups of pairs per axis.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/axial.hpp>

#include <array>
#include <cstddef>

namespace axial_test {

using posenc::ConfigError;
using posenc::PairAxes;
using support::message_of;

TEST_CASE("axial: axes may have frequencies of any rule and width", "[axes]") {
  const auto pixel = posenc::frequencies(posenc::PixelFrequencies{.rotary_dim = 8, .max_freq = 10});
  const auto w = pixel.inv_freq();
  REQUIRE(w.size() == 4);
  const double pi = 3.14159265358979323846;
  for (std::size_t j = 0; j < 4; ++j) {
    CHECK(w[j] == Approx(pi * (1 + 4.0 * static_cast<double>(j) / 3)).epsilon(1e-15));
  }
  CHECK(posenc::frequencies(posenc::PixelFrequencies{.rotary_dim = 2, .max_freq = 10})
            .inv_freq()
            .front() == Approx(pi));
  const auto plain = posenc::frequencies(posenc::Unscaled{.rotary_dim = 4, .base = 100});
  const auto axial = posenc::axial(std::array{pixel, plain});
  CHECK(axial.axes == PairAxes::sections({4, 2}));
  CHECK(axial.frequencies.inv_freq()[4] == 1);
}

TEST_CASE("axial: invalid frequencies of axes are rejected", "[axes][errors]") {
  const auto error = [](const auto& call) { return message_of<ConfigError>(call); };
  CHECK(error([] { frequencies(posenc::PixelFrequencies{.rotary_dim = 3, .max_freq = 10}); }) ==
        "posenc::PixelFrequencies: rotary_dim must be even and at least 2 but is 3");
  CHECK(error([] { frequencies(posenc::PixelFrequencies{.rotary_dim = 4}); }) ==
        "posenc::PixelFrequencies: max_freq must be set, finite and at least 2, but is 0");
  CHECK(error([] { posenc::axial({}); }) ==
        "posenc::axial: there must be frequencies for at least one axis");
  const auto one = posenc::Frequencies::from_inv_freq(std::array{1.0});
  const auto louder = posenc::Frequencies::from_inv_freq(std::array{1.0}, 2);
  CHECK(error([&] {
          posenc::axial(std::array{one, louder});
        }) ==
        "posenc::axial: all axes must have the same factors but attention_factor is 1 and 2, "
        "softmax_scale_multiplier 1 and 1");
  CHECK(error([] {
          posenc::axial({16, 7}, 10000);
        }) == "posenc::axial: rotary_dim must be even and at least 0 but is 7");
  CHECK(error([] {
          posenc::axial({16, 8}, 1);
        }) == "posenc::axial: base must be set, finite and greater than 1, but is 1");
}

}  // namespace axial_test
