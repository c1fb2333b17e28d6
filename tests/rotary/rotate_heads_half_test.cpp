// SPDX-License-Identifier: MIT
#include "rotary/rotate_heads_case.hpp"

namespace rotate_heads_half_test {

TEMPLATE_LIST_TEST_CASE("rotate_heads of half on every tier", "[simd][rotate_heads]", tiers::All) {
  rotate_heads_test::check_all<TestType, Eigen::half>();
}

}  // namespace rotate_heads_half_test
