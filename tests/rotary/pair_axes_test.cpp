// SPDX-License-Identifier: MIT
// Tables of axes, pair by pair, and bad tables.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/rotary/axial.hpp>
#include <posenc/rotary/pair_axes.hpp>
#include <posenc/rotary/rope.hpp>

#include <array>
#include <vector>

namespace pair_axes_test {

using posenc::ConfigError;
using posenc::Index;
using posenc::PairAxes;
using support::message_of;

TEST_CASE("the table of plain rope has one axis and fits any number of pairs", "[axes]") {
  const PairAxes plain;
  CHECK(plain.plain());
  CHECK(plain.axis_count() == 1);
  CHECK(plain.pairs() == 0);
  CHECK(plain.axis(77) == 0);
  CHECK(plain == PairAxes());
  CHECK_FALSE(plain == PairAxes(1, {0, 0}));
  CHECK_FALSE(PairAxes(1, {0, 0}).plain());
}

TEST_CASE("a table hands out runs of pairs on one axis", "[axes]") {
  struct Run {
    Index axis, first, count;
    bool operator==(const Run&) const = default;
  };
  const auto runs = [](const PairAxes& axes, Index first, Index count) {
    std::vector<Run> result;
    axes.for_each_run(first, count, [&](Index axis, Index begin, Index pairs) {
      result.push_back({axis, begin, pairs});
    });
    return result;
  };
  const auto axes = PairAxes::sections({2, 0, 3, 1});
  CHECK(axes == PairAxes(4, {0, 0, 2, 2, 2, 3}));
  CHECK(runs(axes, 0, 6) == std::vector<Run>{{0, 0, 2}, {2, 2, 3}, {3, 5, 1}});
  CHECK(runs(axes, 1, 2) == std::vector<Run>{{0, 1, 1}, {2, 2, 1}});
  CHECK(runs(axes, 3, 0).empty());
  CHECK(runs(PairAxes(), 3, 5) == std::vector<Run>{{0, 3, 5}});
  CHECK(PairAxes::only(1, 3, 4) == PairAxes(3, {1, 1, 1, 1}));
}

TEST_CASE("axes may have frequencies of any rule and width", "[axes]") {
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

TEST_CASE("tables of axes that cannot be are rejected", "[axes][errors]") {
  const auto error = [](const auto& call) { return message_of<ConfigError>(call); };
  CHECK(error([] { PairAxes(0, {}); }) ==
        "posenc::PairAxes: there must be at least one axis, not 0");
  CHECK(error([] { PairAxes(2, {0, 2}); }) == "posenc::PairAxes: pair 1 reads axis 2 of 2");
  CHECK(error([] { PairAxes(2, {-1}); }) == "posenc::PairAxes: pair 0 reads axis -1 of 2");
  CHECK(error([] {
          PairAxes::sections({3, -1});
        }) == "posenc::PairAxes::sections: sections must lie between 0 and 65536 but are [3, -1]");
  CHECK(error([] { PairAxes::only(0, 2, -4); }) ==
        "posenc::PairAxes::only: sections must lie between 0 and 65536 but are [-4]");
  CHECK(error([] {
          posenc::Rope<posenc::HalfRotate>(posenc::Unscaled{.rotary_dim = 8, .base = 10000}, 0,
                                           PairAxes::sections({2, 3}));
        }) == "posenc::Rope: the table of axes is for 5 pairs but there are frequencies for 4");

  CHECK(error([] { frequencies(posenc::PixelFrequencies{.rotary_dim = 3, .max_freq = 10}); }) ==
        "posenc::PixelFrequencies: rotary_dim must be even and at least 2 but is 3");
  CHECK(error([] { frequencies(posenc::PixelFrequencies{.rotary_dim = 4}); }) ==
        "posenc::PixelFrequencies: max_freq must be given, finite and at least 2, but is 0");
  CHECK(error([] { posenc::axial({}); }) ==
        "posenc::axial: there must be frequencies for at least one axis");
  const auto one = posenc::Frequencies::from_inv_freq(std::array{1.0});
  const auto louder = posenc::Frequencies::from_inv_freq(std::array{1.0}, 2);
  CHECK(error([&] {
          posenc::axial(std::array{one, louder});
        }) ==
        "posenc::axial: all axes must have the same factors but attention_factor is 1 and 2, "
        "softmax_scale_multiplier 1 and 1");
}

}  // namespace pair_axes_test
