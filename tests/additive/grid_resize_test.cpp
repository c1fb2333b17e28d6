// SPDX-License-Identifier: MIT
// Tests resize_grid and its adjoint against the plain reference of torch's and timm's kernels.
#include "reference/grid_resize.hpp"

#include "additive/embeddings.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/cutter.hpp"
#include "support/random.hpp"
#include <posenc/additive/grid_resize.hpp>
#include <posenc/tensor/adapt.hpp>

#include <Eigen/Core>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace grid_resize_test {

namespace {

using Catch::Matchers::Message;
using posenc::GridResizeConfig;
using posenc::Index;
using posenc::MatrixView;
using posenc::ResizeCoordinates;
using posenc::ResizeFilter;

/// Returns a table view of consecutive rows.
template <class T>
MatrixView<T> table_of(std::vector<T>& values, Index cols) {
  return {values.data(), static_cast<Index>(values.size()) / cols, cols, cols};
}

reference::ResizeRule reference_rule(const GridResizeConfig& config) {
  return {.interpolation = config.filter == ResizeFilter::Bicubic
                               ? reference::Interpolation::Bicubic
                               : reference::Interpolation::Bilinear,
          .align_corners = config.coordinates == ResizeCoordinates::AlignCorners,
          .antialias = config.antialias,
          .row_scale = config.row_scale.value_or(0),
          .col_scale = config.col_scale.value_or(0)};
}

reference::GridSize reference_size(posenc::GridShape shape) { return {shape.rows, shape.cols}; }

Index table_rows(const GridResizeConfig& config, posenc::GridShape shape) {
  return config.prefix_tokens + shape.rows * shape.cols;
}

/// Returns filters, coordinates and antialiasing over grids that grow, shrink, do both, and have
/// one row.
std::vector<GridResizeConfig> all_configs() {
  std::vector<GridResizeConfig> configs;
  const std::vector<std::pair<posenc::GridShape, posenc::GridShape>> sizes{
      {{5, 7}, {9, 4}}, {{1, 8}, {1, 11}}, {{14, 14}, {3, 5}}, {{1, 1}, {3, 2}},
      {{3, 2}, {1, 1}}, {{6, 6}, {6, 6}},  {{2, 9}, {5, 9}}};
  for (const auto& [source, target] : sizes) {
    for (const auto filter : {ResizeFilter::Bilinear, ResizeFilter::Bicubic}) {
      for (const Index prefix : {0, 2}) {
        GridResizeConfig config{.source = source, .target = target, .filter = filter};
        config.prefix_tokens = prefix;
        configs.push_back(config);
        config.antialias = true;
        configs.push_back(config);
        config.antialias = false;
        config.coordinates = ResizeCoordinates::AlignCorners;
        configs.push_back(config);
      }
    }
  }
  for (const bool antialias : {false, true}) {
    // DINO's factors, and a factor that shrinks.
    configs.push_back({.source = {14, 14},
                       .target = {16, 24},
                       .filter = ResizeFilter::Bicubic,
                       .antialias = antialias,
                       .prefix_tokens = 1,
                       .row_scale = 16.1 / 14,
                       .col_scale = 24.1 / 14});
    configs.push_back({.source = {7, 9},
                       .target = {3, 9},
                       .filter = ResizeFilter::Bicubic,
                       .antialias = antialias,
                       .row_scale = 0.5});
  }
  return configs;
}

}  // namespace

TEMPLATE_TEST_CASE("resize_grid and its adjoint: give the reference's numbers", "", float, double,
                   Eigen::half, Eigen::bfloat16) {
  const Index width = GENERATE(1, 5);
  double worst = 0;
  for (const GridResizeConfig& config : all_configs()) {
    const auto rule = reference_rule(config);
    const auto source = reference_size(config.source), target = reference_size(config.target);
    GuardedEmbeddings<TestType> small(1, table_rows(config, config.source), width);
    GuardedEmbeddings<TestType> large(1, table_rows(config, config.target), width);
    const auto compare = [&](GuardedEmbeddings<TestType>& got, const reference::Matrix& want) {
      for (Index r = 0; r < want.rows; ++r) {
        for (Index c = 0; c < width; ++c) {
          // Sums of at most 196 terms of up to 6 in double, rounded once.
          const double allowed = rounding_of<TestType>(want(r, c)) * 1.001 + 1e-13;
          worst = std::max(worst, std::abs(got(0, r, c) - want(r, c)) / allowed);
        }
      }
    };

    small.fill(21);
    posenc::resize_grid(small.table(), large.table(), config);
    compare(large,
            reference::resize_grid(small.matrix(), source, target, rule, config.prefix_tokens));
    CHECK(large.guards_hold());

    large.fill(22);
    posenc::resize_grid_adjoint(large.table(), small.table(), config);
    compare(small, reference::resize_grid_adjoint(large.matrix(), source, target, rule,
                                                  config.prefix_tokens));
    CHECK(small.guards_hold());
    CHECK(large.guards_hold());
  }
  CHECK(worst <= 1);
}

