// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tour {

/// The command line.
struct Options {
  std::filesystem::path text;  ///< empty: the default text
  std::filesystem::path out = "tour-report";
  std::vector<std::string> only = {};  ///< parts of the titles of sections; none: all sections
  bool help = false;
};

/// Throws UsageError.
Options parse_options(const std::vector<std::string>& arguments);

std::string usage();

}  // namespace tour
