// SPDX-License-Identifier: MIT
#pragma once

#include "support/catch.hpp"
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/unscaled.hpp>

#include <cstddef>
#include <numbers>

/// The two ends of rules with a ramp, and a check of the pairs between them.
namespace ramps {

using posenc::Frequencies;
using posenc::Index;

inline Frequencies unscaled(Index dim, double base) {
  return frequencies(posenc::Unscaled{.rotary_dim = dim, .base = base});
}

inline Frequencies linear(Index dim, double base, double factor) {
  return frequencies(posenc::LinearScaling{.rotary_dim = dim, .base = base, .factor = factor});
}

/// Checks that pairs are kept bit for bit above `high` rotations in `length`, and divided bit for
/// bit below `low`. Pairs between are strictly between the two, and slower from pair to pair.
inline void check_parts(const Frequencies& ours, const Frequencies& kept,
                        const Frequencies& divided, double length, double low, double high) {
  Index inside = 0;
  for (std::size_t i = 0; i < posenc::detail::exact_inv_freq(ours).size(); ++i) {
    CAPTURE(i);
    const auto w = posenc::detail::exact_inv_freq(ours)[i];
    const double rotations = kept.inv_freq()[i] * length / (2 * std::numbers::pi);
    if (rotations >= high) {
      REQUIRE(w == posenc::detail::exact_inv_freq(kept)[i]);
    } else if (rotations <= low) {
      REQUIRE(w == posenc::detail::exact_inv_freq(divided)[i]);
    } else {
      REQUIRE(w < posenc::detail::exact_inv_freq(kept)[i]);
      REQUIRE(w > posenc::detail::exact_inv_freq(divided)[i]);
      ++inside;
    }
    if (i > 0) REQUIRE(w < posenc::detail::exact_inv_freq(ours)[i - 1]);
  }
  CHECK(inside > 0);
}

}  // namespace ramps
