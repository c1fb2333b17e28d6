// SPDX-License-Identifier: MIT
#pragma once

#include <iostream>

/// Prints posenc::build_info() as the test executable sees it.
void print_build_info(std::ostream& out);
