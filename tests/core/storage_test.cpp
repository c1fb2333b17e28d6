// SPDX-License-Identifier: MIT
// Members of the library's classes that hold memory or its size.
#include "support/catch.hpp"
#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/core/detail/move_reset_index.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <utility>

namespace storage_test {

using posenc::Index;
using posenc::detail::AlignedVector;
using posenc::detail::MoveResetIndex;

TEST_CASE("MoveResetIndex: is 0 after it was moved from", "[storage]") {
  MoveResetIndex first(5);
  MoveResetIndex second(std::move(first));
  CHECK(Index{second} == 5);
  CHECK(Index{first} == 0);  // NOLINT(bugprone-use-after-move): its state is the point
  MoveResetIndex third(7);
  third = std::move(second);
  CHECK(Index{third} == 5);
  CHECK(Index{second} == 0);  // NOLINT(bugprone-use-after-move)
  second = third;
  CHECK(Index{second} == 5);
  CHECK(Index{third} == 5);
}

TEST_CASE("AlignedVector: starts at a cache line and takes values", "[storage]") {
  AlignedVector<std::int32_t> list(5, 3);
  list.push_back(4);
  CHECK(reinterpret_cast<std::uintptr_t>(list.data()) % 64 == 0);
  CHECK(list.size() == 6);
  CHECK(list.front() == 3);
  CHECK(list[4] == 3);
  CHECK(list.back() == 4);
  const AlignedVector<std::int32_t> copy = list;
  CHECK(copy == list);
  posenc::detail::AlignedAllocator<std::int32_t> allocator;
  CHECK_THROWS_AS(allocator.allocate(std::numeric_limits<std::size_t>::max() / 4 + 1),
                  std::bad_array_new_length);
}

}  // namespace storage_test
