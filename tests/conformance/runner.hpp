// SPDX-License-Identifier: MIT
#pragma once

#include "conformance/case.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <ostream>
#include <string>

namespace conformance {

/// Runs one case: compares results, or throws NotSupported, or any other exception to fail.
using Handler = std::function<void(Case&)>;

/// What became of the cases of one category, or of several.
struct Counts {
  Index passed = 0, failed = 0, not_supported = 0;
};

/// Runs every case of every folder of a directory. Prints one line a folder,
/// "conformance <folder>: <n> passed, <n> failed, <n> not supported", and below it, indented, one
/// line for each case that failed or is not supported; if `verbose`, also the comparisons of all.
///
/// A folder holds a directory a case, with a case.json or attributes.json, and JSON files with many
/// cases: an array "cases", or an object "slopes" with an entry a case.
Counts run_all(const std::filesystem::path& directory,
               const std::map<std::string, Handler>& handlers, bool verbose, std::ostream& out);

}  // namespace conformance
