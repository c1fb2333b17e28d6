// SPDX-License-Identifier: MIT
// Tests the rotation kernels of float; a file per type, so that they compile side by side.
#include "rotary/rotation_kernel_case.hpp"

namespace rotation_kernel_float_test {

TEMPLATE_LIST_TEST_CASE("rotation_kernels: float on every tier", "[simd][rotation_kernels]",
                        tiers::All) {
  rotation_kernel_test::check_all<TestType, float>();
}

}  // namespace rotation_kernel_float_test
