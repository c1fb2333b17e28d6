// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/double_double.hpp>

#include <bit>
#include <cstdint>

POSENC_BEGIN
namespace detail {

/// ln(x (1 + extra)) for x normal, positive and finite and |extra| <= 2^-53. Without a branch, so that
/// compilers make vectors of loops over it; the same bits in each. Zero gives -1023 ln 2.
///   Accuracy: 1 ulp
inline double logarithm(double x, double extra = 0) noexcept {
  constexpr std::uint64_t one = 0x3ff0000000000000, sign_and_exponent = 0xfff0000000000000;
  constexpr std::uint64_t root_of_half = 0x3fe6a09e667f3bcd, two_to_52 = 0x4330000000000000;
  constexpr double ln_2_hi = 0x1.62e42fefa3800p-1, ln_2_lo = 0x1.ef35793c76730p-45;
  // x = 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2).
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t scaled = bits + (one - root_of_half);
  const double k = std::bit_cast<double>((scaled >> 52) | two_to_52) - 0x1.00000000003ffp52;
  const double f = std::bit_cast<double>(bits - (scaled & sign_and_exponent) + one) - 1;
  // ln(1 + f) = 2 artanh(s) = f - f^2/2 + s (f^2/2 + 2 s^2 (1/3 + s^2/5 + ...)).
  const double s = f / (2 + f), z = s * s, half = 0.5 * f;
  double series = 1.0 / 23;
  for (int n = 21; n >= 3; n -= 2) series = mul_add(series, z, 1.0 / n);
  const double part = mul_add(s, mul_add(2 * z, series, half * f), mul_add(k, ln_2_lo, extra));
  return mul_add(k, ln_2_hi, f - mul_add(half, f, -part));
}

/// ln(1 + y) for finite y >= 0.
///   Accuracy: 1 ulp
inline double logarithm_1_plus(double y) noexcept {
  const DoubleDouble sum = detail::two_sum(1, y);
  return logarithm(sum.hi, sum.lo / sum.hi);
}

}  // namespace detail
POSENC_END
