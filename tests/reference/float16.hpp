// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

/// 16-bit floats from their definition, by arithmetic in double, which holds every number here
/// exactly.
namespace reference {

/// Binary format of 16 bits with `digits` of significand, the leading one included; the rest is the
/// exponent.
struct Format16 {
  int digits;
  int max_exponent;  ///< of the largest number, almost 2^(max_exponent + 1)

  int fraction_bits() const { return digits - 1; }
  int min_exponent() const { return 1 - max_exponent; }  ///< of the smallest normal number
};

inline constexpr Format16 ieee_half{11, 15};
inline constexpr Format16 bfloat16{8, 127};

/// Returns the number of a bit pattern.
inline double decode(Format16 format, std::uint16_t bits) {
  const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
  const int magnitude = bits & 0x7fff;
  const int exponent = magnitude >> format.fraction_bits();
  const int fraction = magnitude - (exponent << format.fraction_bits());
  if (exponent == 2 * format.max_exponent + 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const int leading = exponent == 0 ? 0 : 1 << format.fraction_bits();
  const int scale = (exponent == 0 ? 1 : exponent) - format.max_exponent - format.fraction_bits();
  return sign * std::ldexp(leading + fraction, scale);
}

/// Returns the bits of the nearest number, ties to even; any NaN for a NaN.
inline std::uint16_t encode(Format16 format, double x) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
  const int infinity = (2 * format.max_exponent + 1) << format.fraction_bits();
  if (std::isnan(x)) return static_cast<std::uint16_t>(sign | infinity | 1);
  const double magnitude = std::abs(x);
  if (std::isinf(magnitude)) return static_cast<std::uint16_t>(sign | infinity);
  // From 2^e on, adjacent numbers differ by 2^(e - fraction bits). Below the smallest normal number
  // the difference stays constant.
  int e = magnitude == 0 ? format.min_exponent() : std::ilogb(magnitude);
  if (e < format.min_exponent()) e = format.min_exponent();
  const double steps = std::nearbyint(std::ldexp(magnitude, format.fraction_bits() - e));
  // A carry out of the significand increments the exponent, and beyond the largest exponent gives
  // infinity.
  const int bits =
      ((e - format.min_exponent()) << format.fraction_bits()) + static_cast<int>(steps);
  return static_cast<std::uint16_t>(sign | (bits > infinity ? infinity : bits));
}

}  // namespace reference
