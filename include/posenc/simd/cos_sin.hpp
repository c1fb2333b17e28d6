// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/double_double.hpp>

#include <cmath>
#include <cstdint>

POSENC_BEGIN

struct CosSin {
  double cos = 1;
  double sin = 0;
};

namespace detail {

/// A quarter turn split into the nearest whole number and the rest.
struct Phase {
  double whole;  ///< an integer
  double rest;   ///< |rest| <= 1/2 + 2^-4 while |position * turns| <= 2^49.4
};

/// position * turns, reduced. The product's rounding error is recovered exactly, so nothing is lost
/// to its size.
inline Phase reduce(double position, DoubleDouble turns) noexcept {
#if POSENC_HAS_FMA
  const double whole = std::rint(position * turns.hi);
  return {whole, std::fma(position, turns.lo, std::fma(position, turns.hi, -whole))};
#else
  const DoubleDouble product = two_product(position, turns.hi);
  const double whole = std::rint(product.hi);
  return {whole, (product.hi - whole) + (product.lo + position * turns.lo)};
#endif
}

/// cos(pi/2 r) and sin(pi/2 r) for |r| <= 9/16: minimax polynomials in r^2 with absolute error
/// below 2.3e-19.
inline CosSin cos_sin_of_rest(double r) noexcept {
  const double u = r * r;
  double c = -0x1.b13e632da3acap-28;
  c = mul_add(c, u, 0x1.f9c8123f59982p-22);
  c = mul_add(c, u, -0x1.a6d1e6891d83bp-16);
  c = mul_add(c, u, 0x1.e1f5067b13e51p-11);
  c = mul_add(c, u, -0x1.55d3c7e3c34b6p-6);
  c = mul_add(c, u, 0x1.03c1f081b5a72p-2);
  c = mul_add(c, u, -0x1.3bd3cc9be45dep+0);
  double s = -0x1.6b501d7978d21p-31;
  s = mul_add(s, u, 0x1.e8ead3daaa2fbp-25);
  s = mul_add(s, u, -0x1.e307454936a20p-19);
  s = mul_add(s, u, 0x1.507834813fd3ap-13);
  s = mul_add(s, u, -0x1.32d2cce627364p-8);
  s = mul_add(s, u, 0x1.466bc6775aaafp-4);
  s = mul_add(s, u, -0x1.4abbce625be53p-1);
  constexpr double quarter = 0x1.921fb54442d18p+0;
  return {mul_add(c, u, 1.0), mul_add(s, r * u, r * quarter)};
}

}  // namespace detail

/// cos and sin of position * turns quarter turns, turns = inv_freq * 2 / pi.
///   Accuracy: absolute error <= 4e-16 for angles |position * inv_freq| <= 2^40 and <= 1e-13 up to
///             2^50, turns taken as exact; position 0 gives exactly 1 and 0, cos is even, sin odd.
///             The same bits wherever fma exists.
///   Cost:     two products, one rounding and two polynomials of degree 7; no branch, no table.
inline CosSin cos_sin(double position, DoubleDouble turns) noexcept {
  const detail::Phase phase = detail::reduce(position, turns);
  const CosSin first = detail::cos_sin_of_rest(phase.rest);
  const auto quadrant = static_cast<std::int64_t>(phase.whole);
  const bool swapped = (quadrant & 1) != 0;
  const double c = swapped ? first.sin : first.cos;
  const double s = swapped ? first.cos : first.sin;
  return {((quadrant + 1) & 2) != 0 ? -c : c, (quadrant & 2) != 0 ? -s : s};
}

POSENC_END
