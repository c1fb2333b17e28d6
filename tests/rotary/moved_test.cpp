// SPDX-License-Identifier: MIT
// An object that was moved from is usable: it is unchanged, or its calls throw.
#include "support/catch.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/eigen.hpp>
#include <posenc/tensor/positions.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <utility>
#include <vector>

namespace moved_test {

using posenc::HalfRotate;
using posenc::Index;
using posenc::Positions;
using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;

TEST_CASE("Positions and RotationTable: moved-from ones hold no tokens", "[rotary]") {
  const posenc::Rope<HalfRotate> rope(posenc::Unscaled{.rotary_dim = 8, .base = 10000});
  Tensor x(1, 3, 2, 8);
  x.setConstant(1);
  auto positions = Positions::ids(std::vector<Index>{4, 5, 9});
  auto table = rope.table<float>(positions);
  const Positions taken = std::move(positions);
  const auto kept = std::move(table);
  CHECK(taken.count() == 3);
  // NOLINTBEGIN(bugprone-use-after-move)
  CHECK(positions.count() == 0);
  CHECK_THROWS_AS(rope.rotate(posenc::bshd(x), positions), posenc::ShapeError);
  CHECK_THROWS_AS(table.rotate(posenc::bshd(x)), posenc::ShapeError);
  // NOLINTEND(bugprone-use-after-move)
  CHECK(x(0, 2, 1, 7) == 1);
  kept.rotate(posenc::bshd(x));
}

template <class R>
void check_moved(R rope, Index axes) {
  Tensor x(1, 2, 2, 8);
  x.setConstant(1);
  Tensor y = x;
  const auto ids = Positions::ids(std::vector<Index>{4, 5});
  const auto positions = axes == 1 ? ids : Positions::axes({ids, ids});
  const R taken = std::move(rope);
  taken.rotate(posenc::bshd(x), positions);
  rope.rotate(posenc::bshd(y), positions);  // NOLINT(bugprone-use-after-move)
  for (Index i = 0; i < x.size(); ++i) CHECK(x.data()[i] == y.data()[i]);
}

TEST_CASE("Rope: a moved-from rope rotates as before", "[rotary]") {
  check_moved(posenc::Rope<HalfRotate>(posenc::Unscaled{.rotary_dim = 8, .base = 10000}), 1);
  check_moved(posenc::MixedRope<HalfRotate>(std::vector<double>(16, 0.5),
                                            {.axes = 2, .heads = 2, .rotary_dim = 8}),
              2);
}

}  // namespace moved_test
