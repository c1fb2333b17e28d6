// SPDX-License-Identifier: MIT
#pragma once

#include "support/compare.hpp"
#include "support/mpfr.hpp"
#include "support/random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

/// Documented bounds in the form that a search needs.
namespace accuracy {

using support::Mpfr;

/// Range of a coordinate of the search.
struct Range {
  double low = 0, high = 1;
  bool logarithmic = false;  ///< searched by magnitude; requires low > 0
  bool whole = false;
};

inline Range magnitude(double low, double high) { return {low, high, true, false}; }
inline Range whole(double low, double high) { return {low, high, false, true}; }

using Point = std::vector<double>;

/// Documented bound; share(point) is the error at a point divided by the bound.
struct Bound {
  std::string name;
  std::vector<Range> ranges;
  std::function<double(const Point&)> share;
  double ulps = 0;  ///< the bound in ulp, or 0 if it is not a number of ulp
};

/// Returns the distance between adjacent doubles, or floats, at x; that of the smallest normal
/// number for denormals.
template <std::floating_point T>
double ulp(double x) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  using Limits = std::numeric_limits<T>;
  // The greatest power of 2 up to |x|, which has no fraction bits.
  const auto bits =
      std::bit_cast<Bits>(static_cast<T>(x)) & std::bit_cast<Bits>(Limits::infinity());
  const T power = std::max(std::bit_cast<T>(bits), (Limits::min)());
  return static_cast<double>(power) * static_cast<double>(Limits::epsilon());
}

inline double distance(const Mpfr& a, const Mpfr& b) { return support::absolute_error(a, b); }

inline Mpfr absolute(const Mpfr& x) { return x < Mpfr(0) ? Mpfr(0) - x : x; }
/// Returns ln(1 + x) for x >= 0, because 1 + x would lose the bits of a small x.
inline Mpfr log_1_plus(const Mpfr& x) {
  return x < Mpfr(0x1p-100) ? x - x * x / Mpfr(2) : log(Mpfr(1) + x);
}

std::vector<Bound> attention_bounds();
std::vector<Bound> bias_bounds();
std::vector<Bound> elementary_bounds();
std::vector<Bound> frequency_bounds();
std::vector<Bound> resize_bounds();
std::vector<Bound> rotation_bounds();
/// Returns every bound of the functions above and below.
std::vector<Bound> all_bounds();
/// Returns a random number of a range.
double draw(const Range& range, support::Random& random);
/// Returns the share of a bound at a point: 0 if the library rejects the input.
double share_of(const Bound& bound, const Point& point);
/// Returns the bounds of all rules under arbitrary settings: finite numbers or a ConfigError.
std::vector<Bound> wild_settings();

}  // namespace accuracy
