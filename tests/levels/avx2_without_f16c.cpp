// SPDX-License-Identifier: MIT
#include "unit_body.hpp"

LevelUnit avx2_without_f16c_unit() { return this_unit(); }
