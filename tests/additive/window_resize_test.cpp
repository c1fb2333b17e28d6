// SPDX-License-Identifier: MIT
// resize_grid on tables of relative positions, in timm's three ways.
#include "reference/grid_resize.hpp"
#include "reference/window_bias.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include "support/throws.hpp"
#include <posenc/additive/grid_resize.hpp>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace window_resize_test {

namespace {

using posenc::ConfigError;
using posenc::GridResizeConfig;
using posenc::GridShape;
using posenc::Index;
using posenc::MatrixView;
using posenc::ResizeCoordinates;
using posenc::ResizeFilter;
using support::message_of;

constexpr Index heads = 3;

template <class T>
MatrixView<T> table_of(std::vector<T>& values) {
  return {values.data(), static_cast<Index>(values.size()) / heads, heads};
}

GridResizeConfig geometric(GridShape source, GridShape target, Index suffix = 0) {
  return {.source = source,
          .target = target,
          .filter = ResizeFilter::Bilinear,
          .coordinates = ResizeCoordinates::Geometric,
          .suffix_tokens = suffix};
}

std::vector<double> random_table(GridShape shape, Index suffix) {
  std::vector<double> table(static_cast<std::size_t>((shape.rows * shape.cols + suffix) * heads));
  support::Random(6).fill_normal(table);
  return table;
}

std::vector<double> resized(std::vector<double> table, const GridResizeConfig& config) {
  const Index rows = config.target.rows * config.target.cols + config.suffix_tokens;
  std::vector<double> out(static_cast<std::size_t>(rows * heads));
  posenc::resize_grid(table_of(table), table_of(out), config);
  return out;
}

/// Computes out(y, x) = sum of rows(y, a) cols(x, b) table(a, b), and copies the rows after the
/// grid.
std::vector<double> weighted(const std::vector<double>& table, const reference::Matrix& rows,
                             const reference::Matrix& cols) {
  std::vector<double> out;
  for (Index y = 0; y < rows.rows; ++y) {
    for (Index x = 0; x < cols.rows; ++x) {
      for (Index h = 0; h < heads; ++h) {
        double sum = 0;
        for (Index a = 0; a < rows.cols; ++a) {
          for (Index b = 0; b < cols.cols; ++b) {
            const auto cell = static_cast<std::size_t>((a * cols.cols + b) * heads + h);
            sum += rows(y, a) * cols(x, b) * table[cell];
          }
        }
        out.push_back(sum);
      }
    }
  }
  out.insert(out.end(), table.begin() + rows.cols * cols.cols * heads, table.end());
  return out;
}

}  // namespace

TEST_CASE("resize_grid of window tables: from 7 to 12 tokens, by hand", "[resize]") {
  // A function that is linear in the distances stays linear.
  const std::vector<double> distances{1,           2.240723972, 3.780119948,
                                      5.690085437, 8.059825407, 11.0000186};
  std::vector<double> line(13), out(23);
  for (std::size_t n = 0; n < 6; ++n) {
    line[7 + n] = distances[n];
    line[5 - n] = -distances[n];
  }
  posenc::resize_grid(MatrixView<const double>{line.data(), 13, 1},
                      MatrixView<double>{out.data(), 23, 1}, geometric({1, 13}, {1, 23}));
  for (std::size_t n = 0; n < 23; ++n) {
    CHECK(out[n] == Approx(static_cast<double>(n) - 11).margin(1e-7));
  }
}

