// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <stdexcept>
#include <type_traits>

namespace support {

/// Random numbers that depend on the seed alone: std::mt19937_64 is fixed by the standard, the
/// mappings below are our own (those of the standard library may differ) and use + and * alone.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// In [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  /// Mean 0, variance 1, within +-6: the sum of twelve uniform numbers less 6.
  double normal() {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

  /// In [low, high], both included; the bias of the remainder is below 1e-9 for spans below 2^34.
  /// The span must be below 2^63.
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    const std::uint64_t span = static_cast<std::uint64_t>(high - low) + 1;
    return low + static_cast<std::int64_t>(engine_() % span);
  }

  /// Fills a container or span of any scalar, in its order.
  template <class Range>
  void fill_normal(Range&& range) {
    for (auto& value : range)
      value = static_cast<std::remove_reference_t<decltype(value)>>(normal());
  }

  template <class Range>
  void fill_uniform(Range&& range, double low, double high) {
    for (auto& value : range) {
      value = static_cast<std::remove_reference_t<decltype(value)>>(uniform(low, high));
    }
  }

 private:
  std::mt19937_64 engine_;
};

namespace detail {

/// Maps floating-point numbers to integers so that neighbours are one apart and -0 meets +0.
template <class Bits, class Scalar>
Bits ordered_bits(Scalar x) {
  const Bits bits = std::bit_cast<Bits>(x);
  const Bits top = Bits{1} << (8 * sizeof(Bits) - 1);
  return (bits & top) != 0 ? static_cast<Bits>(top - (bits ^ top)) : static_cast<Bits>(top + bits);
}

}  // namespace detail

/// How many steps between neighbouring floats (or doubles) lie between a and b.
///
/// Two NaN are 0 apart; a NaN and a number the greatest distance there is.
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

/// The distance from |x| to the next greater float (or double); of the greatest one, the one below.
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

/// |a - b|; 0 for equal infinities and for two NaN, infinity where only one is NaN or infinite.
inline double abs_difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0.0;
  const double difference = std::abs(a - b);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

/// The greatest abs_difference of two ranges of any scalars; throws if their sizes differ.
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

/// The greatest magnitude in a range; 0 for an empty one.
template <class A>
double max_abs(const A& a) {
  double largest = 0.0;
  for (const auto& value : a) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

}  // namespace support
