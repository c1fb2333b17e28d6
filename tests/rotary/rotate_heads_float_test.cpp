// SPDX-License-Identifier: MIT
#include "rotary/rotate_heads_case.hpp"

namespace rotate_heads_float_test {

TEMPLATE_LIST_TEST_CASE("rotate_heads of float on every tier", "[simd][rotate_heads]", tiers::All) {
  rotate_heads_test::check_all<TestType, float>();
}

}  // namespace rotate_heads_float_test
