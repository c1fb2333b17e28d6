// SPDX-License-Identifier: MIT
// Tables of relative positions in a window: the row of a pair of tokens, and the bias that reads
// it.
#include "bias/tiles.hpp"
#include "reference/window_bias.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/bias/window.hpp>
#include <posenc/tensor/adapt.hpp>

#include <Eigen/Core>

#include <cmath>
#include <limits>
#include <vector>

namespace window_test {

using posenc::ConfigError;
using posenc::Index;
using posenc::MatrixView;
using posenc::ShapeError;
using posenc::WindowConfig;
using posenc::WindowIndex;
using support::message_of;

namespace {

using Table = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Row = std::vector<Index>;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

Row row_of(const WindowIndex& index, Index query) {
  Row row;
  for (Index key = 0; key < index.tokens(); ++key) {
    row.push_back(index.row(static_cast<double>(query), static_cast<double>(key)));
  }
  return row;
}

}  // namespace

TEST_CASE("WindowIndex: by hand", "[window]") {
  const WindowIndex square({.rows = 2, .cols = 2});
  CHECK(row_of(square, 0) == Row{4, 3, 1, 0});
  CHECK(row_of(square, 1) == Row{5, 4, 2, 1});
  CHECK(row_of(square, 2) == Row{7, 6, 4, 3});
  CHECK(row_of(square, 3) == Row{8, 7, 5, 4});
  CHECK(row_of(WindowIndex({.rows = 2, .cols = 3}), 0) == Row{7, 6, 5, 2, 1, 0});
  const WindowIndex beit({.rows = 2, .cols = 2, .class_token = true});
  CHECK(row_of(beit, 0) == Row{11, 9, 9, 9, 9});
  CHECK(row_of(beit, 1) == Row{10, 4, 3, 1, 0});
  CHECK(row_of(beit, 4) == Row{10, 8, 7, 5, 4});
  CHECK(beit.table_rows() == 12);
}

TEST_CASE("WindowIndex: equals the reference's", "[window]") {
  for (const bool class_token : {false, true}) {
    for (const auto& [rows, cols] :
         {std::pair<Index, Index>{1, 1}, {1, 5}, {4, 1}, {3, 7}, {7, 4}}) {
      CAPTURE(rows, cols, class_token);
      const WindowIndex index({.rows = rows, .cols = cols, .class_token = class_token});
      const auto want = reference::window_index(rows, cols, class_token);
      REQUIRE(index.tokens() == static_cast<Index>(want.size()));
      for (Index query = 0; query < index.tokens(); ++query) {
        const auto& expected = want[static_cast<std::size_t>(query)];
        CHECK(row_of(index, query) == Row(expected.begin(), expected.end()));
      }
    }
  }
}

TEST_CASE("WindowIndex: positions outside of the window are rejected beforehand", "[window]") {
  const WindowIndex index({.rows = 2, .cols = 3});
  const std::vector<double> good{0, 5, 3};
  CHECK_NOTHROW(index.check_tokens(good));
  for (const double strange :
       {-1.0, 6.0, 0.5, 1e300, -1e300, not_a_number, std::numeric_limits<double>::infinity()}) {
    CAPTURE(strange);
    CHECK(index.row(strange, 0) == WindowIndex::none);
    CHECK(index.row(0, strange) == WindowIndex::none);
    CHECK_THROWS_AS(index.check_tokens(std::vector<double>{0, strange}), posenc::PositionError);
  }
  CHECK(
      message_of<posenc::PositionError>([&] { index.check_tokens(std::vector<double>{7}); }) ==
      "posenc::WindowIndex::check_tokens: positions must be tokens of the window, 0 .. 5, but one "
      "is 7");
}

TEMPLATE_TEST_CASE("WindowBias: a score gets the value of its row and head", "[window]", float,
                   double) {
  const WindowConfig config{.rows = 18, .cols = 20, .class_token = true};
  const Table table = Table::Random(WindowIndex(config).table_rows(), 2);
  const posenc::WindowBias bias(posenc::table_view(table), config);
  CHECK(bias.heads() == 2);
  // More keys than a block has, and tokens outside of the window among queries and keys.
  auto positions = tiles::run(0, 361);
  positions.insert(positions.begin() + 7, {-1, 0.25, not_a_number, 361});
  const auto index = reference::window_index(18, 20, true);
  const auto added = tiles::added<TestType>(bias, 1, positions, positions);
  Index wrong = 0;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    for (std::size_t j = 0; j < positions.size(); ++j) {
      const auto token = [](std::size_t n) { return n < 7 ? n : n - 4; };
      const bool strange = (i >= 7 && i < 11) || (j >= 7 && j < 11);
      const float want = strange ? 0 : table(index[token(i)][token(j)], 1);
      wrong += added[i * positions.size() + j] == static_cast<TestType>(want) ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("WindowBias: the farthest token, alone, has the first row of the table", "[window]") {
  const Table table = Table::Random(15, 1);
  const posenc::WindowBias bias(posenc::table_view(table), {.rows = 2, .cols = 3});
  for (Index query = 0; query < 6; ++query) {
    for (Index key = 0; key < 6; ++key) {
      const auto at = [](Index n) { return tiles::Values{static_cast<double>(n)}; };
      const Index row = bias.index().row(static_cast<double>(query), static_cast<double>(key));
      CHECK(tiles::added<float>(bias, 0, at(query), at(key))[0] == table(row, 0));
    }
  }
}

TEST_CASE("WindowBias: scores do not depend on the tile", "[window]") {
  const WindowConfig config{.rows = 30, .cols = 20};
  const Table table = Table::Random(WindowIndex(config).table_rows(), 2);
  tiles::check_single_scores<float>(posenc::WindowBias(posenc::table_view(table), config), 1);
}

TEST_CASE("WindowBias gradient: the table collects the scores' by row", "[window]") {
  const WindowConfig config{.rows = 2, .cols = 2, .class_token = true};
  const Table table = Table::Zero(12, 2);
  const posenc::WindowBias bias(posenc::table_view(table), config);
  const auto positions = tiles::run(0, 6);  // the last is not a token
  Table grad(6, 6), sum = Table::Constant(12, 2, 1.0F), want = sum;
  for (Index i = 0; i < 36; ++i) grad.data()[i] = static_cast<float>(i);
  const auto index = reference::window_index(2, 2, true);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      want(index[i][j], 1) += grad(static_cast<Index>(i), static_cast<Index>(j));
    }
  }
  bias.add_gradient(1, positions, positions, MatrixView<const float>{grad.data(), 6, 6, 6},
                    MatrixView<float>{sum.data(), 12, 2, 2});
  CHECK(sum == want);
}

TEST_CASE("WindowBias: attention's default positions are a window's tokens", "[window]") {
  const Table table = Table::Random(9, 1), q = Table::Random(8, 4);
  const posenc::WindowBias bias(posenc::table_view(table), {.rows = 2, .cols = 2});
  // Two windows in a batch, and their scores.
  Table out(8, 4), scores(8, 4), plain(8, 4);
  const posenc::HeadsView<const float> in{q.data(), 2, 4, 1, 4};
  const auto run = [&](Table& weights, const auto& of) {
    posenc::attention(
        in, in, in, posenc::HeadsView<float>{out.data(), 2, 4, 1, 4},
        {.causal = posenc::Causal::No}, of,
        {.weights = {weights.data(), 2, 1, 4, 4}, .returned = posenc::ReturnedScores::Masked});
  };
  run(scores, bias);
  run(plain, posenc::NoBias{});
  const auto index = reference::window_index(2, 2, false);
  for (Index i = 0; i < 8; ++i) {
    for (Index j = 0; j < 4; ++j) {
      const auto row = index[static_cast<std::size_t>(i % 4)][static_cast<std::size_t>(j)];
      CHECK(scores(i, j) == plain(i, j) + table(row, 0));
    }
  }
}

TEST_CASE("window_table_of_maxvit: gives the same biases by key - query", "[window]") {
  // 2 by 3: distances -1 .. 1 and -2 .. 2, and the entries that MaxViT reads for query i and key j.
  const Table maxvit = Table::Random(2, 15);
  Table table(15, 2);
  posenc::window_table_of_maxvit(posenc::table_view(std::as_const(maxvit)),
                                 posenc::table_view(table));
  const WindowIndex index({.rows = 2, .cols = 3});
  for (Index query = 0; query < 6; ++query) {
    for (Index key = 0; key < 6; ++key) {
      const Index dy = key / 3 - query / 3 + 1, dx = key % 3 - query % 3 + 2;
      const Index row = index.row(static_cast<double>(query), static_cast<double>(key));
      for (Index head = 0; head < 2; ++head) {
        CHECK(table(row, head) == maxvit(head, dy * 5 + dx));
      }
    }
  }
  CHECK(message_of<ShapeError>([&] {
          posenc::window_table_of_maxvit(posenc::table_view(maxvit),
                                         MatrixView<float>{.rows = 0, .cols = 0});
        }) ==
        "posenc::window_table_of_maxvit: maxvit [heads, cells] and table [cells, heads] must have "
        "the same heads and cells but are [2, 15] and [0, 0]");
  Table square(2, 2);
  CHECK(message_of<ShapeError>([&] {
          posenc::window_table_of_maxvit(posenc::table_view(square), posenc::table_view(square));
        }) ==
        "posenc::window_table_of_maxvit: maxvit and table must not share memory; they are "
        "[2, 2] and [2, 2]");
}

TEST_CASE("WindowBias: rejects invalid windows", "[window]") {
  CHECK(message_of<ConfigError>([] { WindowIndex{{.rows = 7}}; }) ==
        "posenc::WindowIndex: rows and cols must be set and lie between 1 and 1048576, but are 7 "
        "and 0");
  CHECK_THROWS_AS(WindowIndex({.rows = -1, .cols = 2}), ConfigError);
  CHECK_THROWS_AS(WindowIndex({.rows = 2, .cols = Index{1} << 21}), ConfigError);
  const Table table(9, 2);
  CHECK(
      message_of<ShapeError>([&] {
        posenc::WindowBias(posenc::table_view(table), {.rows = 2, .cols = 2, .class_token = true});
      }) ==
      "posenc::WindowBias: the table of a window of 2 by 2 and a class token must have 12 rows but "
      "is [9, 2]");
  const Table right = Table::Zero(9, 2);
  const posenc::WindowBias bias(posenc::table_view(right), {.rows = 2, .cols = 2});
  float score = 0;
  const std::vector<double> one{0};
  CHECK(message_of<ShapeError>([&] {
          bias.add(2, one, one, MatrixView<float>{&score, 1, 1, 1});
        }) == "posenc::WindowBias::add: head must lie within the 2 heads but is 2");
  CHECK(message_of<ShapeError>([&] {
          bias.add_gradient(0, one, one, MatrixView<const float>{&score, 1, 1, 1},
                            MatrixView<float>{&score, 1, 1, 1});
        }) ==
        "posenc::WindowBias::add_gradient: grad_table must have the table's shape [9, 2] but is "
        "[1, 1]");
}

}  // namespace window_test
