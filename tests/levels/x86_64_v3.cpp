// SPDX-License-Identifier: MIT
#include "unit_body.hpp"

LevelUnit x86_64_v3_unit() { return this_unit(); }
