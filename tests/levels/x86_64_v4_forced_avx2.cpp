// SPDX-License-Identifier: MIT
#define POSENC_TIER avx2
#include "unit_body.hpp"

LevelUnit x86_64_v4_forced_avx2_unit() { return this_unit(); }
