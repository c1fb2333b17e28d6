// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>

namespace support {

/// Returns the larger of two errors. NaN counts as largest; std::max would drop it.
inline double worse(double a, double b) { return std::isnan(a) || a > b ? a : b; }

}  // namespace support
