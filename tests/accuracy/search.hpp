// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accuracy {

struct Budget {
  std::uint64_t seed = 1;
  long evaluations = 2000;
  double seconds = 0;  ///< used instead of evaluations if not 0
};

/// Searches an input that exceeds a bound, for every bound whose name contains one of the words.
/// Prints the worst input of each. Returns how many bounds are exceeded.
int search(const Budget& budget, const std::vector<std::string>& words);

/// Tries the inputs of a file. Returns how many exceed their bound or belong to no bound.
int try_cases(const std::string& path);

}  // namespace accuracy
