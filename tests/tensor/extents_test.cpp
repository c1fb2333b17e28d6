// SPDX-License-Identifier: MIT
// Checks of views before anything is computed with them, and the checked arithmetic that they use.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/prompt_positions.hpp>
#include <posenc/tensor/grid_positions.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <limits>
#include <optional>

namespace extents_test {

using posenc::HeadsView;
using posenc::Index;
using posenc::Positions;
using posenc::ShapeError;
using posenc::detail::checked_add;
using posenc::detail::checked_mul;
using support::message_of;

namespace {

constexpr Index max_index = std::numeric_limits<Index>::max();
constexpr Index min_index = std::numeric_limits<Index>::min();

std::string rejection_message(const HeadsView<float>& x) {
  return message_of<ShapeError>([&] { posenc::detail::check_extents("f", "x", x); });
}

}  // namespace

TEST_CASE("extents: sums and products are checked", "[tensor][extents]") {
  STATIC_REQUIRE(checked_add(max_index - 1, 1) == max_index);
  STATIC_REQUIRE(checked_add(max_index, 1) == std::nullopt);
  STATIC_REQUIRE(checked_add(min_index, max_index) == -1);
  STATIC_REQUIRE(checked_add(min_index, -1) == std::nullopt);
  STATIC_REQUIRE(checked_mul({3, 4, 5}) == 60);
  STATIC_REQUIRE(checked_mul({}) == 1);
  STATIC_REQUIRE(checked_mul({max_index, 1}) == max_index);
  STATIC_REQUIRE(checked_mul({Index{1} << 32, Index{1} << 31}) == std::nullopt);
  STATIC_REQUIRE(checked_mul({max_index, max_index, 0}) == 0);
  STATIC_REQUIRE(checked_mul({2, -1}) == std::nullopt);
  STATIC_REQUIRE(checked_mul({0, -1}) == std::nullopt);
}

TEST_CASE("extents: the largest linear index is a distance or a number of elements",
          "[tensor][extents]") {
  const auto largest = [](const std::array<Index, 3>& extents,
                          const std::array<Index, 3>& strides) {
    return posenc::detail::max_linear_index(extents, strides);
  };
  CHECK(largest({2, 3, 4}, {12, 4, 1}) == 23);
  CHECK(largest({2, 3, 4}, {100, 10, 1}) == 123);
  CHECK(largest({2, 3, 4}, {-100, -10, 1}) == 123);
  CHECK(largest({2, 3, 4}, {0, 0, 0}) == 23);
  CHECK(largest({2, 1, 1}, {1, min_index, max_index}) == 1);
  CHECK(largest({2, 2, 1}, {1, min_index, 1}) == std::nullopt);
  CHECK(largest({max_index, 3, 1}, {0, 0, 0}) == std::nullopt);
  CHECK(largest({3, 3, 1}, {max_index / 2, max_index / 2, 1}) == std::nullopt);
}

TEST_CASE("extents: a view has extents, memory and a reach", "[tensor][extents]") {
  float memory[64] = {};
  const HeadsView<float> good{memory, 2, 2, 2, 8, 32, 16, 8};
  CHECK(rejection_message(good) == "nothing was thrown");

  auto x = good;
  x.seq = -2;
  CHECK(rejection_message(x) == "posenc::f: x [2, -2, 2, 8] must not have a negative extent");
  x = good;
  x.batch = 0;
  x.dim = min_index + 1;
  CHECK(rejection_message(x) ==
        "posenc::f: x [0, 2, 2, -9223372036854775807] must not have a negative extent");
  x = good;
  x.data = nullptr;
  CHECK(rejection_message(x) ==
        "posenc::f: x [2, 2, 2, 8] has elements but no memory: data is null");
  x.heads = 0;
  CHECK(rejection_message(x) == "nothing was thrown");
  x = good;
  x.seq = Index{1} << 40;
  x.seq_stride = Index{1} << 40;
  CHECK(rejection_message(x) ==
        "posenc::f: x [2, 1099511627776, 2, 8] with strides [32, 1099511627776, 8, 1] exceeds the "
        "address space");
  x = good;
  x.batch_stride = min_index;
  CHECK(rejection_message(x) != "nothing was thrown");
  // 2^56 bytes are the most that addresses reach.
  HeadsView<float> two{memory, 2, 1, 1, 1};
  two.batch_stride = (Index{1} << 54) - 1;
  CHECK(rejection_message(two) == "nothing was thrown");
  two.batch_stride = Index{1} << 54;
  CHECK(rejection_message(two) != "nothing was thrown");
  // The stride of an axis with one element is ignored.
  x.batch = 1;
  CHECK(rejection_message(x) == "nothing was thrown");
  // Rows that share memory still count as rows.
  x = good;
  x.batch = Index{1} << 60;
  x.batch_stride = 0;
  CHECK(rejection_message(x) != "nothing was thrown");
}

TEST_CASE("grids: larger than memory are rejected before they are filled", "[tensor][extents]") {
  const Index far = Index{1} << 52;
  const auto is_rejected = [](auto make) {
    return message_of<ShapeError>(make) != "nothing was thrown";
  };
  CHECK(is_rejected([&] { (void)Positions::grid(far, far); }));
  CHECK(is_rejected([&] { (void)posenc::xy_grid(max_index, 2); }));
  CHECK(is_rejected([&] { (void)posenc::merge_block_grid({.rows = far, .cols = 4, .merge = 2}); }));
  // Very many frames without cells are allowed.
  CHECK(posenc::merge_block_grid({.frames = max_index, .rows = 0, .cols = 2}).count() == 0);
  CHECK(posenc::prompt_positions({{.rows = 2, .cols = 0, .frames = max_index}}).positions.count() ==
        0);
  CHECK(is_rejected([&] {
    (void)posenc::prompt_positions({{.text = far}, {.padding = max_index}});
  }));
  const auto prompt = posenc::prompt_positions({{.text = 3}});
  CHECK(message_of<posenc::PositionError>([&] { (void)prompt.decode(max_index, 1); }) !=
        "nothing was thrown");
}

}  // namespace extents_test
