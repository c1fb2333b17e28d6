// SPDX-License-Identifier: MIT
#pragma once

#include <iostream>

/// Prints posenc::build_info() of the test executable.
void print_build_info(std::ostream& out);
