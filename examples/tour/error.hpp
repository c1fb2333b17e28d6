// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>

namespace tour {

/// A file that cannot be read or written; the message names its path.
struct FileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A command line that makes no sense.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace tour
