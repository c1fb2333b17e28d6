// SPDX-License-Identifier: MIT
#include "rotary/compiled_ropes.hpp"

POSENC_BEGIN

TEST_ROPES(, Interleaved)
TEST_ROPES(, HalfRotate)

POSENC_END
