// SPDX-License-Identifier: MIT
// Positions of image patches in the orders of vision towers.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/tensor/grid_positions.hpp>

#include <limits>
#include <set>
#include <utility>
#include <vector>

namespace grid_positions_test {

using posenc::Index;
using posenc::Positions;
using posenc::ShapeError;
using support::message_of;

namespace {

std::vector<double> axis_of(const Positions& positions, Index axis, Index b = 0) {
  std::vector<double> values;
  for (Index s = 0; s < positions.count(); ++s) values.push_back(positions.at(b, s, axis));
  return values;
}

using Row = std::vector<double>;

}  // namespace

TEST_CASE("merge_block_grid: merge blocks are visited one after the other", "[positions]") {
  const auto grid = posenc::merge_block_grid({.rows = 4, .cols = 6, .merge = 2});
  CHECK(grid.axis_count() == 2);
  CHECK(grid.batch() == 1);
  CHECK(axis_of(grid, 0) == Row{0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1,  //
                                2, 2, 3, 3, 2, 2, 3, 3, 2, 2, 3, 3});
  CHECK(axis_of(grid, 1) == Row{0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5,  //
                                0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5});
  CHECK(grid.max_magnitude() == 5);

  // Qwen2-VL's algorithm gives the same order: [h/m, m, w/m, m] with the two middle axes exchanged.
  for (const Index m : {1, 2, 3}) {
    const auto positions =
        posenc::merge_block_grid({.frames = 2, .rows = 6, .cols = 12, .merge = m});
    REQUIRE(positions.count() == 2 * 6 * 12);
    Index s = 0;
    for (Index frame = 0; frame < 2; ++frame) {
      for (Index a = 0; a < 6 / m; ++a) {
        for (Index c = 0; c < 12 / m; ++c) {
          for (Index b = 0; b < m; ++b) {
            for (Index d = 0; d < m; ++d, ++s) {
              CHECK(positions.at(0, s, 0) == static_cast<double>(a * m + b));
              CHECK(positions.at(0, s, 1) == static_cast<double>(c * m + d));
            }
          }
        }
      }
    }
  }
  const auto plain = posenc::merge_block_grid({.rows = 3, .cols = 5}),
             grid35 = Positions::grid(3, 5);
  for (const Index axis : {0, 1}) CHECK(axis_of(plain, axis) == axis_of(grid35, axis));
  CHECK(posenc::merge_block_grid({.rows = 0, .cols = 4, .merge = 2}).count() == 0);
}

TEST_CASE("xy_grid: x runs fastest", "[positions]") {
  const auto grid = posenc::xy_grid(2, 3);
  CHECK(axis_of(grid, 0) == Row{0, 1, 2, 0, 1, 2});
  CHECK(axis_of(grid, 1) == Row{0, 0, 0, 1, 1, 1});
}

TEST_CASE("pixel_grid: pixels lie between -1 and 1", "[positions]") {
  const auto grid = posenc::pixel_grid({2, 3});
  CHECK(axis_of(grid, 0) == Row{-1, -1, -1, 1, 1, 1});
  CHECK(axis_of(grid, 1) == Row{-1, 0, 1, -1, 0, 1});
  const auto moved = posenc::pixel_grid({3, 1}, {0.25, -0.5});
  CHECK(axis_of(moved, 0) == Row{-0.75, 0.25, 1.25});
  CHECK(axis_of(moved, 1) == Row{-1.5, -1.5, -1.5});
  const auto cube = posenc::pixel_grid({2, 3, 4});
  CHECK(cube.axis_count() == 3);
  CHECK(cube.count() == 24);
  CHECK(cube.at(0, 23, 0) == 1);
  CHECK(cube.at(0, 12, 1) == -1);
  CHECK(cube.at(0, 13, 2) == Approx(-1.0 / 3));
  CHECK(posenc::pixel_grid({3, 0, 2}).count() == 0);
}

TEST_CASE("grid_positions: an axis of zeros is added behind the others", "[positions]") {
  const auto three =
      Positions::axes(std::array{Positions::starts({4, 9}, 2), Positions::starts({0, 1}, 2)});
  const auto four = posenc::with_zero_axis(three);
  CHECK(four.axis_count() == 3);
  CHECK(four.batch() == 2);
  for (const Index b : {0, 1}) {
    CHECK(axis_of(four, 0, b) == axis_of(three, 0, b));
    CHECK(axis_of(four, 1, b) == axis_of(three, 1, b));
    CHECK(axis_of(four, 2, b) == Row{0, 0});
  }
}

TEST_CASE("grid_positions: invalid grids are rejected", "[positions][errors]") {
  const auto error = [](const auto& call) { return message_of<ShapeError>(call); };
  CHECK(error([] { posenc::merge_block_grid({.rows = 4, .cols = 6}); }) == "nothing was thrown");
  CHECK(error([] { posenc::merge_block_grid({.rows = 4, .cols = 6, .merge = 0}); }) ==
        "posenc::merge_block_grid: merge (0) must divide the 4 rows and 6 columns");
  CHECK(error([] { posenc::merge_block_grid({.rows = 4, .cols = 5, .merge = 2}); }) ==
        "posenc::merge_block_grid: merge (2) must divide the 4 rows and 5 columns");
  CHECK(error([] { posenc::merge_block_grid({.rows = 3, .cols = 6, .merge = 2}); }) ==
        "posenc::merge_block_grid: merge (2) must divide the 3 rows and 6 columns");
  CHECK(error([] { posenc::merge_block_grid({.frames = -1, .rows = 2, .cols = 2}); }) ==
        "posenc::merge_block_grid: extents must not be negative but are [-1, 2, 2]");
  CHECK(error([] { posenc::xy_grid(Index{1} << 40, Index{1} << 40); }) ==
        "posenc::xy_grid: a grid of [1099511627776, 1099511627776] has too many cells");
  CHECK(
      error([] { posenc::pixel_grid({}); }) ==
      "posenc::pixel_grid: there must be one offset per axis, or none, and at least one axis, but "
      "there are 0 for the axes []");
  CHECK(
      error([] {
        posenc::pixel_grid({2, 2}, {0.5});
      }) ==
      "posenc::pixel_grid: there must be one offset per axis, or none, and at least one axis, but "
      "there are 1 for the axes [2, 2]");
  CHECK(message_of<posenc::PositionError>([] {
          posenc::pixel_grid({2}, {std::numeric_limits<double>::quiet_NaN()});
        }) == "posenc::pixel_grid: positions must be finite but one is nan");
}

}  // namespace grid_positions_test
