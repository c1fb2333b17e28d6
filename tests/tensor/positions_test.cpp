// SPDX-License-Identifier: MIT
// Values of every form of Positions.
#include "support/catch.hpp"
#include <posenc/tensor/adapt.hpp>
#include <posenc/tensor/positions.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace positions_test {

using posenc::Index;
using posenc::Positions;

namespace {

constexpr Index limit = Index{1} << 53;

/// Returns the positions of one batch row on one axis.
std::vector<double> row(const Positions& positions, Index b = 0, Index axis = 0) {
  std::vector<double> values;
  for (Index s = 0; s < positions.count(); ++s) values.push_back(positions.at(b, s, axis));
  return values;
}

using Row = std::vector<double>;

}  // namespace

TEST_CASE("Positions: range counts from its start", "[positions]") {
  const Positions p = Positions::range(5, 3);
  CHECK(p.batch() == 1);
  CHECK(p.count() == 3);
  CHECK(p.axis_count() == 1);
  CHECK(row(p) == Row{5, 6, 7});
  CHECK(p.max_magnitude() == 7);
  CHECK(p.integral());
  CHECK(row(Positions::range(-2, 4)) == Row{-2, -1, 0, 1});
  CHECK(Positions::range(-9, 4).max_magnitude() == 9);
}

TEST_CASE("Positions: one batch row serves all", "[positions]") {
  CHECK(row(Positions::range(5, 3), 41) == Row{5, 6, 7});
  CHECK(row(Positions::ids({4, 2}), 41) == Row{4, 2});
  CHECK(row(Positions::real({0.5}), 41) == Row{0.5});
  CHECK(row(Positions::starts({3}, 2), 41) == Row{3, 4});
}

TEST_CASE("Positions: range and starts cost nothing per token", "[positions]") {
  const Positions p = Positions::range(1, limit);
  CHECK(p.count() == limit);
  CHECK(p.at(0, limit - 1) == 0x1p53);
  CHECK(Positions::starts({0, 1}, limit).at(1, limit - 1) == 0x1p53);
}

TEST_CASE("Positions: starts give every batch row a run of its own", "[positions]") {
  const Positions p = Positions::starts({10, -3, 0}, 2);
  CHECK(p.batch() == 3);
  CHECK(p.count() == 2);
  CHECK(row(p, 0) == Row{10, 11});
  CHECK(row(p, 1) == Row{-3, -2});
  CHECK(row(p, 2) == Row{0, 1});
  CHECK(p.max_magnitude() == 11);
}

TEST_CASE("Positions: ids of 32 bits are those of 64", "[positions]") {
  const std::vector<std::int32_t> ids{3, -7, 3, 2147483647, 0, -2147483647 - 1};
  const Positions of_row = Positions::ids(ids), of_batch = Positions::ids(2, ids);
  CHECK(row(of_row) == Row{3, -7, 3, 2147483647, 0, -2147483648.0});
  CHECK(of_row.max_magnitude() == 2147483648.0);
  CHECK(of_batch.batch() == 2);
  CHECK(row(of_batch, 1) == Row{2147483647, 0, -2147483648.0});
  const Positions starts = Positions::starts(std::vector<std::int32_t>{5, 2147483647}, 3);
  CHECK(row(starts, 1) == Row{2147483647, 2147483648.0, 2147483649.0});
  CHECK(starts.max_magnitude() == 2147483649.0);
}

TEST_CASE("Positions: the largest magnitude is that of a run's either end", "[positions]") {
  CHECK(Positions::starts({-5, -9}, 3).max_magnitude() == 9);
  CHECK(Positions::starts({-5, 2}, 9).max_magnitude() == 10);
  CHECK(Positions::starts({-5, -4}, 2).max_magnitude() == 5);
  CHECK(Positions::starts({7}, 0).max_magnitude() == 0);
  CHECK(Positions::starts({}, 4).max_magnitude() == 0);
  CHECK(Positions::ids({-8, 3}).max_magnitude() == 8);
}

TEST_CASE("Positions: ids may be unsorted, repeated and negative", "[positions]") {
  const Positions p = Positions::ids({3, -1, 3, 0});
  CHECK(p.batch() == 1);
  CHECK(row(p) == Row{3, -1, 3, 0});
  CHECK(p.max_magnitude() == 3);
  CHECK(p.integral());

  const std::array<Index, 6> two_rows{0, 1, 2, 7, 8, 9};
  const Positions q = Positions::ids(2, two_rows);
  CHECK(q.batch() == 2);
  CHECK(q.count() == 3);
  CHECK(row(q, 0) == Row{0, 1, 2});
  CHECK(row(q, 1) == Row{7, 8, 9});
}

TEST_CASE("Positions: real positions keep every bit", "[positions]") {
  const Positions p = Positions::real({0.5, -7.25, 1e-9});
  CHECK(row(p) == Row{0.5, -7.25, 1e-9});
  CHECK(p.max_magnitude() == 7.25);
  CHECK_FALSE(p.integral());
  CHECK(Positions::real({2.0, -3.0}).integral());
  const std::array<double, 4> two_rows{0, 0.1, 0.2, 0.3};
  CHECK(row(Positions::real(2, two_rows), 1) == Row{0.2, 0.3});
}

