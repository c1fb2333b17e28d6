// SPDX-License-Identifier: MIT
// Compiled into each test executable with that executable's flags. main.cpp is slow to compile, so
// all executables share it.
#include "support/print_build_info.hpp"

#include <posenc/core/build_info.hpp>

void print_build_info(std::ostream& out) { out << posenc::build_info() << '\n'; }
