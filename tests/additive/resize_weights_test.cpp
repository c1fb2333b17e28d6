// SPDX-License-Identifier: MIT
// Weights of resized grids, by hand.
#include "support/catch.hpp"
#include <posenc/additive/grid_resize.hpp>
#include <posenc/additive/resize_weights.hpp>

#include <cstddef>
#include <numeric>
#include <vector>

namespace resize_weights_test {

using posenc::GridResizeConfig;
using posenc::Index;
using posenc::MatrixView;
using posenc::ResizeCoordinates;
using posenc::ResizeFilter;
using posenc::detail::ResizeWeights;

namespace {

/// Returns the weights of target cell `cell` of a 1-D grid: the resize of the identity.
std::vector<double> weights(const GridResizeConfig& config, Index cell) {
  const Index n = config.source.cols;
  std::vector<double> identity(static_cast<std::size_t>(n * n));
  for (Index i = 0; i < n; ++i) identity[static_cast<std::size_t>(i * n + i)] = 1;
  std::vector<double> out(static_cast<std::size_t>(config.target.cols * n));
  posenc::resize_grid(MatrixView<const double>{identity.data(), n, n},
                      MatrixView<double>{out.data(), config.target.cols, n}, config);
  return {out.data() + cell * n, out.data() + (cell + 1) * n};
}

}  // namespace

TEST_CASE("resize_grid: weights a quarter of a cell past a sample") {
  // Twice as many cells: the target's cell 3 lies at 1.25.
  const GridResizeConfig cubic{.source = {1, 4}, .target = {1, 8}, .filter = ResizeFilter::Bicubic};
  CHECK(weights(cubic, 3) == std::vector<double>{-0.10546875, 0.87890625, 0.26171875, -0.03515625});
  // Cell 1 is at 0.25, and the weight of samples left of the border is added to the border sample.
  CHECK(weights(cubic, 1) ==
        std::vector<double>{0.87890625 - 0.10546875, 0.26171875, -0.03515625, 0});

  auto linear = cubic;
  linear.filter = ResizeFilter::Bilinear;
  CHECK(weights(linear, 3) == std::vector<double>{0, 0.75, 0.25, 0});

  // Antialiasing without shrinking changes the cubic only, to a = -0.5.
  auto antialiased = cubic;
  antialiased.antialias = true;
  CHECK(weights(antialiased, 3) ==
        std::vector<double>{-0.0703125, 0.8671875, 0.2265625, -0.0234375});
  // Halving: a triangle filter two cells wide to either side, cut off at the border.
  const GridResizeConfig halved{
      .source = {1, 4}, .target = {1, 2}, .filter = ResizeFilter::Bilinear, .antialias = true};
  const auto hat = weights(halved, 0);
  CHECK(hat[0] == Approx(3.0 / 7).epsilon(1e-15));
  CHECK(hat[1] == Approx(3.0 / 7).epsilon(1e-15));
  CHECK(hat[2] == Approx(1.0 / 7).epsilon(1e-15));
  CHECK(hat[3] == 0);

  // The ends of an aligned grid are the ends of the source.
  auto aligned = linear;
  aligned.coordinates = ResizeCoordinates::AlignCorners;
  CHECK(weights(aligned, 0) == std::vector<double>{1, 0, 0, 0});
  CHECK(weights(aligned, 7) == std::vector<double>{0, 0, 0, 1});
}

TEST_CASE("resize_weights: a cell reads the samples within the radius of its filter alone",
          "[resize]") {
  const auto taps = [](ResizeFilter filter, Index cell) {
    const ResizeWeights weights({.source = 9, .target = 9, .filter = filter, .step = 1});
    const auto of_cell = weights[cell];
    return std::vector<Index>{of_cell.first, static_cast<Index>(of_cell.weights.size())};
  };
  CHECK(taps(ResizeFilter::Bilinear, 4) == std::vector<Index>{4, 2});
  CHECK(taps(ResizeFilter::Bicubic, 4) == std::vector<Index>{3, 4});
  CHECK(taps(ResizeFilter::Bicubic, 0) == std::vector<Index>{0, 3});
  CHECK(taps(ResizeFilter::Bicubic, 8) == std::vector<Index>{7, 2});
}

TEST_CASE("resize_weights: weights of a cell add up to 1, wherever its samples lie", "[resize]") {
  for (const auto filter : {ResizeFilter::Bilinear, ResizeFilter::Bicubic}) {
    for (const auto coordinates : {ResizeCoordinates::HalfPixel, ResizeCoordinates::AlignCorners,
                                   ResizeCoordinates::Geometric}) {
      for (const Index source : {1, 3, 13}) {
        for (const Index target : {1, 7, 23}) {
          if (coordinates == ResizeCoordinates::Geometric && filter != ResizeFilter::Bilinear) {
            continue;
          }
          const ResizeWeights all(
              {.source = source,
               .target = target,
               .filter = filter,
               .coordinates = coordinates,
               .step = static_cast<double>(source) / static_cast<double>(target)});
          CAPTURE(static_cast<int>(filter), static_cast<int>(coordinates), source, target);
          for (Index cell = 0; cell < target; ++cell) {
            const auto taps = all[cell];
            const auto count = static_cast<Index>(taps.weights.size());
            CHECK(taps.first >= 0);
            CHECK(taps.first + count <= source);
            CHECK(std::accumulate(taps.weights.begin(), taps.weights.end(), 0.0) ==
                  Approx(1).epsilon(1e-14));
          }
        }
      }
    }
  }
}

TEST_CASE("resize_weights: cells of a geometric grid that keeps its size are source cells",
          "[resize]") {
  const ResizeWeights same({.source = 3,
                            .target = 3,
                            .filter = ResizeFilter::Bilinear,
                            .coordinates = ResizeCoordinates::Geometric});
  for (Index cell = 0; cell < 3; ++cell) {
    CHECK(same[cell].first == cell);
    REQUIRE(same[cell].weights.size() == 1);
    CHECK(same[cell].weights[0] == 1);
  }
}

}  // namespace resize_weights_test
