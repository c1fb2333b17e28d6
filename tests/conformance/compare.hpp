// SPDX-License-Identifier: MIT
#pragma once

#include "conformance/array.hpp"
#include "support/compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace conformance {

/// One comparison. Its numbers are those of the element that is nearest to its tolerance, or
/// exceeds it most.
struct Check {
  std::string what;
  double error = 0;
  double tolerance = 0;
  bool passed = true;
};

inline std::string in_words(const Check& check) {
  std::ostringstream text;
  text << check.what << ": max error " << check.error << ", tolerance " << check.tolerance;
  return text.str();
}

/// Returns the largest permitted error of an element, given its index, its value and the largest
/// finite magnitude of its row (last axis).
using Allowed = std::function<double(std::size_t, double, double)>;

/// Tolerance: the largest of these.
struct Tolerance {
  double absolute = 0;
  double relative = 0;      ///< of the element, plus `absolute`
  double least = 0;         ///< absolute
  double row_ulps = 0;      ///< float ulp of the row's largest magnitude
  double row_relative = 0;  ///< of the row's largest magnitude

  double operator()(std::size_t, double expected, double row_max) const {
    const double ulp = static_cast<double>(support::ulp_of(static_cast<float>(row_max)));
    return std::max(
        {absolute + relative * std::abs(expected), least, row_ulps * ulp, row_relative * row_max});
  }
};

/// Compares two tensors of one shape, row by row.
inline Check compare(std::string what, const std::vector<double>& actual,
                     const std::vector<double>& expected, std::size_t row_size,
                     const Allowed& allowed) {
  Check check{std::move(what)};
  double worst = -1;
  for (std::size_t begin = 0; begin < expected.size(); begin += row_size) {
    double row_max = 0;
    for (std::size_t i = begin; i < begin + row_size; ++i) {
      if (std::isfinite(expected[i])) row_max = std::max(row_max, std::abs(expected[i]));
    }
    for (std::size_t i = begin; i < begin + row_size; ++i) {
      const double error = support::abs_difference(actual[i], expected[i]);
      const double tolerance = std::isfinite(expected[i]) ? allowed(i, expected[i], row_max) : 0;
      const double ratio = error == 0      ? 0
                           : tolerance > 0 ? error / tolerance
                                           : std::numeric_limits<double>::infinity();
      if (ratio <= worst) continue;
      worst = ratio;
      check.error = error;
      check.tolerance = tolerance;
      check.passed = error <= tolerance;
    }
  }
  return check;
}

}  // namespace conformance
