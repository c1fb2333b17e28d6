// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/double_double.hpp>

#include <cmath>

/// True values that are computed fast, for many inputs; posenc_accuracy compares them with MPFR.
namespace accuracy {

// 113 bits.
#if defined(__SIZEOF_FLOAT128__) && !defined(__aarch64__)
__extension__ typedef __float128 Quad;
#else
using Quad = long double;
#endif

struct CosSin {
  long double cos, sin;
};

/// Returns cos and sin of an angle below 2^51. The absolute error is that of cosl and sinl, some 2^-64.
inline CosSin cos_sin_of(Quad angle) {
  // pi / 2 in three parts. The product of a quadrant and a part is exact.
  constexpr double parts[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
  const double quadrant = std::nearbyint(static_cast<double>(angle) * 0x1.45f306dc9c883p-1);
  Quad rest = angle;
  for (const double part : parts) rest -= static_cast<Quad>(quadrant) * static_cast<Quad>(part);
  const auto r = static_cast<long double>(rest);
  const long double c = std::cos(r), s = std::sin(r);
  switch (static_cast<long long>(quadrant) & 3) {
    case 0:
      return {c, s};
    case 1:
      return {-s, c};
    case 2:
      return {-c, -s};
    default:
      return {s, -c};
  }
}

/// Returns position * frequency in 113 bits, which is exact for a float and a double.
inline Quad angle_of(double position, posenc::detail::DoubleDouble frequency) {
  const auto p = static_cast<Quad>(position);
  return p * static_cast<Quad>(frequency.hi) + p * static_cast<Quad>(frequency.lo);
}

}  // namespace accuracy
