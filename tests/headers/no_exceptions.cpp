// SPDX-License-Identifier: MIT
// Compiled with -fno-exceptions -fno-rtti: the complete library must still compile.
#include <posenc/posenc.hpp>
