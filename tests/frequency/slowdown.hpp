// SPDX-License-Identifier: MIT
#pragma once

#include "support/catch.hpp"
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/unscaled.hpp>

#include <cstddef>
#include <vector>

/// Factors by which a rule slows the pairs.
namespace slowdowns {

using posenc::Frequencies;
using posenc::Index;

inline Frequencies unscaled(Index dim, double base) {
  return frequencies(posenc::Unscaled{.rotary_dim = dim, .base = base});
}

/// Returns the factor by which the rule slows each pair.
inline std::vector<double> slowdown(const Frequencies& ours, const Frequencies& original) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < posenc::detail::exact_inv_freq(ours).size(); ++i) {
    ratios.push_back(
        (posenc::detail::exact_inv_freq(original)[i] / posenc::detail::exact_inv_freq(ours)[i]).hi);
  }
  return ratios;
}

inline void check_increasing(const std::vector<double>& values) {
  for (std::size_t i = 1; i < values.size(); ++i) REQUIRE(values[i] > values[i - 1]);
}

}  // namespace slowdowns
