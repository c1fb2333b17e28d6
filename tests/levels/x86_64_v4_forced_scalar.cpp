// SPDX-License-Identifier: MIT
#define POSENC_TIER scalar
#include "unit_body.hpp"

LevelUnit x86_64_v4_forced_scalar_unit() { return this_unit(); }