TEST_CASE("Positions: listed ones can be read where they are", "[positions]") {
  const auto values_of = [](const Positions& positions, Index b) {
    const auto values = positions.explicit_values(b);
    return Row(values.begin(), values.end());
  };
  CHECK(values_of(Positions::ids(2, {4, 4, 1, 7, 8, 9}), 1) == Row{7, 8, 9});
  CHECK(values_of(Positions::ids({4, 4, 1}), 5) == Row{4, 4, 1});
  CHECK(values_of(Positions::grid(2, 2), 0) == Row{0, 0, 1, 1});
  CHECK(Positions::range(3, 4).explicit_values(0).empty());
  CHECK(Positions::starts({3, 4}, 2).explicit_values(1).empty());
}

TEST_CASE("Positions: packed sequences each begin anew", "[positions]") {
  const std::array<Index, 4> boundaries{0, 3, 3, 5};
  const Positions p = Positions::packed(boundaries);
  CHECK(p.batch() == 1);
  CHECK(row(p) == Row{0, 1, 2, 0, 1});
  const std::array<Index, 3> starts{10, 99, -1};
  CHECK(row(Positions::packed(boundaries, starts)) == Row{10, 11, 12, -1, 0});
  CHECK(Positions::packed(std::array<Index, 1>{0}).count() == 0);

  const std::array<std::int32_t, 4> short_boundaries{0, 3, 3, 5};
  const std::array<std::int32_t, 3> short_starts{10, 99, -1};
  CHECK(row(Positions::packed(short_boundaries)) == Row{0, 1, 2, 0, 1});
  CHECK(row(Positions::packed(short_boundaries, starts)) == Row{10, 11, 12, -1, 0});
  CHECK(row(Positions::packed(boundaries, short_starts)) == Row{10, 11, 12, -1, 0});
  CHECK(row(Positions::packed(short_boundaries, short_starts)) == Row{10, 11, 12, -1, 0});
}

TEST_CASE("Positions: concatenated positions follow each other in one batch row", "[positions]") {
  const std::array<std::int32_t, 2> ids{-4, 9};
  const Positions p =
      Positions::concatenate({Positions::range(7, 2), Positions::range(0, 0), Positions::view(ids),
                              Positions::real(std::vector{0.5})});
  CHECK(p.batch() == 1);
  CHECK(row(p) == Row{7, 8, -4, 9, 0.5});
  CHECK(p.max_magnitude() == 9);
  CHECK_FALSE(p.integral());
  CHECK(p.kind() == posenc::PositionKind::Unspecified);
  const Positions whole = Positions::concatenate({Positions::range(7, 2), Positions::range(3, 1)});
  CHECK(whole.integral());
  CHECK(whole.kind() == posenc::PositionKind::Tokens);

  const Positions grids = Positions::concatenate({Positions::grid(1, 2), Positions::grid(2, 1)});
  CHECK(row(grids, 0, 0) == Row{0, 0, 0, 1});
  CHECK(row(grids, 0, 1) == Row{0, 1, 0, 0});
  CHECK(grids.axis_count() == 2);
  CHECK(grids.kind() == posenc::PositionKind::RowsColumns);
}

TEST_CASE("Positions: a padding mask numbers the tokens that it keeps", "[positions]") {
  Eigen::Matrix<bool, 2, 4, Eigen::RowMajor> keep;
  keep << false, false, true, true,  //
      true, true, true, false;
  const Positions p = Positions::from_padding_mask(posenc::table_view(keep));
  CHECK(p.batch() == 2);
  CHECK(row(p, 0) == Row{1, 1, 0, 1});
  CHECK(row(p, 1) == Row{0, 1, 2, 1});
  CHECK(row(Positions::from_padding_mask(posenc::table_view(keep), 0), 0) == Row{0, 0, 0, 1});
  const auto right_half = posenc::table_view(keep.rightCols(2));
  CHECK(row(Positions::from_padding_mask(right_half), 1) == Row{0, 1});
}

TEST_CASE("Positions: a grid has a row and a column", "[positions]") {
  const Positions p = Positions::grid(2, 3);
  CHECK(p.batch() == 1);
  CHECK(p.count() == 6);
  CHECK(p.axis_count() == 2);
  CHECK(row(p, 0, 0) == Row{0, 0, 0, 1, 1, 1});
  CHECK(row(p, 0, 1) == Row{0, 1, 2, 0, 1, 2});
  CHECK(row(p, 7, 1) == Row{0, 1, 2, 0, 1, 2});
  CHECK(p.max_magnitude() == 2);
}

