// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>

#include <algorithm>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Scales each frequency by how often it turns within the trained length L, n_i = L w_i / (2 pi):
/// w_i' = w_i gamma_i + w_i / factor (1 - gamma_i), gamma_i = clamp((n_i - low) / (high - low), 0,
/// 1), and the step n_i >= low where high == low. Pairs with gamma 1 keep their bits.
inline void scale_by_rotations(std::vector<DoubleDouble>& inv_freq, double factor, double length,
                               double low, double high) {
  const DoubleDouble one(1.0);
  for (DoubleDouble& w : inv_freq) {
    const DoubleDouble rotations = w * length / (pi * 2.0);
    const DoubleDouble gamma = high == low
                                   ? DoubleDouble(rotations >= DoubleDouble(low) ? 1.0 : 0.0)
                                   : (rotations - low) / (DoubleDouble(high) - low);
    if (gamma >= one) continue;
    const DoubleDouble interpolated = w / factor;
    w = interpolated + (std::max)(gamma, DoubleDouble(0)) * (w - interpolated);
  }
}

}  // namespace detail
POSENC_END
