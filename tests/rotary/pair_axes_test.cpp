// SPDX-License-Identifier: MIT
// Tables of axes, pair by pair, and bad tables.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/pair_axes.hpp>
#include <posenc/rotary/rope.hpp>

#include <vector>

namespace pair_axes_test {

using posenc::ConfigError;
using posenc::Index;
using posenc::PairAxes;
using support::message_of;

TEST_CASE("PairAxes: of a plain rope has one axis and fits any number of pairs", "[axes]") {
  const PairAxes plain;
  CHECK(plain.plain());
  CHECK(plain.axis_count() == 1);
  CHECK(plain.pairs() == 0);
  CHECK(plain.axis(77) == 0);
  CHECK(plain == PairAxes());
  CHECK_FALSE(plain == PairAxes(1, {0, 0}));
  CHECK_FALSE(PairAxes(1, {0, 0}).plain());
}

TEST_CASE("PairAxes: gives runs of pairs on one axis", "[axes]") {
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
  CHECK(PairAxes::only(0, 1, 65536).pairs() == 65536);
}

TEST_CASE("PairAxes: invalid tables are rejected", "[axes][errors]") {
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
}

}  // namespace pair_axes_test
