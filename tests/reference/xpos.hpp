// SPDX-License-Identifier: MIT
#pragma once

#include "reference/rope.hpp"

#include <cmath>
#include <cstddef>
#include <vector>

namespace reference {

/// xPos, arXiv 2212.10554: cos and sin of a position, times zeta_i^(+-(position - centre) / base),
/// + for a query and - for a key.
inline CosSin xpos(double position, const std::vector<long double>& inv_freq, double scale_base,
                   double centre, bool query) {
  CosSin turn = cos_sin(position, inv_freq);
  const auto r = 2 * static_cast<long double>(inv_freq.size());
  const long double power =
      (static_cast<long double>(position) - static_cast<long double>(centre)) /
      static_cast<long double>(scale_base);
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const long double zeta = (2 * static_cast<long double>(i) + 0.4L * r) / (1.4L * r);
    const long double scale = std::pow(zeta, query ? power : -power);
    turn.cos[i] *= scale;
    turn.sin[i] *= scale;
  }
  return turn;
}

}  // namespace reference
