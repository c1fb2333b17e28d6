// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <type_traits>

namespace support {

namespace detail {

/// Maps floating-point numbers to integers, so that adjacent numbers differ by one and -0 equals
/// +0.
template <class Bits, class Scalar>
Bits ordered_bits(Scalar x) {
  const Bits bits = std::bit_cast<Bits>(x);
  const Bits top = Bits{1} << (8 * sizeof(Bits) - 1);
  return (bits & top) != 0 ? static_cast<Bits>(top - (bits ^ top)) : static_cast<Bits>(top + bits);
}

}  // namespace detail

/// Returns the distance of a and b in steps between adjacent floats (or doubles).
///
/// Two NaN have distance 0. A NaN and a number have the largest possible distance.
template <class Scalar>
std::uint64_t ulp_distance(Scalar a, Scalar b) {
  static_assert(std::is_same_v<Scalar, float> || std::is_same_v<Scalar, double>);
  using Bits = std::conditional_t<sizeof(Scalar) == 4, std::uint32_t, std::uint64_t>;
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) && std::isnan(b) ? 0 : std::numeric_limits<std::uint64_t>::max();
  }
  const Bits x = detail::ordered_bits<Bits>(a);
  const Bits y = detail::ordered_bits<Bits>(b);
  return x > y ? x - y : y - x;
}

/// Returns the distance from |x| to the next larger float (or double); for the largest one, to the
/// next smaller.
template <class Scalar>
Scalar ulp_of(Scalar x) {
  static_assert(std::is_same_v<Scalar, float> || std::is_same_v<Scalar, double>);
  const Scalar magnitude = std::abs(x);
  if (!std::isfinite(magnitude)) return std::numeric_limits<Scalar>::quiet_NaN();
  if (magnitude == std::numeric_limits<Scalar>::max()) {
    return magnitude - std::nextafter(magnitude, Scalar{0});
  }
  return std::nextafter(magnitude, std::numeric_limits<Scalar>::infinity()) - magnitude;
}

/// Returns |a - b|: 0 for equal infinities and for two NaN, infinity if only one is NaN or
/// infinite.
inline double abs_difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0.0;
  const double difference = std::abs(a - b);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

/// Returns the largest abs_difference of two ranges of any scalars. Throws if their sizes differ.
template <class A, class B>
double max_abs_difference(const A& a, const B& b) {
  if (static_cast<std::size_t>(std::size(a)) != static_cast<std::size_t>(std::size(b))) {
    throw std::invalid_argument("max_abs_difference: the sizes differ");
  }
  double largest = 0.0;
  auto other = std::begin(b);
  for (const auto& value : a) {
    largest =
        std::max(largest, abs_difference(static_cast<double>(value), static_cast<double>(*other)));
    ++other;
  }
  return largest;
}

/// Returns the largest magnitude in a range; 0 for an empty one.
template <class A>
double max_abs(const A& a) {
  double largest = 0.0;
  for (const auto& value : a) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

}  // namespace support
