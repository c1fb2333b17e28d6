// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/simd/pack.hpp>

#include <cmath>
#include <span>

// Detection of positions p, p + 1, p + 2, ..., which have few different distances.
POSENC_BEGIN
namespace detail {

/// True if a position is an integer whose distance to any other such integer is exact.
inline bool is_exact_integer(double position) noexcept {
  return std::abs(position) <= 0x1p51 && std::rint(position) == position;
}

/// True if positions are such integers and each is the previous one plus 1.
template <class Tier = tier::Best>
bool are_consecutive(std::span<const double> positions) noexcept {
  using P = Pack<double, Tier>;
  const double* p = positions.data();
  const auto count = static_cast<Index>(positions.size());
  if (count == 0 || !is_exact_integer(p[0])) return false;
  // Sums of squares of step - 1. It is a multiple of 2^-53, so no square underflows, and NaN stays
  // NaN. Two interleaved sums, because each is a dependency chain whose latency delays the result.
  const P one = P::broadcast(1);
  P excess_squares[2] = {P::zero(), P::zero()};
  Index j = 1;
  const auto accumulate = [&](P& sum, Index at) {
    const P excess = (P::load(p + at) - P::load(p + at - 1)) - one;
    sum = mul_add(excess, excess, sum);
  };
  for (; j + 2 * P::width <= count; j += 2 * P::width) {
    accumulate(excess_squares[0], j);
    accumulate(excess_squares[1], j + P::width);
  }
  if (j + P::width <= count) {
    accumulate(excess_squares[0], j);
    j += P::width;
  }
  bool is_consecutive = sum(excess_squares[0] + excess_squares[1]) == 0;
  for (; j < count; ++j) is_consecutive = is_consecutive && p[j] - p[j - 1] == 1;
  return is_consecutive;
}

}  // namespace detail
POSENC_END
