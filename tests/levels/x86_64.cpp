// SPDX-License-Identifier: MIT
#include "unit_body.hpp"

LevelUnit x86_64_unit() { return this_unit(); }
