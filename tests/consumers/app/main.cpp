// SPDX-License-Identifier: MIT
// User program of two translation units. Both include everything, so a function that is not inline
// is defined twice.
#include <posenc/posenc.hpp>

#include <iostream>
#include <string>

std::string version_seen_by_other_unit();

int main() {
  std::cout << posenc::build_info() << '\n';
  return posenc::build_info().version == version_seen_by_other_unit() ? 0 : 1;
}
