// SPDX-License-Identifier: MIT
// Compares the numbers of units that were compiled with different headers of posenc.
#include <iostream>
#include <vector>

std::vector<float> rotate_by_rope();
std::vector<float> rotate_by_all();
std::vector<float> rotate_by_both();
std::vector<float> rotate_by_tree();

int main() {
  const std::vector<float> expected = rotate_by_tree();
  const bool equal =
      rotate_by_rope() == expected && rotate_by_all() == expected && rotate_by_both() == expected;
  std::cout << (equal ? "units with either single header, with both and with the tree agree\n"
                      : "units with different headers give different numbers\n");
  return equal ? 0 : 1;
}
