// SPDX-License-Identifier: MIT
// Gradients of tables of biases.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/bias/table_gradient.hpp>

#include <array>
#include <utility>

namespace table_gradient_test {

using posenc::Index;
using posenc::TableGradient;
using support::message_of;

TEST_CASE("TableGradient: a moved-from one has no numbers", "[bias]") {
  TableGradient gradient(4, 2);
  auto taken = std::move(gradient);
  CHECK(gradient.view().empty());  // NOLINT(bugprone-use-after-move)
  CHECK_THROWS_AS(taken += gradient, posenc::ShapeError);
}

TEST_CASE("TableGradient: begins as zeros and is added number by number", "[bias]") {
  TableGradient sum(2, 3);
  const TableGradient& read = sum;
  CHECK(sum.view().extents() == std::array<Index, 2>{2, 3});
  for (Index n = 0; n < 6; ++n) CHECK(read.view().data[n] == 0);
  TableGradient other(2, 3);
  for (Index n = 0; n < 6; ++n) other.view().data[n] = static_cast<double>(n);
  sum += other;
  CHECK(&(sum += other) == &sum);
  for (Index n = 0; n < 6; ++n) CHECK(read.view().data[n] == 2 * static_cast<double>(n));
}

TEST_CASE("TableGradient: rejects impossible or other extents", "[bias][errors]") {
  const auto error = [](Index rows, Index cols) {
    return message_of<posenc::ShapeError>([&] { TableGradient table(rows, cols); });
  };
  const std::string rule = " must not be negative, and their product must fit into memory";
  CHECK(error(-1, 2) == "posenc::TableGradient: rows (-1) and cols (2)" + rule);
  CHECK(error(Index{1} << 40, Index{1} << 40) ==
        "posenc::TableGradient: rows (1099511627776) and cols (1099511627776)" + rule);
  CHECK(error(Index{1} << 27, (Index{1} << 26) + 1) ==
        "posenc::TableGradient: rows (134217728) and cols (67108865)" + rule);
  TableGradient sum(2, 3);
  CHECK(message_of<posenc::ShapeError>([&] { sum += TableGradient(3, 2); }) ==
        "posenc::TableGradient: the gradient to add must be [2, 3] but is [3, 2]");
}

TEST_CASE("add_gradient: takes a table of gradients as its view", "[bias]") {
  TableGradient table(2, 3);
  CHECK(posenc::detail::gradient_view(table).data == table.view().data);
  STATIC_REQUIRE(posenc::detail::GradientOfTable<TableGradient>);
  STATIC_REQUIRE(posenc::detail::GradientOfTable<posenc::MatrixView<float>>);
  STATIC_REQUIRE_FALSE(posenc::detail::GradientOfTable<double>);
}

}  // namespace table_gradient_test
