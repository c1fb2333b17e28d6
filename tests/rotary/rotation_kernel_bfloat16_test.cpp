// SPDX-License-Identifier: MIT
#include "rotary/rotation_kernel_case.hpp"

namespace rotation_kernel_bfloat16_test {

TEMPLATE_LIST_TEST_CASE("rotation kernels of bfloat16 on every tier", "[simd][rotation_kernels]",
                        tiers::All) {
  rotation_kernel_test::check_all<TestType, Eigen::bfloat16>();
}

}  // namespace rotation_kernel_bfloat16_test
