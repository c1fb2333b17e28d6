// SPDX-License-Identifier: MIT
#include "rotary/rotation_kernel_case.hpp"

namespace rotation_kernel_half_test {

TEMPLATE_LIST_TEST_CASE("rotation kernels of half on every tier", "[simd][rotation_kernels]",
                        tiers::All) {
  rotation_kernel_test::check_all<TestType, Eigen::half>();
}

}  // namespace rotation_kernel_half_test
