// SPDX-License-Identifier: MIT
#include <posenc/posenc.hpp>

#include <iostream>

int main() { std::cout << posenc::build_info() << '\n'; }
