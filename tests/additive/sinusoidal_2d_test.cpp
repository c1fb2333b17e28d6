// SPDX-License-Identifier: MIT
// Tests Sinusoidal2d against the plain reference, over orders of axes and forms of positions.
#include "additive/embeddings.hpp"
#include "reference/sinusoidal.hpp"
#include "support/catch.hpp"
#include <posenc/additive/sinusoidal_2d.hpp>
#include <posenc/concepts.hpp>
#include <posenc/tensor/eigen.hpp>

#include <Eigen/Core>
#include <unsupported/Eigen/CXX11/Tensor>

#include <array>
#include <cmath>
#include <utility>
#include <vector>

namespace sinusoidal_2d_test {

namespace {

using Catch::Matchers::Message;
using posenc::GridAxisOrder;
using posenc::Index;
using posenc::Positions;
using posenc::Sinusoidal2d;
using posenc::SinusoidalLayout;

static_assert(posenc::AdditiveEncoding<Sinusoidal2d, float>);
static_assert(posenc::AdditiveEncoding<Sinusoidal2d, double>);
static_assert(posenc::AdditiveEncoding<Sinusoidal2d, Eigen::half>);
static_assert(posenc::AdditiveEncoding<Sinusoidal2d, Eigen::bfloat16>);

struct LayoutPair {
  SinusoidalLayout ours;
  reference::SinusoidalLayout theirs;
};
constexpr std::array layouts{
    LayoutPair{SinusoidalLayout::Interleaved, reference::SinusoidalLayout::Interleaved},
    LayoutPair{SinusoidalLayout::Concatenated, reference::SinusoidalLayout::Concatenated},
    LayoutPair{SinusoidalLayout::ConcatenatedEndInclusive,
               reference::SinusoidalLayout::ConcatenatedEndInclusive}};

std::vector<float> written(const Sinusoidal2d& encoding, Index batch, Index seq,
                           const Positions& positions) {
  const Index dim = encoding.model_dim();
  std::vector<float> out(static_cast<std::size_t>(batch * seq * dim));
  encoding.write_to(posenc::EmbeddingsView<float>{out.data(), batch, seq, dim, seq * dim, dim},
                    positions);
  return out;
}

}  // namespace

TEMPLATE_TEST_CASE("Sinusoidal2d: writes and adds the reference's numbers", "", float, double,
                   Eigen::half, Eigen::bfloat16) {
  const auto layout = GENERATE(from_range(layouts));
  const auto order = GENERATE(GridAxisOrder::ColumnFirst, GridAxisOrder::RowFirst);
  const Index width = GENERATE(4, 6, 8, 64, 1030);
  const double base = width == 64 ? 500 : 10000;
  constexpr Index rows = 5, cols = 3, cells = rows * cols;
  const auto table = reference::sinusoidal_grid(layout.theirs,
                                                order == GridAxisOrder::ColumnFirst
                                                    ? reference::GridAxisOrder::ColumnFirst
                                                    : reference::GridAxisOrder::RowFirst,
                                                width, rows, cols, base);
  const Sinusoidal2d encoding(
      {.model_dim = width, .axis_order = order, .layout = layout.ours, .base = base});

  GuardedEmbeddings<TestType> out(2, cells, width), x(2, cells, width), before(2, cells, width);
  x.fill(5);
  before.fill(5);
  encoding.write_to(out.view(), Positions::grid(rows, cols));
  encoding.add_to(x.view(), Positions::grid(rows, cols));
  double worst = 0;
  for (Index b = 0; b < 2; ++b) {
    for (Index s = 0; s < cells; ++s) {
      for (Index d = 0; d < width; ++d) {
        const double want = table(s, d), sum = before(b, s, d) + want;
        // A sum has the rounding error of its second term as well.
        const double term = rounding_of<posenc::Compute<TestType>>(1) + 5.2e-16;
        worst = std::max({worst,
                          std::abs(out(b, s, d) - want) / (rounding_of<TestType>(want) + 5.2e-16),
                          std::abs(x(b, s, d) - sum) / (rounding_of<TestType>(sum) + 2 * term)});
      }
    }
  }
  CAPTURE(width, static_cast<int>(layout.ours), static_cast<int>(order));
  CHECK(worst <= 1.001);
  CHECK(out.guards_hold());
  CHECK(x.guards_hold());
}

TEST_CASE("Sinusoidal2d: the first half is the axis that the order names") {
  constexpr Index rows = 2, cols = 3;
  const auto at = [&](GridAxisOrder order, Index row, Index col) {
    const auto all = written(
        Sinusoidal2d(
            {.model_dim = 8, .axis_order = order, .layout = SinusoidalLayout::Concatenated}),
        1, rows * cols, Positions::grid(rows, cols));
    const auto* cell = all.data() + (row * cols + col) * 8;
    return std::vector<float>(cell, cell + 8);
  };
  const auto column_first = at(GridAxisOrder::ColumnFirst, 1, 2);
  const auto row_first = at(GridAxisOrder::RowFirst, 1, 2);
  CHECK(column_first[0] == Approx(std::sin(2.0)));  // the column is 2
  CHECK(column_first[4] == Approx(std::sin(1.0)));  // the row is 1
  CHECK(row_first[0] == Approx(std::sin(1.0)));
  CHECK(row_first[4] == Approx(std::sin(2.0)));
  // Each half alone depends on one coordinate only.
  const auto above = at(GridAxisOrder::ColumnFirst, 0, 2);
  CHECK(std::equal(above.begin(), above.begin() + 4, column_first.begin()));
  CHECK_FALSE(std::equal(above.begin() + 4, above.end(), column_first.begin() + 4));
}

TEST_CASE("Sinusoidal2d: positions a batch row, real coordinates, column-major tensors") {
  const Sinusoidal2d encoding({.model_dim = 12,
                               .axis_order = GridAxisOrder::RowFirst,
                               .layout = SinusoidalLayout::Interleaved});
  const std::vector<double> row_of{0, 0.5, -2, 7, 7, 0.25}, col_of{3, 1.5, 0, -1, 4, 9};
  const std::array axes{Positions::real(2, row_of), Positions::real(2, col_of)};
  const auto both = Positions::axes(axes);
  const auto out = written(encoding, 2, 3, both);
  for (std::size_t t = 0; t < 6; ++t) {
    for (std::int64_t d = 0; d < 6; ++d) {
      const auto want = [&](double position) {
        return reference::sinusoidal_channel(reference::SinusoidalLayout::Interleaved, 6, d,
                                             position, 10000);
      };
      CHECK(static_cast<double>(out[t * 12 + static_cast<std::size_t>(d)]) ==
            Approx(want(row_of[t])).margin(6e-8));
      CHECK(static_cast<double>(out[t * 12 + 6 + static_cast<std::size_t>(d)]) ==
            Approx(want(col_of[t])).margin(6e-8));
    }
  }
  // A column-major tensor with reversed axes has the same order in memory.
  Eigen::Tensor<float, 3> column_major(12, 3, 2);
  encoding.write_to(posenc::dsb(column_major), both);
  CHECK(std::equal(out.begin(), out.end(), column_major.data()));
}

TEST_CASE("Sinusoidal2d: leaves prefix tokens to slice_seq") {
  const Sinusoidal2d encoding({.model_dim = 8,
                               .axis_order = GridAxisOrder::ColumnFirst,
                               .layout = SinusoidalLayout::Concatenated});
  Eigen::Tensor<float, 3, Eigen::RowMajor> x(2, 1 + 4, 8);
  x.setConstant(-0.0f);
  encoding.add_to(posenc::slice_seq(posenc::bsd(x), 1, 4), Positions::grid(2, 2));
  const auto grid = written(encoding, 1, 4, Positions::grid(2, 2));
  for (Index b = 0; b < 2; ++b) {
    for (Index d = 0; d < 8; ++d) {
      CHECK(std::signbit(x(b, 0, d)));
      for (Index s = 0; s < 4; ++s) {
        CHECK(x(b, 1 + s, d) == grid[static_cast<std::size_t>(s * 8 + d)]);
      }
    }
  }
}

TEST_CASE("Sinusoidal2d: empty tensors are left alone") {
  const Sinusoidal2d encoding({.model_dim = 4,
                               .axis_order = GridAxisOrder::RowFirst,
                               .layout = SinusoidalLayout::Interleaved});
  const posenc::EmbeddingsView<float> no_tokens{.batch = 2, .seq = 0, .dim = 4};
  const posenc::EmbeddingsView<float> no_batch{.batch = 0, .seq = 6, .dim = 4};
  CHECK_NOTHROW(encoding.add_to(no_tokens, Positions::grid(0, 7)));
  CHECK_NOTHROW(encoding.write_to(no_batch, Positions::grid(2, 3)));
}

TEST_CASE("Sinusoidal2d: rejects bad settings by name") {
  using posenc::ConfigError;
  const auto make = [](posenc::Sinusoidal2dConfig config) { return Sinusoidal2d(config); };
  constexpr auto row_first = GridAxisOrder::RowFirst;
  constexpr auto concatenated = SinusoidalLayout::Concatenated;
  for (const Index width : {0, -4, 9}) {
    CHECK_THROWS_MATCHES(
        make({.model_dim = width, .axis_order = row_first, .layout = concatenated}), ConfigError,
        Message("posenc::Sinusoidal2d: model_dim must be set, positive and even but is " +
                std::to_string(width)));
  }
  CHECK_THROWS_MATCHES(
      make({.model_dim = 8, .layout = concatenated}), ConfigError,
      Message("posenc::Sinusoidal2d: axis_order must be set to ColumnFirst or RowFirst"));
  CHECK_THROWS_MATCHES(
      make({.model_dim = 8, .axis_order = row_first}), ConfigError,
      Message("posenc::Sinusoidal2d: layout must be set to Interleaved, Concatenated or "
              "ConcatenatedEndInclusive"));
  CHECK_THROWS_MATCHES(make({.model_dim = 2, .axis_order = row_first, .layout = concatenated}),
                       ConfigError,
                       Message("posenc::Sinusoidal2d: a concatenated layout needs at least 2 "
                               "channels per axis but has 1"));
  CHECK_THROWS_MATCHES(
      make({.model_dim = 8, .axis_order = row_first, .layout = concatenated, .base = 0}),
      ConfigError,
      Message("posenc::Sinusoidal2d: base must be set, finite and greater than 1, but is 0"));
}

TEST_CASE("Sinusoidal2d: rejects tensors and positions that do not fit") {
  const Sinusoidal2d encoding({.model_dim = 8,
                               .axis_order = GridAxisOrder::RowFirst,
                               .layout = SinusoidalLayout::Interleaved});
  GuardedEmbeddings<float> x(1, 6, 8), narrow(1, 6, 4);
  const auto grid = Positions::grid(2, 3);
  CHECK_THROWS_MATCHES(
      encoding.add_to(narrow.view(), grid), posenc::ShapeError,
      Message("posenc::Sinusoidal2d::add_to: x must be [B, S, 8] but is [1, 6, 4]"));
  CHECK_THROWS_MATCHES(
      encoding.write_to(narrow.view(), grid), posenc::ShapeError,
      Message("posenc::Sinusoidal2d::write_to: x must be [B, S, 8] but is [1, 6, 4]"));
  CHECK_THROWS_MATCHES(
      encoding.add_to(x.view(), Positions::range(0, 6)), posenc::ShapeError,
      Message("posenc::Sinusoidal2d::add_to: positions must have 2 axes but have 1"));
  CHECK_THROWS_MATCHES(encoding.write_to(x.view(), Positions::grid(2, 4)), posenc::ShapeError,
                       Message("posenc::Sinusoidal2d::write_to: positions [1, 8] must match batch "
                               "and sequence of x, which is [1, 6, 8]"));

  const std::vector<double> near{0, 1, 2, 3, 4, 5}, far{0, 1, 2, 3, 4, 0x1p51};
  const std::array axes{Positions::real(near), Positions::real(far)};
  CHECK_THROWS_MATCHES(encoding.add_to(x.view(), Positions::axes(axes)), posenc::PositionError,
                       Message("posenc::Sinusoidal2d::add_to: angles must not exceed 2^50 radians, "
                               "but a position has magnitude 2251799813685248 and the fastest "
                               "inv_freq is 1"));
  CHECK_THROWS_AS(encoding.write_to(x.view(), Positions::axes(axes)), posenc::PositionError);
  CHECK(std::isnan(x(0, 0, 0)));
}

TEST_CASE("Sinusoidal2d: encodes as before after it was moved from") {
  for (const LayoutPair& layout : layouts) {
    Sinusoidal2d encoding(
        {.model_dim = 64, .axis_order = GridAxisOrder::RowFirst, .layout = layout.ours});
    const auto before = written(encoding, 1, 6, Positions::grid(2, 3));
    const Sinusoidal2d taken = std::move(encoding);
    CHECK(written(taken, 1, 6, Positions::grid(2, 3)) == before);
    // NOLINTNEXTLINE(bugprone-use-after-move)
    CHECK(written(encoding, 1, 6, Positions::grid(2, 3)) == before);
  }
}

}  // namespace sinusoidal_2d_test
