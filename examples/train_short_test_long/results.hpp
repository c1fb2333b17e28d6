// SPDX-License-Identifier: MIT
#pragma once

#include "study.hpp"

#include <string>

namespace study {

/// Writes results.csv, which has no times and is equal for equal settings, and speed.csv.
///   Throws: tour::FileError
void write_csv(const Options& options, const Results& results);

/// Prints the report and writes report.html and its pictures.
///   Throws: tour::FileError
void report(const Options& options, const Text& text, const Results& results);

/// Returns a list of the methods that at the trained length are no better than the frequencies of
/// bytes.
std::string without_knowledge(const Options& options, const Results& results);

}  // namespace study
