// SPDX-License-Identifier: MIT
// Gradients of tables of biases.
#include "support/catch.hpp"
#include <posenc/bias/table_gradient.hpp>

#include <utility>

namespace table_gradient_test {

TEST_CASE("a moved-from table of gradients has no numbers", "[bias]") {
  posenc::TableGradient gradient(4, 2);
  auto taken = std::move(gradient);
  CHECK(gradient.view().empty());  // NOLINT(bugprone-use-after-move)
  CHECK_THROWS_AS(taken += gradient, posenc::ShapeError);
}

}  // namespace table_gradient_test
