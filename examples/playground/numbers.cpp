// SPDX-License-Identifier: MIT
// Prints the numbers of one call of the playground, computed natively: the test compares them with
// those of the page.
#include "calls.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  try {
    std::vector<double> arguments;
    for (int i = 2; i < argc; ++i) arguments.push_back(std::stod(argv[i]));
    for (const double number : playground::call(argc > 1 ? argv[1] : "", arguments)) {
      std::printf("%.17g\n", number);
    }
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
