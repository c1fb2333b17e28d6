// SPDX-License-Identifier: MIT
#pragma once

#include "support/compare.hpp"
#include "support/worse.hpp"

#include <cmath>

/// Checks of the accuracy that Oscillator promises. Errors are expressed as shares of the
/// allowance; up to 1 is within the promise. Errors are |value - truth|, with the truth known to
/// more digits than a double has.
namespace bounds {

/// Returns the allowed error of cos and sin of an angle in radians.
inline double allowance(double angle) { return std::abs(angle) <= 0x1p40 ? 4e-16 : 1e-15; }

inline double share(double error, double angle) { return error / allowance(angle); }

/// Returns the share for a float result; half the distance between the floats around the truth is
/// subtracted first.
inline double float_share(double error, double truth, double angle) {
  auto below = static_cast<float>(std::abs(truth));
  if (static_cast<double>(below) > std::abs(truth)) below = std::nextafter(below, 0.0F);
  return support::worse(0.0, error - 0.5 * static_cast<double>(support::ulp_of(below))) /
         allowance(angle);
}

}  // namespace bounds