TEST_CASE("Positions: axes are put side by side", "[positions]") {
  const std::array<Index, 4> time{0, 0, 1, 1};
  const std::array<Positions, 3> axes{Positions::ids(2, time), Positions::starts({5, 9}, 2),
                                      Positions::real(2, std::array<double, 4>{0.5, 1, 1.5, 2})};
  const Positions p = Positions::axes(axes);
  CHECK(p.axis_count() == 3);
  CHECK(p.batch() == 2);
  CHECK(row(p, 1, 0) == Row{1, 1});
  CHECK(row(p, 1, 1) == Row{9, 10});
  CHECK(row(p, 0, 2) == Row{0.5, 1});
  CHECK(p.max_magnitude() == 10);
  CHECK_FALSE(p.integral());
}

TEST_CASE("Positions: none at all are legal in every form", "[positions]") {
  CHECK(Positions::range(7, 0).count() == 0);
  CHECK(Positions::range(7, 0).max_magnitude() == 0);
  CHECK(Positions::starts({1, 2}, 0).batch() == 2);
  CHECK(Positions::ids(std::vector<Index>{}).count() == 0);
  CHECK(Positions::real(std::vector<double>{}).integral());
  CHECK(Positions::grid(0, 5).count() == 0);
  CHECK(Positions::ids(3, std::vector<Index>{}).batch() == 3);
}

TEST_CASE("Positions: a mask of no batch rows keeps its length", "[positions]") {
  const posenc::MatrixView<const bool> keep{.rows = 0, .cols = 5};
  const Positions p = Positions::from_padding_mask(keep);
  CHECK(p.batch() == 0);
  CHECK(p.count() == 5);
}

TEST_CASE("Positions: a slice has the positions of its tokens, in every form", "[positions]") {
  const std::vector<Index> ids{9, -4, 7, 1, 0, 3, 2, 8, 5, 6};
  const std::vector<std::int32_t> short_ids{9, -4, 7, 1, 0};
  const std::array<bool, 10> keep{true, true, false, true, true, false, true, true, true, false};
  const std::vector<Positions> all{
      Positions::range(40, 5),
      Positions::starts({3, -20}, 5),
      Positions::ids(ids),
      Positions::ids(2, ids),
      Positions::view(ids),
      Positions::view(short_ids),
      Positions::view({.data = ids.data(), .rows = 2, .cols = 4, .row_stride = 5}),
      Positions::real({0.5, 2, -1, 4}),
      Positions::packed({0, 2, 6}, {7, 9}),
      Positions::from_padding_mask({keep.data(), 2, 5}),
      Positions::grid(2, 3),
      Positions::axes({Positions::ids(2, ids), Positions::starts({1, 2}, 5)}),
      Positions::range(40, 5).with_kind(posenc::PositionKind::Unspecified)};
  for (const Positions& whole : all) {
    for (Index first = 0; first <= whole.count(); ++first) {
      for (Index count = 0; count <= whole.count() - first; ++count) {
        const Positions part = whole.slice(first, count);
        CAPTURE(first, count);
        REQUIRE(part.batch() == whole.batch());
        REQUIRE(part.count() == count);
        REQUIRE(part.axis_count() == whole.axis_count());
        REQUIRE(part.kind() == whole.kind());
        REQUIRE(part.is_view() == whole.is_view());
        double largest = 0;
        bool integral = true;
        for (Index axis = 0; axis < whole.axis_count(); ++axis) {
          for (Index b = 0; b < whole.batch(); ++b) {
            for (Index s = 0; s < count; ++s) {
              const double position = whole.at(b, first + s, axis);
              REQUIRE(part.at(b, s, axis) == position);
              largest = std::max(largest, std::abs(position));
              integral = integral && position == std::rint(position);
            }
          }
        }
        REQUIRE(part.max_magnitude() == largest);
        REQUIRE(part.integral() == integral);
        if (count > 1)
          REQUIRE(row(part.slice(1, count - 1)) == row(whole.slice(first + 1, count - 1)));
      }
    }
  }
}

TEST_CASE("Positions: a slice of a range or of a view takes no time per token", "[positions]") {
  const Positions whole = Positions::range(0, limit);
  CHECK(whole.slice(limit / 2, limit / 2).at(0, 5) == static_cast<double>(limit / 2 + 5));
  CHECK(Positions::starts({0, 1}, limit - 1).slice(3, limit - 5).at(1, 1) == 5);
  const std::vector<Index> ids{3, 4, 5};
  CHECK(Positions::view(ids).slice(1, 2).owned().at(0, 1) == 5);
}

TEST_CASE("Positions: are values", "[positions]") {
  std::vector<Index> ids{1, 2, 3}, starts{4, 5};
  const Positions of_ids = Positions::ids(ids), of_starts = Positions::starts(starts, 2);
  const Positions copy = of_starts;
  ids.assign(3, 0);
  starts.assign(2, 0);
  CHECK(row(of_ids) == Row{1, 2, 3});
  CHECK(row(of_starts, 1) == Row{5, 6});
  CHECK(row(copy, 1) == Row{5, 6});

  Positions assigned = Positions::range(0, 1);
  assigned = of_ids;
  CHECK(row(assigned) == Row{1, 2, 3});
  CHECK(assigned.max_magnitude() == 3);
}

}  // namespace positions_test
