// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace playground {

/// Returns the numbers of one figure of the page. The arguments are those that the function of this
/// name in calls.cpp reads; all begin with the settings of a rope.
///   Throws: ConfigError for another name or number of arguments; errors of the library
std::vector<double> call(std::string_view name, std::span<const double> arguments);

}  // namespace playground
