// SPDX-License-Identifier: MIT
#pragma once

#include "accuracy/histogram.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace accuracy {

/// Extent of a survey. Floats are visited by their bits: every `stride`-th, from a number below it
/// that the seed draws. A stride of 1 visits all.
struct Extent {
  std::uint64_t seed = 1;
  std::uint64_t stride = 500009;
  long samples = 500;  ///< inputs of each bound, and positions of the comparison with others
  int frequency = -1;  ///< one of the 16 frequencies of survey_angles(), or -1 for all

  /// Bits of the floats that are surveyed: at least `begin`, below `end`.
  std::uint64_t begin = 0, end = std::uint64_t{1} << 32;

  /// Returns the first bits that are visited.
  std::uint64_t first() const {
    const std::uint64_t drawn = seed * 0x9e3779b97f4a7c15u % stride;
    return begin + (drawn + stride - begin % stride) % stride;
  }
};

/// cos and sin at floats as positions, for 16 frequencies of real models, by range of the angle.
std::vector<Histogram> survey_angles(const Extent& extent);
/// exp, exp_nonpositive and tanh in float and double.
std::vector<Histogram> survey_functions(const Extent& extent);
/// Floats rounded to half and bfloat16.
std::vector<Histogram> survey_conversions(const Extent& extent);
/// Softmax, attention and its gradients.
std::vector<Histogram> survey_attention(const Extent& extent);
/// Random inputs of every bound that the search knows.
std::vector<Histogram> survey_bounds(const Extent& extent);

/// Worst errors of cos and sin over positions up to a limit, 64 pairs, base 10000.
struct Comparison {
  std::string method;
  std::vector<double> errors;  ///< one for each limit
};
inline constexpr double comparison_limits[] = {4096, 131072, 1e6, 1e7};
std::vector<Comparison> compare_methods(const Extent& extent);

}  // namespace accuracy
