// SPDX-License-Identifier: MIT
#include "rotary/rotation_kernel_case.hpp"

namespace rotation_kernel_double_test {

TEMPLATE_LIST_TEST_CASE("rotation kernels of double on every tier", "[simd][rotation_kernels]",
                        tiers::All) {
  rotation_kernel_test::check_all<TestType, double>();
}

}  // namespace rotation_kernel_double_test
