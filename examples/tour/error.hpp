// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>

namespace tour {

/// Error of a file that cannot be read or written; the message has its path.
struct FileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Error of an invalid command line.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace tour
