// SPDX-License-Identifier: MIT
#include "rotary/compiled_kernels.hpp"

POSENC_BEGIN
namespace detail {

TEST_ROTATION_KERNELS_OF(, HalfRotate)

}  // namespace detail
POSENC_END
