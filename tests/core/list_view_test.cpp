// SPDX-License-Identifier: MIT
// Conversions to ListView from containers, pointers and braced lists.
#include "support/catch.hpp"
#include <posenc/core/list_view.hpp>

#include <array>
#include <concepts>
#include <span>
#include <vector>

namespace list_view_test {

using posenc::Index;
using posenc::ListView;

namespace {

std::vector<Index> read(ListView<Index> list) { return {list.begin(), list.end()}; }

}  // namespace

TEST_CASE("ListView: reads vectors, arrays, spans, pointers and lists written in place", "[list]") {
  std::vector<Index> vector{3, 1, 2};
  const std::array<Index, 3> array{3, 1, 2};
  const Index plain[] = {3, 1, 2};
  CHECK(read(vector) == vector);
  CHECK(read(array) == vector);
  CHECK(read(plain) == vector);
  CHECK(read(std::span<Index>(vector)) == vector);
  CHECK(read(std::span<const Index>(vector)) == vector);
  CHECK(read({vector.data(), 3}) == vector);
  CHECK(read({3, 1, 2}) == vector);
  CHECK(read({}).empty());
  CHECK(read({7}) == std::vector<Index>{7});
}

TEST_CASE("ListView: reads nothing else", "[list]") {
  STATIC_REQUIRE(!std::convertible_to<std::vector<int>, ListView<Index>>);
  STATIC_REQUIRE(!std::convertible_to<Index, ListView<Index>>);
  STATIC_REQUIRE(!std::convertible_to<std::span<const double>, ListView<Index>>);
}

}  // namespace list_view_test
