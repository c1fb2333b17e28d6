// SPDX-License-Identifier: MIT
// Arguments that Positions rejects, and the messages.
#include "support/catch.hpp"
#include <posenc/tensor/detail/check_positions.hpp>
#include <posenc/tensor/positions.hpp>

#include <array>
#include <limits>
#include <utility>
#include <vector>

namespace positions_errors_test {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Message;
using posenc::Index;
using posenc::PositionError;
using posenc::Positions;
using posenc::ShapeError;

namespace {

constexpr Index limit = Index{1} << 53;
constexpr Index max_index = std::numeric_limits<Index>::max();
constexpr Index min_index = std::numeric_limits<Index>::min();
constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("Positions: integers up to 2^53 are exact, larger ones are rejected", "[positions]") {
  CHECK(Positions::ids({limit, -limit}).at(0, 1) == -0x1p53);
  CHECK(Positions::range(limit, 1).at(0, 0) == 0x1p53);
  CHECK_THROWS_MATCHES(Positions::ids({0, limit + 1}), PositionError,
                       Message("posenc::Positions::ids: integer positions must lie within 2^53 but "
                               "one is 9007199254740993"));
  CHECK_THROWS_AS(Positions::ids({-limit - 1}), PositionError);
  CHECK_THROWS_WITH(Positions::range(limit, 2),
                    ContainsSubstring("Positions::range") && ContainsSubstring("9007199254740993"));
  CHECK_THROWS_AS(Positions::range(-limit - 1, 5), PositionError);
  CHECK_THROWS_AS(Positions::starts({0, limit}, 2), PositionError);
  CHECK_THROWS_AS(Positions::starts({-limit - 1, 0}, 3), PositionError);
}

TEST_CASE("Positions: no overflow near the ends of int64", "[positions]") {
  for (const Index far : {max_index, max_index - 1, min_index, min_index + 1}) {
    CAPTURE(far);
    CHECK_THROWS_AS(Positions::range(far, 3), PositionError);
    CHECK_THROWS_AS(Positions::starts({far}, 3), PositionError);
    CHECK_THROWS_AS(Positions::ids({far}), PositionError);
    const std::array<Index, 2> boundaries{0, 3};
    CHECK_THROWS_AS(Positions::packed(boundaries, std::array<Index, 1>{far}), PositionError);
  }
  CHECK_THROWS_AS(Positions::range(0, max_index), ShapeError);
  CHECK_THROWS_AS(Positions::starts({0}, max_index), ShapeError);
  CHECK_THROWS_AS(Positions::packed(std::array<Index, 2>{0, max_index}), ShapeError);
}

TEST_CASE("Positions: several axes hold at most 2^53", "[positions]") {
  const auto all = Positions::range(0, limit);
  CHECK_THROWS_MATCHES(
      Positions::axes(std::array{all, all}), ShapeError,
      Message("posenc::Positions::axes: positions [1, 9007199254740992] on 2 axes are more than "
              "2^53"));
}

TEST_CASE("Positions: counts must not be negative", "[positions]") {
  CHECK_THROWS_MATCHES(Positions::range(0, -1), ShapeError,
                       Message("posenc::Positions::range: the number of positions must be between "
                               "0 and 2^53 but is -1"));
  CHECK_THROWS_AS(Positions::starts({0}, -1), ShapeError);
  CHECK_THROWS_AS(Positions::range(0, min_index), ShapeError);
}

TEST_CASE("Positions: real positions must be finite", "[positions]") {
  CHECK_THROWS_MATCHES(Positions::real({0.0, infinity}), PositionError,
                       Message("posenc::Positions::real: positions must be finite but one is inf"));
  CHECK_THROWS_AS(Positions::real({-infinity}), PositionError);
  CHECK_THROWS_AS(Positions::real({std::numeric_limits<double>::quiet_NaN()}), PositionError);
}

TEST_CASE("Positions: the batch size must divide the number of ids", "[positions]") {
  const std::vector<Index> ids(5);
  CHECK_THROWS_MATCHES(
      Positions::ids(2, ids), ShapeError,
      Message(
          "posenc::Positions::ids: the batch size (2) must divide the number of positions (5)"));
  CHECK_THROWS_AS(Positions::ids(0, ids), ShapeError);
  CHECK_THROWS_AS(Positions::ids(-5, ids), ShapeError);
  CHECK_THROWS_AS(Positions::real(2, std::vector<double>(3)), ShapeError);
}

TEST_CASE("Positions: packed boundaries are prefix sums", "[positions]") {
  CHECK_THROWS_MATCHES(Positions::packed(std::array<Index, 3>{0, 4, 3}), ShapeError,
                       Message("posenc::Positions::packed: cu_seqlens must begin with 0 and not "
                               "decrease but are [0, 4, 3]"));
  CHECK_THROWS_AS(Positions::packed(std::array<Index, 2>{1, 4}), ShapeError);
  CHECK_THROWS_AS(Positions::packed(std::array<Index, 3>{0, -1, 2}), ShapeError);
  CHECK_THROWS_AS(Positions::packed(std::vector<Index>{}), ShapeError);
  CHECK_THROWS_MATCHES(
      Positions::packed(std::array<Index, 3>{0, 1, 2}, std::array<Index, 1>{0}), ShapeError,
      Message("posenc::Positions::packed: there must be one start for each of the 2 sequences but "
              "there are 1"));
}

TEST_CASE("Positions: only single rows of the same axes are concatenated", "[positions]") {
  const std::string name = "posenc::Positions::concatenate: ";
  CHECK_THROWS_MATCHES(Positions::concatenate({}), ShapeError,
                       Message(name + "there must be at least one part"));
  CHECK_THROWS_MATCHES(
      Positions::concatenate({Positions::range(0, 2), Positions::starts({0, 1}, 2)}), ShapeError,
      Message(name + "every part must have 1 batch row and 1 axis but one has 2 and 1"));
  CHECK_THROWS_MATCHES(
      Positions::concatenate({Positions::grid(1, 2), Positions::range(0, 2)}), ShapeError,
      Message(name + "every part must have 1 batch row and 2 axes but one has 1 and 1"));
  const Positions longest = Positions::range(0, Index{1} << 53);
  CHECK_THROWS_AS(Positions::concatenate({longest, longest}), ShapeError);
  CHECK_THROWS_MATCHES(Positions::concatenate(std::vector<Positions>(1024, longest)), ShapeError,
                       Message(name + "the parts have more than 2^53 positions"));
}

TEST_CASE("Positions: packed boundaries may be the first of a longer list", "[positions]") {
  const std::vector<Index> boundaries{0, 2, 3, 9};
  const posenc::ListView<Index> first(boundaries.data(), 3);
  CHECK(Positions::packed(first).count() == 3);
  CHECK(Positions::packed(first).max_magnitude() == 1);
}

TEST_CASE("Positions: the number of positions of all batch rows and axes must be countable",
          "[positions][errors]") {
  const bool keep = true;
  const posenc::MatrixView<const bool> view{&keep, Index{1} << 27, Index{1} << 27, 0};
  CHECK_THROWS_MATCHES(
      Positions::from_padding_mask(view), ShapeError,
      Message("posenc::Positions::from_padding_mask: positions [134217728, 134217728] on 1 axis "
              "are more than 2^53"));
  const std::vector<Positions> axes(3, Positions::range(0, Index{1} << 52));
  CHECK_THROWS_MATCHES(Positions::axes(axes), ShapeError,
                       Message("posenc::Positions::axes: positions [1, 4503599627370496] on 3 axes "
                               "are more than 2^53"));
}

TEST_CASE("Positions: the masked position is a position like any other", "[positions]") {
  const std::array<bool, 1> keep{false};
  const posenc::MatrixView<const bool> view{.data = keep.data(), .rows = 1, .cols = 1};
  CHECK_THROWS_AS(Positions::from_padding_mask(view, limit + 1), PositionError);
  CHECK(Positions::from_padding_mask(view, -1).at(0, 0) == -1);
}

TEST_CASE("Positions: a grid must have a size that can be counted", "[positions]") {
  CHECK_THROWS_MATCHES(Positions::grid(-1, 3), ShapeError,
                       Message("posenc::Positions::grid: rows and columns must not be negative but "
                               "are -1 and 3"));
  CHECK_THROWS_AS(Positions::grid(3, -1), ShapeError);
  CHECK_THROWS_AS(Positions::grid(Index{1} << 31, Index{1} << 31), ShapeError);
}

TEST_CASE("Positions: a grid whose number of cells exceeds int64 is rejected", "[positions]") {
  CHECK_THROWS_AS(Positions::grid(Index{1} << 32, Index{1} << 32), ShapeError);
  CHECK_THROWS_AS(Positions::grid(max_index, 2), ShapeError);
}

TEST_CASE("Positions: axes must agree", "[positions]") {
  CHECK_THROWS_AS(Positions::axes(std::vector<Positions>{}), ShapeError);
  const std::array<Positions, 2> lengths{Positions::range(0, 3), Positions::range(0, 4)};
  CHECK_THROWS_MATCHES(
      Positions::axes(lengths), ShapeError,
      Message("posenc::Positions::axes: every axis must be [1, 3] but one is [1, 4]"));
  const std::array<Positions, 2> batches{Positions::range(0, 3), Positions::starts({0, 1}, 3)};
  CHECK_THROWS_AS(Positions::axes(batches), ShapeError);
  const std::array<Positions, 1> nested{Positions::grid(2, 2)};
  CHECK_THROWS_AS(Positions::axes(nested), ShapeError);
}

TEST_CASE("Positions: must fit the tensor that they serve", "[positions]") {
  const std::array<Index, 3> extents{2, 8, 16};
  const auto check = [&](const Positions& positions, Index axes) {
    posenc::detail::check_positions("f", positions, 2, 8, axes, extents);
  };
  CHECK_NOTHROW(check(Positions::range(0, 8), 1));
  CHECK_NOTHROW(check(Positions::starts({0, 5}, 8), 1));
  CHECK_NOTHROW(check(Positions::grid(2, 4), 2));
  CHECK_THROWS_MATCHES(check(Positions::range(0, 7), 1), ShapeError,
                       Message("posenc::f: positions [1, 7] must match batch and sequence of x, "
                               "which is [2, 8, 16]"));
  CHECK_THROWS_MATCHES(check(Positions::starts({0, 1, 2}, 8), 1), ShapeError,
                       Message("posenc::f: positions [3, 8] must match batch and sequence of x, "
                               "which is [2, 8, 16]"));
  CHECK_THROWS_MATCHES(check(Positions::grid(2, 4), 1), ShapeError,
                       Message("posenc::f: positions must have 1 axis but have 2"));
  CHECK_THROWS_MATCHES(check(Positions::range(0, 8), 2), ShapeError,
                       Message("posenc::f: positions must have 2 axes but have 1"));
}

TEST_CASE("Positions: a slice must lie within the positions", "[positions][errors]") {
  const Positions p = Positions::range(7, 5);
  CHECK_THROWS_MATCHES(
      p.slice(3, 3), posenc::ShapeError,
      Catch::Matchers::Message("posenc::Positions::slice: the slice of 3 positions "
                               "from 3 on must lie within the 5 positions"));
  constexpr Index largest = std::numeric_limits<Index>::max();
  for (const auto& [first, count] : {std::pair{Index{-1}, Index{2}}, std::pair{Index{0}, Index{6}},
                                     std::pair{Index{6}, Index{0}}, std::pair{Index{1}, Index{-1}},
                                     std::pair{largest, largest}}) {
    CHECK_THROWS_AS(p.slice(first, count), posenc::ShapeError);
  }
}

TEST_CASE("Positions: ids of no batch row fit every tensor of none", "[positions]") {
  const Positions none = Positions::ids(0, {});
  const std::array<Index, 3> shape{0, 7, 4};
  CHECK_NOTHROW(posenc::detail::check_positions("f", none, 0, 7, 1, shape));
  CHECK_THROWS_AS(posenc::detail::check_positions("f", none, 1, 7, 1, shape), posenc::ShapeError);
  CHECK_THROWS_AS(posenc::detail::check_positions("f", Positions::starts({}, 3), 0, 7, 1, shape),
                  posenc::ShapeError);
}

TEST_CASE("Positions: those that select rows must be integers", "[positions]") {
  CHECK_NOTHROW(posenc::detail::check_integral("f", Positions::real({1.0, -2.0})));
  CHECK_THROWS_MATCHES(posenc::detail::check_integral("f", Positions::real({1.5})), PositionError,
                       Message("posenc::f: positions must be integers, but some have a fraction"));
}

}  // namespace positions_errors_test
