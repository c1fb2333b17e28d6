// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace support {

/// How often operator new has run in this program. Needs support/allocations.cpp linked in.
std::size_t allocations();

}  // namespace support
