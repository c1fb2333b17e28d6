// SPDX-License-Identifier: MIT
// Offsets of packed sequences.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/tensor/detail/check_offsets.hpp>

#include <span>
#include <vector>

namespace check_offsets_test {

using posenc::Index;
using posenc::ShapeError;
using support::message_of;

TEST_CASE("check_offsets: offsets begin with 0, end with the total and do not descend",
          "[tensor][errors]") {
  const auto error = [](const std::vector<Index>& offsets, Index total) {
    return message_of<ShapeError>(
        [&] { posenc::detail::check_offsets("f", "offsets", offsets, total); });
  };
  CHECK(error({0}, 0) == "nothing was thrown");
  CHECK(error({0, 2, 2, 5}, 5) == "nothing was thrown");
  CHECK(error({1, 5}, 5) ==
        "posenc::f: offsets must begin with 0 and end with 5 but goes from 1 to 5");
  CHECK(error({0, 4}, 5) ==
        "posenc::f: offsets must begin with 0 and end with 5 but goes from 0 to 4");
  CHECK(error({0, -1, 5}, 5) == "posenc::f: offsets must not descend but has -1 after 0");
  CHECK(error({0, 3, 2, 5}, 5) == "posenc::f: offsets must not descend but has 2 after 3");
  CHECK(error({0, 3, 7, 5}, 5) == "posenc::f: offsets must not descend but has 5 after 7");
}

TEST_CASE("check_offsets: offsets may be the first of a longer list", "[tensor]") {
  const std::vector<Index> offsets{0, 2, 5, 1};
  const auto first = std::span<const Index>(offsets).first(3);
  CHECK_NOTHROW(posenc::detail::check_offsets("f", "offsets", first, 5));
  CHECK_NOTHROW(posenc::detail::check_offsets("f", "offsets", first, 5, 2));
  CHECK(message_of<ShapeError>([&] {
          posenc::detail::check_offsets("f", "offsets", first, 5, 3);
        }) == "posenc::f: offsets must have one entry more than the 3 sequences but has 3");
}

}  // namespace check_offsets_test
