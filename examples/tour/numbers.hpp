// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <sstream>
#include <string>

namespace tour {

/// Returns all parts, joined, as operator<< prints them.
template <class... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Returns a number like "0.125".
std::string fixed(double value, int digits);

/// Returns a number like "2.4e-7"; zero is "0".
std::string scientific(double value);

/// Returns two significant digits, as fixed or as scientific, whichever is shorter: "0.34", "2.1",
/// "4.2e-7".
std::string compact(double value);

/// Returns a number like "786,432".
std::string grouped(posenc::Index value);

/// Returns a share like "33 %".
std::string percent(double share, int digits = 0);

}  // namespace tour
