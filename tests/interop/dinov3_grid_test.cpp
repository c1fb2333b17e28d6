// SPDX-License-Identifier: MIT
// Positions of DINOv3's patches, and their augmentation in training.
#include "accuracy/promises.hpp"
#include "reference/grid_rope.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/interop/dinov3_grid.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace dinov3_grid_test {

using posenc::Dinov3Augmentation;
using posenc::Index;
using posenc::PatchNormalization;
using posenc::Positions;
using support::message_of;

namespace {

const double two_pi = 2 * std::acos(-1.0);

const std::vector<std::pair<PatchNormalization, std::string>> normalizations{
    {PatchNormalization::Separate, "separate"},
    {PatchNormalization::Max, "max"},
    {PatchNormalization::Min, "min"}};

/// Returns the coordinate of a token on an axis.
double coordinate(const Positions& positions, Index token, Index axis) {
  return positions.at(0, token, axis) / two_pi;
}

}  // namespace

TEST_CASE("dinov3_grid: patches of a grid of 2 x 3 by hand", "[positions][dinov3]") {
  const double third = 2.0 / 3;
  const std::vector<double> wide{-third, 0, third}, wider{-0.5, 0.5, 1.5};
  const auto check = [](PatchNormalization how, const std::vector<double>& y,
                        const std::vector<double>& x) {
    const auto grid = posenc::dinov3_grid({.rows = 2, .cols = 3}, how);
    REQUIRE(grid.axis_count() == 2);
    REQUIRE(grid.count() == 6);
    for (Index cell = 0; cell < 6; ++cell) {
      CHECK(coordinate(grid, cell, 0) ==
            Approx(y[static_cast<std::size_t>(cell / 3)]).margin(1e-15));
      CHECK(coordinate(grid, cell, 1) ==
            Approx(x[static_cast<std::size_t>(cell % 3)]).margin(1e-15));
    }
  };
  check(PatchNormalization::Separate, {-0.5, 0.5}, wide);
  check(PatchNormalization::Max, {-third, 0}, wide);
  check(PatchNormalization::Min, {-0.5, 0.5}, wider);
}

TEST_CASE("dinov3_grid: patches stand where the model's own code puts them",
          "[positions][dinov3]") {
  for (const auto& [how, name] : normalizations) {
    for (const auto& [rows, cols] : {std::pair<Index, Index>{1, 1}, {14, 14}, {7, 31}, {64, 3}}) {
      INFO(name << ", " << rows << " x " << cols);
      const auto grid = posenc::dinov3_grid({.rows = rows, .cols = cols, .prefix_tokens = 5}, how);
      const auto expected = reference::dinov3_coordinates(rows, cols, name);
      REQUIRE(grid.count() == static_cast<Index>(expected.size()) + 5);
      double worst = 0;
      for (Index token = 0; token < grid.count(); ++token) {
        for (const Index axis : {0, 1}) {
          const double found = coordinate(grid, token, axis);
          if (token < 5) CHECK(found == 0);
          if (token >= 5) {
            const double right =
                expected[static_cast<std::size_t>(token - 5)][static_cast<std::size_t>(axis)];
            worst = std::max(worst, std::abs(found - right) / std::max(1.0, std::abs(right)));
          }
        }
      }
      CHECK(worst < 1e-15);
    }
  }
  CHECK(posenc::dinov3_grid({.rows = 0, .cols = 9, .prefix_tokens = 1}, PatchNormalization::Min)
            .count() == 1);
}

TEST_CASE("dinov3_grid: patches are placed as exactly as doubles can", "[positions][dinov3]") {
  const long double pi = std::acos(-1.0L);
  for (const Index n : {1, 2, 3, 7, 14, 37, 224, 1000}) {
    const auto grid = posenc::dinov3_grid({.rows = 1, .cols = n}, PatchNormalization::Separate);
    long double worst = 0;
    for (Index k = 0; k < n; ++k) {
      const double found = grid.at(0, k, 1);
      const long double right =
          2 * pi * static_cast<long double>(2 * k + 1 - n) / static_cast<long double>(n);
      const double size = std::abs(found);
      const double ulp = std::nextafter(size, std::numeric_limits<double>::infinity()) - size;
      const long double error = std::abs(static_cast<long double>(found) - right);
      worst = std::max(worst, error / static_cast<long double>(ulp));
    }
    CHECK(worst <= static_cast<long double>(promises::dinov3_grid.value()));
  }
}

