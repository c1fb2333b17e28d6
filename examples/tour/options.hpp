// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tour {

/// Command line.
struct Options {
  std::filesystem::path text;  ///< empty: the default text
  std::filesystem::path out = "tour-report";
  std::vector<std::string> only = {};  ///< parts of section titles; none: all
  bool help = false;
};

/// Parses the command line. Throws UsageError.
Options parse_options(const std::vector<std::string>& arguments);

std::string usage();

}  // namespace tour
