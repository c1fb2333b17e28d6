// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace support {

/// Returns the number of calls of operator new in this program. Requires support/allocations.cpp.
std::size_t allocations();

}  // namespace support
