// SPDX-License-Identifier: MIT
// Built with -fno-exceptions -fno-rtti: the whole library must still compile.
#include <posenc/posenc.hpp>
