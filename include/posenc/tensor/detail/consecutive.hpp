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
  // The sum of the squares of step - 1, which are multiples of 2^-53; NaN stays NaN. Two of them side by side,
  // as each is a chain of additions that those who wait for the answer would have to wait for.
  const P one = P::broadcast(1);
  P off[2] = {P::zero(), P::zero()};
  Index j = 1;
  const auto look = [&](P& sum, Index at) {
    const P excess = (P::load(p + at) - P::load(p + at - 1)) - one;
    sum = mul_add(excess, excess, sum);
  };
  for (; j + 2 * P::width <= count; j += 2 * P::width) {
    look(off[0], j);
    look(off[1], j + P::width);
  }
  if (j + P::width <= count) {
    look(off[0], j);
    j += P::width;
  }
  bool steady = sum(off[0] + off[1]) == 0;
  for (; j < count; ++j) steady = steady && p[j] - p[j - 1] == 1;
  return steady;
}

}  // namespace detail
POSENC_END