TEST_CASE("resize_grid of window tables: geometric resizes give the reference's numbers",
          "[resize]") {
  // Grids that are larger, smaller, beyond the range of q, changed on one axis alone (which changes
  // the other axis, too), and of one row.
  const std::vector<std::pair<GridShape, GridShape>> sizes{
      {{13, 13}, {23, 23}}, {{13, 13}, {7, 9}},   {{3, 5}, {31, 45}},
      {{13, 13}, {13, 15}}, {{1, 13}, {1, 23}},   {{1, 1}, {5, 3}},
      {{5, 3}, {1, 1}},     {{27, 27}, {31, 31}}, {{63, 1}, {127, 1}}};
  for (const auto& [source, target] : sizes) {
    CAPTURE(source.rows, source.cols, target.rows, target.cols);
    const auto config = geometric(source, target, 3);
    auto table = random_table(source, 3);
    const auto rows = reference::geometric_weights(source.rows, target.rows);
    const auto cols = reference::geometric_weights(source.cols, target.cols);
    const auto got = resized(table, config), want = weighted(table, rows, cols);
    REQUIRE(got.size() == want.size());
    CHECK(support::max_abs_difference(got, want) < 1e-11);

    // The adjoint is the transpose.
    auto y = random_table(target, 3);
    std::vector<double> wty(table.size(), 99);
    posenc::resize_grid_adjoint(table_of(y), table_of(wty), config);
    const double out_side = std::inner_product(got.begin(), got.end(), y.begin(), 0.0);
    const double in_side = std::inner_product(table.begin(), table.end(), wty.begin(), 0.0);
    CHECK(std::abs(out_side - in_side) < 1e-10);
  }
}

TEST_CASE("resize_grid of window tables: the same size is a copy", "[resize]") {
  const auto table = random_table({5, 7}, 3);
  CHECK(resized(table, geometric({5, 7}, {5, 7}, 3)) == table);
}

TEST_CASE(
    "resize_grid of window tables: the simple way and LeViT's are bicubic, around the class "
    "token's rows",
    "[resize]") {
  for (const bool antialias : {false, true}) {
    for (const GridShape target : {GridShape{23, 23}, GridShape{7, 9}}) {
      const GridResizeConfig config{.source = {13, 13},
                                    .target = target,
                                    .filter = ResizeFilter::Bicubic,
                                    .antialias = antialias,
                                    .suffix_tokens = 3};
      const auto table = random_table({13, 13}, 3);
      const reference::ResizeRule rule{.antialias = antialias};
      const auto want = weighted(table, reference::axis_weights(rule, 13, target.rows, 0),
                                 reference::axis_weights(rule, 13, target.cols, 0));
      CHECK(support::max_abs_difference(resized(table, config), want) < 1e-12);
    }
  }
}

TEST_CASE(
    "resize_grid of window tables: geometric resizes reject tables without a middle, and other "
    "kernels",
    "[resize]") {
  const auto refuse = [](const GridResizeConfig& config) {
    return message_of<ConfigError>(
        [&] { posenc::resize_grid(MatrixView<const float>{}, MatrixView<float>{}, config); });
  };
  auto config = geometric({13, 12}, {23, 23});
  CHECK(refuse(config) ==
        "posenc::resize_grid: Geometric needs a middle cell, so cols of source and target must be "
        "odd but are 12 and 23");
  config = geometric({13, 13}, {23, 23});
  config.filter = ResizeFilter::Bicubic;
  CHECK(refuse(config) == "posenc::resize_grid: Geometric requires Bilinear, not Bicubic");
  config = geometric({13, 13}, {23, 23});
  config.antialias = true;
  CHECK(refuse(config) == "posenc::resize_grid: antialias requires HalfPixel, not Geometric");
  config = geometric({13, 13}, {23, 23});
  config.row_scale = 23.0 / 13;
  CHECK(refuse(config).find("Geometric does not use a scale, but the scale of the rows is 1.76") !=
        std::string::npos);
  CHECK(refuse(geometric({13, 13}, {23, 23}, -1)) ==
        "posenc::resize_grid: suffix_tokens must not be negative but is -1");
  config = geometric({13, 13}, {23, 23}, std::numeric_limits<Index>::max());
  config.prefix_tokens = 1;
  CHECK(refuse(config) ==
        "posenc::resize_grid: prefix_tokens (1) and suffix_tokens (9223372036854775807) exceed "
        "2^63 - 1 together");
}

}  // namespace window_resize_test
