// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>

#include <algorithm>
#include <vector>

POSENC_STABLE_BEGIN

/// Shape of YaRN's ramp if its ends cross. They cross if the trained length is far too short or too
/// long for the base and the width.
enum class YarnCrossing {
  Step,      ///< a step at the low end, as ggml has it
  Backwards  ///< a ramp of negative width, as Hugging Face and the YaRN repository have it
};

POSENC_STABLE_END

POSENC_BEGIN
namespace detail {

/// Returns the (real) index of the pair that makes `rotations` rotations within the trained length
/// L: dim * ln(L / (2 pi rotations)) / (2 ln base).
inline QuadDouble pair_index_at_rotations(Index rotary_dim, double base,
                                          Index original_max_position, double rotations) {
  const QuadDouble wavelength =
      QuadDouble(static_cast<double>(original_max_position)) / (quad_pi * 2.0 * rotations);
  return log(wavelength) * static_cast<double>(rotary_dim) / (log(QuadDouble(base)) * 2.0);
}

/// A ramp over the pair index, 0 up to `low` and 1 from `high` on. All YaRN code uses it.
struct IndexRamp {
  QuadDouble low, high;

  /// Returns the ramp between the indices of `fast` and of `slow` rotations. The ends are rounded
  /// outward if `truncate`, and clamped to [0, rotary_dim - 1] (as in all YaRN code, not to
  /// rotary_dim / 2 - 1). With YarnCrossing::Step the ramp is at least 0.001 wide. With
  /// YarnCrossing::Backwards it is 0.001 wide if the ends are equal; otherwise its width is that of
  /// the ends, which may be negative.
  static IndexRamp between(Index rotary_dim, double base, Index original_max_position, double fast,
                           double slow, bool truncate, YarnCrossing crossing = YarnCrossing::Step) {
    QuadDouble low = pair_index_at_rotations(rotary_dim, base, original_max_position, fast);
    QuadDouble high = pair_index_at_rotations(rotary_dim, base, original_max_position, slow);
    if (truncate) {
      low = floor(low);
      high = -floor(-high);
    }
    low = (std::max)(low, QuadDouble(0));
    high = (std::min)(high, QuadDouble(static_cast<double>(rotary_dim - 1)));
    if (crossing == YarnCrossing::Backwards && (high < low || low < high)) return {low, high};
    return {low, (std::max)(high, low + QuadDouble(1.0) / 1000.0)};
  }
};

/// Computes a_i <- a_i (1 - rho_i) + b_i rho_i. If rho_i is 0 or 1, or a_i == b_i, the result has
/// the bits of a_i or b_i.
inline void blend(std::vector<QuadDouble>& a, const std::vector<QuadDouble>& b,
                  const IndexRamp& ramp) {
  const QuadDouble width = ramp.high - ramp.low;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const QuadDouble pair = static_cast<double>(i);
    // Both weights are computed from differences, because 1 - rho loses precision near rho = 1.
    const QuadDouble rho = (pair - ramp.low) / width, kept = (ramp.high - pair) / width;
    if (!(QuadDouble(0) < rho) || a[i] == b[i]) continue;
    a[i] = QuadDouble(0) < kept ? a[i] * kept + b[i] * rho : b[i];
  }
}

}  // namespace detail
POSENC_END
