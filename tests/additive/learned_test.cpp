// SPDX-License-Identifier: MIT
// Tests Learned: lookup of rows, the gradient of the table, and what it rejects.
#include "reference/learned.hpp"

#include "additive/embeddings.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include <posenc/additive/learned.hpp>
#include <posenc/concepts.hpp>
#include <posenc/tensor/eigen.hpp>

#include <Eigen/Core>
#include <unsupported/Eigen/CXX11/Tensor>

#include <array>
#include <cmath>
#include <optional>
#include <vector>

namespace learned_test {

namespace {

using Catch::Matchers::Message;
using posenc::Index;
using posenc::Learned;
using posenc::LearnedConfig;
using posenc::Positions;

static_assert(posenc::AdditiveEncoding<Learned<float>, float>);
static_assert(posenc::AdditiveEncoding<Learned<double>, double>);
static_assert(posenc::AdditiveEncoding<Learned<Eigen::half>, Eigen::half>);
static_assert(posenc::AdditiveEncoding<Learned<Eigen::bfloat16>, Eigen::bfloat16>);

const std::vector<Index> ids{0, 6, 6, 2, 1, 0, 3, 6};

}  // namespace

TEMPLATE_TEST_CASE("Learned: adds the rows that the positions name", "", float, double, Eigen::half,
                   Eigen::bfloat16) {
  const Index width = GENERATE(1, 5, 32);
  const Index offset = GENERATE(0, 2);
  GuardedEmbeddings<TestType> table(1, 7 + offset, width);
  table.fill(11);
  const Learned encoding(table.table(), {.row_offset = offset});
  static_assert(std::is_same_v<decltype(encoding), const Learned<TestType>>);
  const auto rows = reference::learned_lookup(table.matrix(), ids, offset);

  GuardedEmbeddings<TestType> x(2, 4, width), before(2, 4, width);
  x.fill(12);
  before.fill(12);
  encoding.add_to(x.view(), Positions::ids(2, ids));
  CHECK(is_sum(x, before, rows));
  CHECK(x.guards_hold());
  CHECK(table.guards_hold());
}

TEST_CASE("Learned: one row of positions serves all batch rows; tables are seen as they change") {
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> table(4, 2);
  table << 1, 2, 3, 4, 5, 6, 7, 8;
  const Learned encoding(posenc::table_view(table));
  Eigen::Tensor<float, 3, Eigen::RowMajor> row_major(3, 2, 2);
  Eigen::Tensor<float, 3> column_major(2, 2, 3);
  row_major.setZero();
  column_major.setZero();
  encoding.add_to(posenc::bsd(row_major), Positions::range(2, 2));
  encoding.add_to(posenc::dsb(column_major), Positions::range(2, 2));
  for (Index b = 0; b < 3; ++b) {
    CHECK(row_major(b, 0, 0) == 5);
    CHECK(row_major(b, 1, 1) == 8);
    CHECK(column_major(1, 0, b) == 6);
    CHECK(column_major(0, 1, b) == 7);
  }
  table(2, 0) = 50;
  encoding.add_to(posenc::bsd(row_major), Positions::range(2, 2));
  CHECK(row_major(0, 0, 0) == 55);

  // A column-major table with one row per column is read by its transpose.
  const Eigen::MatrixXf mirrored = table.transpose();
  const Learned transposed(posenc::table_view(mirrored.transpose()));
  row_major.setZero();
  transposed.add_to(posenc::bsd(row_major), Positions::ids({3, 0}));
  CHECK(row_major(1, 0, 1) == 8);
  CHECK(row_major(1, 1, 0) == 1);
}

TEST_CASE("Learned: left-padded sequences as OPT and RoBERTa number them") {
  std::vector<float> table{0, 10, 20, 30, 40}, x(8, 0.0f);
  const Learned<float> encoding({table.data(), 5, 1, 1}, {.row_offset = 2, .padding_row = 1});
  const std::array<bool, 8> keep{false, false, true, true, true, true, true, false};
  encoding.add_to({x.data(), 2, 4, 1, 4, 1},
                  Positions::from_padding_mask({keep.data(), 2, 4, 4}, -1));
  CHECK(x == std::vector<float>{10, 10, 20, 30, 20, 30, 40, 10});
}

TEMPLATE_TEST_CASE("Learned: gradient of the table", "", float, double, Eigen::half,
                   Eigen::bfloat16) {
  const auto padding = GENERATE(std::optional<Index>{}, std::optional<Index>{3});
  const Index offset = GENERATE(0, 1);
  GuardedEmbeddings<TestType> table(1, 8, 5), grad(2, 4, 5);
  table.fill(1);
  grad.fill(2);
  const Learned<TestType> encoding(table.table(), {.row_offset = offset, .padding_row = padding});
  const auto want = reference::learned_gradient(8, grad.matrix(), ids, offset, padding);

  // Gradients in the table's type, added to an existing gradient, and in float.
  GuardedEmbeddings<TestType> native_gradient(1, 8, 5), start(1, 8, 5);
  native_gradient.fill(3);
  start.fill(3);
  GuardedEmbeddings<float> wide(1, 8, 5);
  for (Index r = 0; r < 8; ++r) std::fill_n(wide.table().row(r), 5, 0.0f);
  encoding.add_gradient(grad.view(), Positions::ids(2, ids), native_gradient.table());
  encoding.add_gradient(grad.view(), Positions::ids(2, ids), wide.table());
  for (Index r = 0; r < 8; ++r) {
    for (Index d = 0; d < 5; ++d) {
      CHECK(std::abs(native_gradient(0, r, d) - start(0, r, d) - want(r, d)) <=
            24 * rounding_of<TestType>(1));
      CHECK(std::abs(wide(0, r, d) - want(r, d)) <= 12 * rounding_of<float>(1));
      if (padding == r) CHECK(native_gradient(0, r, d) == start(0, r, d));
    }
  }
  CHECK(native_gradient.guards_hold());
  CHECK(wide.guards_hold());
}

TEST_CASE("Learned: gradients are summed batch row by batch row") {
  // 2^24 + 1 is not a float. The ones count only if they are added first.
  const std::vector<float> table(2, 0.0f);
  std::vector<float> grad{1, 1, 16777216, 0}, sums(2, 0.0f);
  const Learned<float> encoding({.data = table.data(), .rows = 2, .cols = 1, .row_stride = 1});
  encoding.add_gradient({grad.data(), 2, 2, 1, 2, 1}, Positions::ids({0, 0}),
                        posenc::MatrixView<float>{sums.data(), 2, 1, 1});
  CHECK(sums[0] == 16777218.0f);
  grad = {16777216, 1, 1, 1};
  sums = {0, 0};
  encoding.add_gradient({grad.data(), 2, 2, 1, 2, 1}, Positions::ids({0, 0}),
                        posenc::MatrixView<float>{sums.data(), 2, 1, 1});
  CHECK(sums[0] == 16777216.0f);
}

TEST_CASE("Learned: empty tensors are left alone") {
  const std::vector<float> table(6, 1.0f);
  std::vector<float> gradient(6, 2.0f);
  const Learned<float> encoding({table.data(), 3, 2, 2});
  const posenc::MatrixView<float> grad_table{gradient.data(), 3, 2, 2};
  for (const auto& x : {posenc::EmbeddingsView<float>{.batch = 0, .seq = 3, .dim = 2},
                        posenc::EmbeddingsView<float>{.batch = 2, .seq = 0, .dim = 2}}) {
    CHECK_NOTHROW(encoding.add_to(x, Positions::range(0, x.seq)));
    CHECK_NOTHROW(encoding.add_gradient(x, Positions::range(0, x.seq), grad_table));
  }
  CHECK(gradient == std::vector<float>(6, 2.0f));

  const Learned<float> no_rows(posenc::MatrixView<const float>{.rows = 0, .cols = 2});
  CHECK_NOTHROW(no_rows.add_to(posenc::EmbeddingsView<float>{.batch = 1, .seq = 0, .dim = 2},
                               Positions::range(0, 0)));
}

TEST_CASE("Learned: rejects bad settings by name") {
  const std::vector<float> table(6, 0.0f);
  const posenc::MatrixView<const float> view{table.data(), 3, 2, 2};
  const auto make = [&](const LearnedConfig& config) { return Learned(view, config); };
  CHECK_THROWS_MATCHES(
      make({.padding_row = 3}), posenc::ConfigError,
      Message("posenc::Learned: padding_row must be one of the table's 3 rows but is 3"));
  CHECK_THROWS_AS(make({.padding_row = -1}), posenc::ConfigError);
  for (const Index limit : {Index{1} << 53, -(Index{1} << 53)}) {
    CHECK_NOTHROW(make({.row_offset = limit}));
  }
  CHECK_THROWS_MATCHES(
      make({.row_offset = (Index{1} << 53) + 1}), posenc::ConfigError,
      Message("posenc::Learned: row_offset must lie within 2^53 but is 9007199254740993"));
}

TEST_CASE("Learned: rejects what the table does not hold, and writes nothing") {
  using posenc::PositionError;
  using posenc::ShapeError;
  std::vector<float> table(10, 1.0f), x(12, 2.0f), gradient(10, 3.0f);
  const Learned<float> encoding({table.data(), 5, 2, 2}, {.row_offset = 2});
  const posenc::EmbeddingsView<float> view{x.data(), 2, 3, 2, 6, 2},
      narrow{x.data(), 2, 3, 1, 6, 2};
  const posenc::MatrixView<float> grad_table{gradient.data(), 5, 2, 2};

  const std::string limit = "position 3 reads row 5 (row_offset 2), but the table has 5 rows";
  const std::string before = "position -3 reads row -1 (row_offset 2), but the table has 5 rows";
  CHECK_THROWS_MATCHES(encoding.add_to(view, Positions::ids({0, 1, 3})), PositionError,
                       Message("posenc::Learned::add_to: " + limit));
  CHECK_THROWS_MATCHES(encoding.add_to(view, Positions::starts({0, 1}, 3)), PositionError,
                       Message("posenc::Learned::add_to: " + limit));
  CHECK_THROWS_MATCHES(encoding.add_to(view, Positions::range(-3, 3)), PositionError,
                       Message("posenc::Learned::add_to: " + before));
  CHECK_THROWS_MATCHES(encoding.add_gradient(view, Positions::ids({0, 1, 3}), grad_table),
                       PositionError, Message("posenc::Learned::add_gradient: " + limit));
  CHECK_NOTHROW(encoding.add_to({x.data(), 2, 0, 2}, Positions::range(9, 0)));

  const std::string fraction = "positions must be integers, but some have a fraction";
  CHECK_THROWS_MATCHES(encoding.add_to(view, Positions::real({0, 0.5, 1})), PositionError,
                       Message("posenc::Learned::add_to: " + fraction));
  CHECK_THROWS_MATCHES(encoding.add_gradient(view, Positions::real({0, 0.5, 1}), grad_table),
                       PositionError, Message("posenc::Learned::add_gradient: " + fraction));

  const auto range = Positions::range(0, 3);
  CHECK_THROWS_MATCHES(encoding.add_to(narrow, range), ShapeError,
                       Message("posenc::Learned::add_to: x must be [B, S, 2] but is [2, 3, 1]"));
  CHECK_THROWS_MATCHES(
      encoding.add_gradient(narrow, range, grad_table), ShapeError,
      Message("posenc::Learned::add_gradient: x must be [B, S, 2] but is [2, 3, 1]"));
  CHECK_THROWS_MATCHES(
      encoding.add_gradient(view, range, posenc::MatrixView<float>{gradient.data(), 4, 2, 2}),
      ShapeError,
      Message("posenc::Learned::add_gradient: grad_table must have the table's shape [5, 2] but is "
              "[4, 2]"));
  CHECK_THROWS_MATCHES(
      encoding.add_to(view, Positions::range(0, 2)), ShapeError,
      Message("posenc::Learned::add_to: positions [1, 2] must match batch and sequence of x, which "
              "is [2, 3, 2]"));
  CHECK_THROWS_AS(encoding.add_to(view, Positions::grid(1, 3)), ShapeError);

  CHECK(x == std::vector<float>(12, 2.0f));
  CHECK(gradient == std::vector<float>(10, 3.0f));
}

TEST_CASE("Learned: has no row for real positions that no integer holds") {
  std::vector<float> table(10, 1.0f), x(2, 2.0f);
  const Learned<float> encoding({table.data(), 5, 2, 2}, {.row_offset = -2});
  for (const double far : {1e300, -1e300, 0x1p63, 0x1p62}) {
    CAPTURE(far);
    CHECK_THROWS_AS(encoding.add_to(posenc::EmbeddingsView<float>{x.data(), 1, 1, 2, 2, 2},
                                    Positions::real({far})),
                    posenc::PositionError);
  }
  CHECK_THROWS_MATCHES(
      encoding.add_to(posenc::EmbeddingsView<float>{x.data(), 1, 1, 2, 2, 2},
                      Positions::real({1e300})),
      posenc::PositionError,
      Message(
          "posenc::Learned::add_to: position 1e+300 reads no row, because the table has 5 rows"));
  CHECK_THROWS_WITH(encoding.add_to(posenc::EmbeddingsView<float>{x.data(), 1, 1, 2, 2, 2},
                                    Positions::real({0x1p62})),
                    Catch::Matchers::ContainsSubstring("reads no row"));
  CHECK(x == std::vector<float>(2, 2.0f));
}

}  // namespace learned_test