TEST_CASE("resize_grid: keeps constants, and grids that keep their size") {
  for (const GridResizeConfig& config : all_configs()) {
    const Index rows = table_rows(config, config.source);
    std::vector<double> table(static_cast<std::size_t>(rows * 2), 3.25);
    std::vector<double> out(static_cast<std::size_t>(table_rows(config, config.target) * 2));
    posenc::resize_grid(table_of(table, 2), table_of(out, 2), config);
    const std::vector<double> constant(out.size(), 3.25);
    CHECK(support::max_abs_difference(out, constant) < 1e-13);

    if (table.size() == out.size() && !config.row_scale) {
      support::Random(1).fill_normal(table);
      posenc::resize_grid(table_of(table, 2), table_of(out, 2), config);
      CHECK(out == table);
    }
  }
}

TEST_CASE("resize_grid_adjoint: is the transpose of resize_grid") {
  support::Random random(8);
  for (const GridResizeConfig& config : all_configs()) {
    std::vector<double> x(static_cast<std::size_t>(table_rows(config, config.source) * 3));
    std::vector<double> y(static_cast<std::size_t>(table_rows(config, config.target) * 3));
    std::vector<double> wx(y.size()), wty(x.size(), 99);  // overwritten, not added to
    random.fill_normal(x);
    random.fill_normal(y);
    posenc::resize_grid(table_of(x, 3), table_of(wx, 3), config);
    posenc::resize_grid_adjoint(table_of(y, 3), table_of(wty, 3), config);
    const double out_side = std::inner_product(wx.begin(), wx.end(), y.begin(), 0.0);
    const double in_side = std::inner_product(x.begin(), x.end(), wty.begin(), 0.0);
    CHECK(std::abs(out_side - in_side) < 1e-11);
  }
}

TEST_CASE("resize_grid and its adjoint: write each column once, however work is split",
          "[threads]") {
  const GridResizeConfig config{
      .source = {2, 3}, .target = {3, 4}, .filter = ResizeFilter::Bicubic, .prefix_tokens = 1};
  constexpr Index width = 37;
  std::vector<double> x(7 * width), y(13 * width), part = y, adjoint = x, part_adjoint = x;
  support::Random random(3);
  random.fill_normal(x);
  posenc::resize_grid(table_of(x, width), table_of(y, width), config);
  posenc::resize_grid(table_of(x, width), table_of(part, width), config, support::Cutter{1});
  CHECK(part == y);
  posenc::resize_grid_adjoint(table_of(y, width), table_of(adjoint, width), config);
  posenc::resize_grid_adjoint(table_of(y, width), table_of(part_adjoint, width), config,
                              support::Cutter{1});
  CHECK(part_adjoint == adjoint);
}

TEST_CASE("resize_grid: takes row-major matrices, and the transposes of column-major ones") {
  const GridResizeConfig config{
      .source = {2, 3}, .target = {4, 4}, .filter = ResizeFilter::Bicubic, .prefix_tokens = 1};
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> table(7, 2), out(17, 2);
  support::Random random(5);
  for (Index r = 0; r < 7; ++r) {
    for (Index d = 0; d < 2; ++d) table(r, d) = static_cast<float>(random.normal());
  }
  const Eigen::MatrixXf mirrored = table.transpose();
  Eigen::MatrixXf mirrored_out(2, 17);
  posenc::resize_grid(posenc::table_view(table), posenc::table_view(out), config);
  posenc::resize_grid(posenc::table_view(mirrored.transpose()),
                      posenc::table_view(mirrored_out.transpose()), config);
  for (Index d = 0; d < 2; ++d) {
    CHECK(out(0, d) == table(0, d));
    for (Index r = 0; r < 17; ++r) CHECK(mirrored_out(d, r) == out(r, d));
  }
}

TEST_CASE("resize_grid: tables without columns are left alone") {
  const GridResizeConfig config{
      .source = {2, 2}, .target = {3, 3}, .filter = ResizeFilter::Bilinear, .prefix_tokens = 1};
  const MatrixView<float> small{.rows = 5, .cols = 0}, large{.rows = 10, .cols = 0};
  CHECK_NOTHROW(posenc::resize_grid(small, large, config));
  CHECK_NOTHROW(posenc::resize_grid_adjoint(large, small, config));
}

