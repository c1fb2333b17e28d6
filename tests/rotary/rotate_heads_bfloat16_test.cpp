// SPDX-License-Identifier: MIT
#include "rotary/rotate_heads_case.hpp"

namespace rotate_heads_bfloat16_test {

TEMPLATE_LIST_TEST_CASE("rotate_heads of bfloat16 on every tier", "[simd][rotate_heads]",
                        tiers::All) {
  rotate_heads_test::check_all<TestType, Eigen::bfloat16>();
}

}  // namespace rotate_heads_bfloat16_test
