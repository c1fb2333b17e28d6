// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/simd/pack.hpp>

#include <cmath>
#include <span>

// Positions of neighbouring tokens, whose distances to others are few.
POSENC_BEGIN
namespace detail {

/// Whether a position is a whole number whose distance to another one is exact.
inline bool whole(double position) noexcept {
  return std::abs(position) <= 0x1p51 && std::rint(position) == position;
}

/// Whether positions are whole numbers that go up by one.
template <class Tier = tier::Best>
bool consecutive(std::span<const double> positions) noexcept {
  using P = Pack<double, Tier>;
  const double* p = positions.data();
  const auto count = static_cast<Index>(positions.size());
  if (count == 0 || !whole(p[0])) return false;
  // The greatest of |step - 1|.
  const P one = P::broadcast(1), zero = P::zero();
  P worst = zero;
  Index j = 1;
  for (; j + P::width <= count; j += P::width) {
    const P excess = (P::load(p + j) - P::load(p + j - 1)) - one;
    worst = larger(larger(excess, zero - excess), worst);
  }
  bool steady = maximum(worst) == 0;
  for (; j < count; ++j) steady = steady && p[j] - p[j - 1] == 1;
  return steady;
}

}  // namespace detail
POSENC_END