TEST_CASE("dinov3_grid: what training draws is a function of the seed, within its bounds",
          "[positions][dinov3]") {
  double least_shift = 1, most_shift = -1, least_scale = 9, most_scale = 0;
  double same_jitter = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Dinov3Augmentation how{.shift = 0.25, .jitter = 2, .rescale = 1.5, .seed = seed};
    const auto move = posenc::draw_dinov3_augmentation(how),
               again = posenc::draw_dinov3_augmentation(how);
    REQUIRE(move.shift == again.shift);
    REQUIRE(move.scale == again.scale);
    for (const std::size_t axis : {0u, 1u}) {
      least_shift = std::min(least_shift, move.shift[axis]);
      most_shift = std::max(most_shift, move.shift[axis]);
      least_scale = std::min(least_scale, move.scale[axis]);
      most_scale = std::max(most_scale, move.scale[axis]);
    }
    same_jitter += move.scale[0] == move.scale[1] ? 1 : 0;
    // Rescaling alone is equal on both axes, and draws the same number as together with the others.
    const auto both = posenc::draw_dinov3_augmentation({.rescale = 1.5, .seed = seed});
    CHECK(both.shift == std::array{0.0, 0.0});
    CHECK(both.scale[0] == both.scale[1]);
    const auto jitter = posenc::draw_dinov3_augmentation({.jitter = 2, .seed = seed});
    for (const std::size_t axis : {0u, 1u}) {
      CHECK(move.scale[axis] == Approx(jitter.scale[axis] * both.scale[axis]));
    }
  }
  CHECK(least_shift >= -0.25);
  CHECK(least_shift < -0.249);
  CHECK(most_shift <= 0.25);
  CHECK(most_shift > 0.249);
  CHECK(least_scale >= 1.0 / 3);
  CHECK(least_scale < 0.36);
  CHECK(most_scale <= 3);
  CHECK(most_scale > 2.8);
  CHECK(same_jitter == 0);
  const auto other = posenc::draw_dinov3_augmentation({.shift = 0.25, .seed = 1});
  CHECK_FALSE(other.shift == posenc::draw_dinov3_augmentation({.shift = 0.25, .seed = 2}).shift);
}

TEST_CASE("dinov3_grid: half of what is log-uniform lies below 1", "[positions][dinov3]") {
  int below = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    below += posenc::draw_dinov3_augmentation({.rescale = 4, .seed = seed}).scale[0] < 1 ? 1 : 0;
  }
  CHECK(std::abs(below - 2000) < 200);
}

TEST_CASE("dinov3_grid: patches are shifted before they are stretched", "[positions][dinov3]") {
  const Dinov3Augmentation how{.shift = 0.5, .jitter = 1.25, .rescale = 2, .seed = 77};
  const auto move = posenc::draw_dinov3_augmentation(how);
  for (const auto& [normalization, name] : normalizations) {
    const posenc::Dinov3Grid size{.rows = 5, .cols = 8, .prefix_tokens = 1};
    const auto plain = posenc::dinov3_grid(size, normalization);
    const auto moved = posenc::dinov3_grid(size, normalization, how);
    CHECK(moved.at(0, 0, 0) == 0);
    CHECK(moved.at(0, 0, 1) == 0);
    for (Index token = 1; token < plain.count(); ++token) {
      for (const Index axis : {0, 1}) {
        const auto at = static_cast<std::size_t>(axis);
        CHECK(coordinate(moved, token, axis) ==
              Approx((coordinate(plain, token, axis) + move.shift[at]) * move.scale[at])
                  .margin(1e-14));
      }
    }
  }
}

TEST_CASE("dinov3_grid: invalid grids and augmentations are rejected",
          "[positions][dinov3][errors]") {
  const auto shape = [](posenc::Dinov3Grid grid) {
    return message_of<posenc::ShapeError>(
        [&] { posenc::dinov3_grid(grid, PatchNormalization::Separate); });
  };
  CHECK(shape({.rows = 2, .cols = 2}) == "nothing was thrown");
  CHECK(shape({.rows = -1, .cols = 2}) ==
        "posenc::dinov3_grid: extents must not be negative but are [-1, 2]");
  CHECK(shape({.rows = Index{1} << 40, .cols = Index{1} << 40}) ==
        "posenc::dinov3_grid: a grid of [1099511627776, 1099511627776] has too many cells");
  CHECK(shape({.rows = 2, .cols = 2, .prefix_tokens = -4}) ==
        "posenc::dinov3_grid: prefix_tokens must not be negative, and at most 2^53 with the "
        "patches, but are -4");
  CHECK_THAT(shape({.rows = 2, .cols = 2, .prefix_tokens = (Index{1} << 53) - 3}),
             Catch::Matchers::ContainsSubstring("prefix_tokens"));
  const auto config = [](Dinov3Augmentation how) {
    return message_of<posenc::ConfigError>([&] { posenc::draw_dinov3_augmentation(how); });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(config({.shift = -0.5}) ==
        "posenc::draw_dinov3_augmentation: shift must be finite and not negative but is -0.5");
  CHECK(config({.shift = nan}) ==
        "posenc::draw_dinov3_augmentation: shift must be finite and not negative but is nan");
  CHECK(config({.jitter = 1e100}) == "nothing was thrown");
  CHECK(config({.jitter = 0.5}) ==
        "posenc::draw_dinov3_augmentation: jitter must lie between 1 and 1e100 but is 0.5");
  CHECK(config({.rescale = 1e101}) ==
        "posenc::draw_dinov3_augmentation: rescale must lie between 1 and 1e100 but is 1e+101");
  CHECK(message_of<posenc::ConfigError>([] {
          posenc::dinov3_grid({.rows = 2, .cols = 2}, PatchNormalization::Max, {.rescale = 0});
        }) == "posenc::draw_dinov3_augmentation: rescale must lie between 1 and 1e100 but is 0");
}

}  // namespace dinov3_grid_test
