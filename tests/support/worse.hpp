// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>

namespace support {

/// The greater of two errors. A NaN is worse than all and stays, where std::max would drop it.
inline double worse(double a, double b) { return std::isnan(a) || a > b ? a : b; }

}  // namespace support
