// SPDX-License-Identifier: MIT
#pragma once

namespace tour {

/// Content of examples/train_short_test_long/recorded.csv: a comment with date, commit and machine,
/// then the columns of a results.csv. CMake writes the definition.
extern const char* const recorded_study;

}  // namespace tour