TEST_CASE("resize_grid and its adjoint: reject bad settings by name") {
  std::vector<float> from(4), to(9);
  const auto check = [&](GridResizeConfig config, const std::string& message) {
    CHECK_THROWS_MATCHES(
        posenc::resize_grid({from.data(), 4, 1, 1}, MatrixView<float>{to.data(), 9, 1, 1}, config),
        posenc::ConfigError, Message("posenc::resize_grid: " + message));
    CHECK_THROWS_MATCHES(posenc::resize_grid_adjoint(
                             {to.data(), 9, 1, 1}, MatrixView<float>{from.data(), 4, 1, 1}, config),
                         posenc::ConfigError, Message("posenc::resize_grid_adjoint: " + message));
  };
  const GridResizeConfig good{.source = {2, 2}, .target = {3, 3}, .filter = ResizeFilter::Bicubic};
  const auto with = [&](auto&& change) {
    auto config = good;
    change(config);
    return config;
  };
  check(with([](auto& c) { c.filter = ResizeFilter::Unspecified; }),
        "filter must be set to Bilinear or Bicubic");
  check(with([](auto& c) { c.source = {}; }),
        "rows of source and target must be set and positive but are 0 and 3");
  check(with([](auto& c) {
          c.target = {3, 0};
        }),
        "cols of source and target must be set and positive but are 2 and 0");
  check(with([](auto& c) { c.prefix_tokens = -1; }),
        "prefix_tokens must not be negative but is -1");
  check(with([](auto& c) {
          c.antialias = true;
          c.coordinates = ResizeCoordinates::AlignCorners;
        }),
        "antialias requires HalfPixel, not AlignCorners");
  check(with([](auto& c) {
          c.col_scale = 1.5;
          c.coordinates = ResizeCoordinates::AlignCorners;
        }),
        "AlignCorners does not use a scale, but the scale of the cols is 1.5");
  for (const Index source : {2, 3}) {
    check(with([&](auto& c) {
            c.source.rows = source;
            c.target.rows = 5 - source;
            c.filter = ResizeFilter::Bilinear;
            c.coordinates = ResizeCoordinates::Geometric;
          }),
          "Geometric needs a middle cell, so rows of source and target must be odd but are " +
              std::to_string(source) + " and " + std::to_string(5 - source));
  }
  check(with([](auto& c) { c.row_scale = 2; }), "a scale of 2 must resize 2 rows to 3, not to 4");
  check(with([](auto& c) { c.col_scale = std::nan(""); }),
        "a scale of nan must resize 2 cols to 3, not to nan");
}

TEST_CASE("resize_grid and its adjoint: reject tables that do not fit, and write nothing") {
  using posenc::ShapeError;
  std::vector<float> from(10, 1.0f), to(22, 2.0f);
  const GridResizeConfig config{
      .source = {2, 2}, .target = {2, 5}, .filter = ResizeFilter::Bicubic, .prefix_tokens = 1};
  const MatrixView<float> small{from.data(), 5, 2, 2}, large{to.data(), 11, 2, 2};
  const MatrixView<float> short_small{from.data(), 4, 2, 2}, long_large{to.data(), 22, 1, 1};
  const MatrixView<float> narrow{to.data(), 11, 1, 2};

  CHECK_THROWS_MATCHES(
      posenc::resize_grid(short_small, large, config), ShapeError,
      Message("posenc::resize_grid: table must have 1 + 2 * 2 rows but is [4, 2]"));
  CHECK_THROWS_MATCHES(posenc::resize_grid(small, long_large, config), ShapeError,
                       Message("posenc::resize_grid: out must have 1 + 2 * 5 rows but is [22, 1]"));
  CHECK_THROWS_MATCHES(posenc::resize_grid(small, narrow, config), ShapeError,
                       Message("posenc::resize_grid: both tables must have the same width but are "
                               "[5, 2] and [11, 1]"));
  CHECK_THROWS_MATCHES(
      posenc::resize_grid_adjoint(long_large, small, config), ShapeError,
      Message("posenc::resize_grid_adjoint: grad_out must have 1 + 2 * 5 rows but is [22, 1]"));
  CHECK_THROWS_MATCHES(
      posenc::resize_grid_adjoint(large, short_small, config), ShapeError,
      Message("posenc::resize_grid_adjoint: grad_table must have 1 + 2 * 2 rows but is [4, 2]"));
  CHECK_THROWS_MATCHES(posenc::resize_grid_adjoint(narrow, small, config), ShapeError,
                       Message("posenc::resize_grid_adjoint: both tables must have the same width "
                               "but are [11, 1] and [5, 2]"));

  auto same = config;
  same.target = same.source;
  CHECK_THROWS_MATCHES(posenc::resize_grid(small, small, same), ShapeError,
                       Message("posenc::resize_grid: the tables must not share memory; they are "
                               "[5, 2] and [5, 2]"));
  CHECK_THROWS_AS(posenc::resize_grid_adjoint(small, small, same), ShapeError);
#if POSENC_CHECKED
  const MatrixView<float> shifted{to.data() + 2, 5, 2, 2};
  CHECK_THROWS_AS(posenc::resize_grid(shifted, large, config), ShapeError);
#endif
  CHECK(from == std::vector<float>(10, 1.0f));
  CHECK(to == std::vector<float>(22, 2.0f));
}

}  // namespace grid_resize_test
