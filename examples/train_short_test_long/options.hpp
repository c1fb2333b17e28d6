// SPDX-License-Identifier: MIT
#pragma once

#include "model.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace study {

/// Amount of training.
struct Budget {
  std::string name;
  Shape shape;
  Index batch = 32, steps = 1200, seeds = 1;
  Index held_out_bytes = 65536;
  double rate = 3e-3;  ///< Adam's largest

  Index further_steps() const { return steps / 20; }
  /// Returns the longest length: 8 times that of training.
  Index longest() const { return 8 * shape.length; }
};

struct Options {
  bool help = false, resume = false;
  std::vector<std::filesystem::path> text = {};  ///< none: the default text
  std::filesystem::path out = "build/study";
  std::vector<std::string> methods = {};  ///< none: all
  Budget budget;
  int threads = 2;
  Index stop_after = -1;  ///< for tests: simulates Ctrl-C after that many steps
};

std::string usage();

/// Parses the command line.
///   Throws: tour::UsageError
Options parse_options(const std::vector<std::string>& arguments);

}  // namespace study
