// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/mul_add.hpp>

#include <cmath>
#include <compare>

POSENC_BEGIN

namespace detail {

/// A double-double number: an unevaluated sum hi + lo with |lo| <= ulp(hi) / 2, about 106 bits.
///   Accuracy: + - * / within 2^-103 relative, exp, log, pow within 2^-97 for results and arguments
///             up to 2^64 (pow: |y log x| <= 40).
///   Source:   Dekker 1971, Knuth TAOCP 4.2.2, Hida, Li, Bailey 2001 (QD).
struct DoubleDouble {
  double hi = 0;
  double lo = 0;

  constexpr DoubleDouble() = default;
  constexpr DoubleDouble(double value) : hi(value) {}  // NOLINT: exact
  constexpr DoubleDouble(double high, double low) : hi(high), lo(low) {}

  /// Compares lexicographically, which is the numeric order of normalised values.
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 reports the 0 of the defaulted comparison.
  friend constexpr auto operator<=>(const DoubleDouble&, const DoubleDouble&) = default;
};

inline constexpr DoubleDouble pi{0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};
inline constexpr DoubleDouble two_over_pi{0x1.45f306dc9c883p-1, -0x1.6b01ec5417056p-55};
inline constexpr DoubleDouble ln_2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

/// Returns a + b exactly. Requires |a| >= |b| or a == 0.
inline DoubleDouble quick_two_sum(double a, double b) noexcept {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

/// Returns a + b exactly, for any a and b.
inline DoubleDouble two_sum(double a, double b) noexcept {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

/// Returns a * b exactly, unless the product overflows or its last bit underflows.
inline DoubleDouble two_product(double a, double b) noexcept {
#if POSENC_HAS_FMA
  // Written as an fma, so that no compiler contracts the product with a later sum. A contracted sum
  // would contain the product's error already, and the error is added to it once more.
  const double product = std::fma(a, b, 0.0);
  return {product, std::fma(a, b, -product)};
#else
  const double product = a * b;
  const auto split = [](double x) {
    const double scaled = 0x1p27 * x + x;
    const double high = scaled - (scaled - x);
    return DoubleDouble{high, x - high};
  };
  // Larger factors are scaled down, because split() would overflow.
  const double a_unit = std::abs(a) > 0x1p990 ? 0x1p-60 : 1,
               b_unit = std::abs(b) > 0x1p990 ? 0x1p-60 : 1;
  const DoubleDouble x = split(a * a_unit), y = split(b * b_unit);
  const double error =
      ((x.hi * y.hi - product * a_unit * b_unit) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo;
  return {product, error / a_unit / b_unit};
#endif
}

/// Returns a b + addend with hardly more than one rounding, for |addend| far smaller than |a b|.
/// Overflow gives infinity.
inline double rounded_product(double a, DoubleDouble b, double addend = 0) noexcept {
  const DoubleDouble product = two_product(a, b.hi);
  const double low = mul_add(a, b.lo, product.lo + addend);
  return product.hi + (std::abs(product.hi) <= 0x1p1020 ? low : 0.0);
}

inline DoubleDouble operator-(DoubleDouble a) noexcept { return {-a.hi, -a.lo}; }

inline DoubleDouble operator+(DoubleDouble a, DoubleDouble b) noexcept {
  DoubleDouble sum = two_sum(a.hi, b.hi);
  const DoubleDouble low = two_sum(a.lo, b.lo);
  sum = quick_two_sum(sum.hi, sum.lo + low.hi);
  return quick_two_sum(sum.hi, sum.lo + low.lo);
}

inline DoubleDouble operator-(DoubleDouble a, DoubleDouble b) noexcept { return a + (-b); }

inline DoubleDouble operator*(DoubleDouble a, DoubleDouble b) noexcept {
  const DoubleDouble product = two_product(a.hi, b.hi);
  const double cross = mul_add(a.hi, b.lo, a.lo * b.hi);
  return quick_two_sum(product.hi, product.lo + cross);
}

POSENC_NOINLINE inline DoubleDouble operator/(DoubleDouble a, DoubleDouble b) noexcept {
  const double first = a.hi / b.hi;
  DoubleDouble remainder = a - b * first;
  const double second = remainder.hi / b.hi;
  remainder = remainder - b * second;
  return DoubleDouble(quick_two_sum(first, second)) + remainder.hi / b.hi;
}

/// Returns the largest integer not above x.
inline DoubleDouble floor(DoubleDouble x) noexcept {
  const double high = std::floor(x.hi);
  return high == x.hi ? quick_two_sum(high, std::floor(x.lo)) : DoubleDouble(high);
}

/// Returns e^x - 1 to full relative precision. Requires |x| < 0.4.
inline DoubleDouble exp_minus_1(DoubleDouble x) noexcept {
  // |x / 512| < 0.0008, so eleven terms of the series are enough. Squaring nine times by
  // (1 + p)^2 - 1 = 2p + p^2 keeps the leading 1 out of the rounding.
  const DoubleDouble r{x.hi * 0x1p-9, x.lo * 0x1p-9};
  DoubleDouble p;
  for (int n = 11; n >= 1; --n) p = r * (p + 1.0) / static_cast<double>(n);
  for (int i = 0; i < 9; ++i) p = p * 2.0 + p * p;
  return p;
}

/// Returns e^x. exp(0) is exactly 1.
inline DoubleDouble exp(DoubleDouble x) noexcept {
  const double k = std::rint(x.hi / ln_2.hi);
  const DoubleDouble p = exp_minus_1(x - ln_2 * k) + 1.0;
  const int exponent = static_cast<int>(k);
  return {std::ldexp(p.hi, exponent), std::ldexp(p.lo, exponent)};
}

/// Returns the natural logarithm of x > 0. log(1) is exactly 0.
inline DoubleDouble log(DoubleDouble x) noexcept {
  const double guess = std::log(x.hi);
  // error = x e^-guess - 1. Near x = 1 the result is small, so the 1 must not take part in the
  // rounding.
  const DoubleDouble error = std::abs(guess) < 0.3 ? (x - 1.0) + x * exp_minus_1(-guess)
                                                   : x * exp(-DoubleDouble(guess)) - 1.0;
  return DoubleDouble(guess) + (error - error * error * 0.5);
}

/// Returns x^y for x > 0. pow(x, 0) and pow(1, y) are exactly 1.
inline DoubleDouble pow(DoubleDouble x, DoubleDouble y) noexcept { return exp(y * log(x)); }

}  // namespace detail
POSENC_END
