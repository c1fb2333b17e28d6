// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>

#include <vector>

POSENC_BEGIN
namespace detail {

/// Scales each frequency w_i by its number of rotations n_i = L w_i / (2 pi) within the trained
/// length L: w_i' = w_i gamma_i + w_i / factor (1 - gamma_i), gamma_i = clamp((n_i - low) / (high -
/// low), 0, 1).
/// If high == low, gamma_i is 1 for n_i >= low and 0 otherwise. Frequencies with gamma_i == 1 are
/// unchanged, bit for bit.
inline void scale_by_rotations(std::vector<QuadDouble>& inv_freq, double factor, double length,
                               double low, double high) {
  if (factor == 1) return;
  const QuadDouble width = QuadDouble(high) - low;
  for (QuadDouble& w : inv_freq) {
    const QuadDouble rotations = w * length / (quad_pi * 2.0);
    const QuadDouble above = rotations - low, below = QuadDouble(high) - rotations;
    const bool is_below_low = above < QuadDouble(0);
    if (!is_below_low && !(QuadDouble(0) < below)) continue;
    const QuadDouble interpolated = w / factor;
    // Both weights are computed from differences, because 1 - gamma loses precision near gamma = 1.
    w = is_below_low ? interpolated : w * (above / width) + interpolated * (below / width);
  }
}

}  // namespace detail
POSENC_END
