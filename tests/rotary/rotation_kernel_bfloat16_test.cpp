// SPDX-License-Identifier: MIT
// Tests the rotation kernels of bfloat16; a file per type, so that they compile side by side.
#include "rotary/rotation_kernel_case.hpp"

namespace rotation_kernel_bfloat16_test {

TEMPLATE_LIST_TEST_CASE("rotation_kernels: bfloat16 on every tier", "[simd][rotation_kernels]",
                        tiers::All) {
  rotation_kernel_test::check_all<TestType, Eigen::bfloat16>();
}

}  // namespace rotation_kernel_bfloat16_test
