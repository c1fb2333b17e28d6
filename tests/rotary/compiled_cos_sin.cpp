// SPDX-License-Identifier: MIT
#include "rotary/compiled_kernels.hpp"

POSENC_BEGIN
namespace detail {

TEST_COS_SIN_ROWS(, float)
TEST_COS_SIN_ROWS(, double)

}  // namespace detail
POSENC_END
