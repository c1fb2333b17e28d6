// SPDX-License-Identifier: MIT
#include "rotary/rotation_kernel_case.hpp"

namespace rotation_kernel_float_test {

TEMPLATE_LIST_TEST_CASE("rotate_heads of float on every tier", "[simd][rotate_heads]", tiers::All) {
  rotation_kernel_test::check_all<TestType, float>();
}

}  // namespace rotation_kernel_float_test
