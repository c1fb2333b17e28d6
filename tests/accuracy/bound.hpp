// SPDX-License-Identifier: MIT
#pragma once

#include "support/mpfr.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <functional>
#include <limits>
#include <string>
#include <vector>

/// Documented bounds as a search sees them.
namespace accuracy {

using support::Mpfr;

/// What a coordinate of the search may be.
struct Range {
  double low = 0, high = 1;
  bool logarithmic = false;  ///< searched by its magnitude; low > 0 then
  bool whole = false;
};

inline Range magnitude(double low, double high) { return {low, high, true, false}; }
inline Range whole(double low, double high) { return {low, high, false, true}; }

using Point = std::vector<double>;

/// A promise: share(point) is the error there as a share of what is allowed.
struct Bound {
  std::string name;
  std::vector<Range> ranges;
  std::function<double(const Point&)> share;
};

/// The distance of the doubles, or floats, around x, but of the normal ones.
template <std::floating_point T>
double ulp(double x) {
  const T magnitude = std::abs(static_cast<T>(x));
  const int exponent = std::max(magnitude > 0 ? std::ilogb(magnitude) : -2000,
                                std::numeric_limits<T>::min_exponent - 1);
  return std::ldexp(1.0, exponent - std::numeric_limits<T>::digits + 1);
}

inline double distance(const Mpfr& a, const Mpfr& b) { return support::absolute_error(a, b); }

inline Mpfr absolute(const Mpfr& x) { return x < Mpfr(0) ? Mpfr(0) - x : x; }
/// Of x >= 0; 1 + x would lose the bits of a small one.
inline Mpfr log_1_plus(const Mpfr& x) {
  return x < Mpfr(0x1p-100) ? x - x * x / Mpfr(2) : log(Mpfr(1) + x);
}

std::vector<Bound> attention_bounds();
std::vector<Bound> bias_bounds();
std::vector<Bound> elementary_bounds();
std::vector<Bound> frequency_bounds();
std::vector<Bound> resize_bounds();
std::vector<Bound> rotation_bounds();
/// Frequencies of the wildest settings: numbers, or a ConfigError.
std::vector<Bound> wild_settings();

}  // namespace accuracy
