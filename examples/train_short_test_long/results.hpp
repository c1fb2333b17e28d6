// SPDX-License-Identifier: MIT
#pragma once

#include "study.hpp"

#include <string>

namespace study {

/// Writes results.csv, which has no times, and is the same whenever the settings are, and speed.csv.
///   Throws: tour::FileError
void write_csv(const Options& options, const Results& results);

/// Prints the report and writes report.html and its pictures.
///   Throws: tour::FileError
void report(const Options& options, const Text& text, const Results& results);

/// Methods that at the trained length know no more of the text than how frequent bytes are, one after the other.
std::string without_knowledge(const Options& options, const Results& results);

}  // namespace study
