// SPDX-License-Identifier: MIT
#pragma once

#include "conformance/case.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <ostream>
#include <string>

namespace conformance {

/// Runs one case: compares results, or throws NotSupported, or fails by any other exception.
using Handler = std::function<void(Case&)>;

/// Numbers of cases by result, of one category or of several.
struct Counts {
  Index passed = 0, failed = 0, not_supported = 0;
};

/// Runs every case of every folder of a directory. Prints one line per folder, "conformance
/// <folder>: <n> passed, <n> failed, <n> not supported". Below it, indented, one line follows for
/// each case that failed or is not supported, and if `verbose` the comparisons of all cases.
///
/// A folder holds one directory per case, with a case.json or attributes.json, and JSON files with
/// many cases: an array "cases", or an object "slopes" with one entry per case.
Counts run_all(const std::filesystem::path& directory,
               const std::map<std::string, Handler>& handlers, bool verbose, std::ostream& out);

}  // namespace conformance
