// SPDX-License-Identifier: MIT
// The split of work into units.
#include "support/catch.hpp"
#include "support/cutter.hpp"
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>

#include <algorithm>
#include <vector>

namespace parallel_for_test {

using posenc::Index;

namespace {

struct Range {
  Index first, count;
  bool operator==(const Range&) const = default;
};

template <class Device>
std::vector<Range> column_ranges(const Device& device, Index columns) {
  std::vector<Range> ranges;
  posenc::detail::parallel_for_columns(device, columns, 1.0, 1.0, [&](Index first, Index count) {
    ranges.push_back({first, count});
  });
  std::reverse(ranges.begin(), ranges.end());  // Cutter begins with the last part
  return ranges;
}

}  // namespace

TEST_CASE("parallel_for: columns are split at multiples of a cache line", "[tensor][threads]") {
  using Ranges = std::vector<Range>;
  CHECK(column_ranges(support::Cutter{1}, 0).empty());
  CHECK(column_ranges(support::Cutter{1}, 1) == Ranges{{0, 1}});
  CHECK(column_ranges(support::Cutter{1}, 16) == Ranges{{0, 16}});
  CHECK(column_ranges(support::Cutter{1}, 17) == Ranges{{0, 16}, {16, 1}});
  CHECK(column_ranges(support::Cutter{2}, 40) == Ranges{{0, 16}, {16, 24}});
  CHECK(column_ranges(support::Cutter{2}, 64) == Ranges{{0, 32}, {32, 32}});
  CHECK(column_ranges(posenc::detail::CallingThread{}, 40) == Ranges{{0, 40}});
}

}  // namespace parallel_for_test
