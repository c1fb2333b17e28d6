// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/double_double.hpp>

#include <array>
#include <cmath>
#include <cstddef>

// Arithmetic with about 200 bits, used only for the settings of a model. A difference of two
// logarithms, or of a frequency and a bound, can cancel most bits. Enough remain for a
// DoubleDouble.
POSENC_BEGIN
namespace detail {

/// A quad-double number: an unevaluated sum of four doubles, each at most half an ulp of the
/// previous. The third and the fourth may be a little more in a difference that cancels.
///   Accuracy: + - * / within 2^-195 of their larger operand or result, exp and log within 2^-185,
///             for magnitudes from 1e-110 to 1e300; 0 is exact
///   Source:   Hida, Li, Bailey 2001 (QD)
struct QuadDouble {
  std::array<double, 4> limbs{};

  constexpr QuadDouble() = default;
  constexpr QuadDouble(double value) : limbs{value} {}                     // NOLINT: exact
  constexpr QuadDouble(DoubleDouble value) : limbs{value.hi, value.lo} {}  // NOLINT: exact
  constexpr explicit QuadDouble(const std::array<double, 4>& values) : limbs(values) {}

  /// Returns the nearest double.
  explicit operator double() const noexcept { return limbs[0]; }

  friend bool operator==(const QuadDouble&, const QuadDouble&) = default;
};

inline constexpr QuadDouble quad_pi{std::array{0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53,
                                               -0x1.f1976b7ed8fbcp-109, 0x1.4cf98e804177dp-163}};
inline constexpr QuadDouble quad_ln_2{std::array{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56,
                                                 0x1.7b57a079a1934p-111, -0x1.ace93a4ebe5d1p-165}};
/// 1 / 16!
inline constexpr QuadDouble quad_inv_16_factorial{
    std::array{0x1.ae7f3e733b81fp-45, 0x1.1d8656b0ee8cbp-101, -0x1.6e142a138f825p-161,
               0x1.43c0c38ccdcc6p-216}};

/// Rounds x to a DoubleDouble.
inline DoubleDouble rounded(const QuadDouble& x) noexcept {
  return quick_two_sum(x.limbs[0], x.limbs[1] + x.limbs[2]);
}

/// Returns the normalised sum of numbers that are roughly in descending order of magnitude.
template <std::size_t N>
QuadDouble renormalized_sum(std::array<double, N> x) noexcept {
  // Every pass keeps the sum exact and moves it towards x[0]. After heavy cancellation several
  // passes are needed until no two components overlap.
  bool moved = true;
  for (int pass = 0; moved && pass < 16; ++pass) {
    moved = false;
    for (std::size_t i = N - 1; i > 0; --i) {
      const DoubleDouble sum = two_sum(x[i - 1], x[i]);
      moved = moved || sum.hi != x[i - 1];
      x[i - 1] = sum.hi;
      x[i] = sum.lo;
    }
  }
  QuadDouble result;
  std::size_t count = 0;
  for (std::size_t i = 0; i < N && count < 4; ++i) {
    if (x[i] != 0) result.limbs[count++] = x[i];
  }
  return result;
}

inline QuadDouble operator-(const QuadDouble& a) noexcept {
  return QuadDouble(std::array{-a.limbs[0], -a.limbs[1], -a.limbs[2], -a.limbs[3]});
}

/// Returns the normalised sum of five numbers, each at most a few ulps of the previous one. After
/// heavy cancellation two passes are needed until no two components overlap.
template <int Passes>
QuadDouble renormalized(std::array<double, 5> x) noexcept {
  for (int pass = 0; pass < Passes; ++pass) {
    for (std::size_t i = 4; i > 0; --i) {
      const DoubleDouble sum = two_sum(x[i - 1], x[i]);
      x[i - 1] = sum.hi;
      x[i] = sum.lo;
    }
  }
  QuadDouble result;
  std::size_t count = 0;
  double high = x[0];
  for (std::size_t i = 1; i < 5; ++i) {
    const DoubleDouble sum = quick_two_sum(high, x[i]);
    high = sum.hi;
    if (sum.lo == 0) continue;
    result.limbs[count++] = high;
    if (count == 4) return result;
    high = sum.lo;
  }
  result.limbs[count] = high;
  return result;
}

/// Returns a + b + c exactly, as an unevaluated sum of three doubles.
inline std::array<double, 3> three_sum(double a, double b, double c) noexcept {
  const DoubleDouble ab = two_sum(a, b), all = two_sum(ab.hi, c), low = two_sum(ab.lo, all.lo);
  return {all.hi, low.hi, low.lo};
}

// Sums and products proceed level by level, each level 2^-53 of the previous one. The rounding
// errors of a level are added exactly to the levels below it. Only the fifth level rounds, by about
// 2^-206 of the largest term. These are the "sloppy" operations of Hida, Li and Bailey: their error
// is bounded relative to the larger operand, not relative to a sum that cancels.

POSENC_NOINLINE inline QuadDouble operator+(const QuadDouble& a, const QuadDouble& b) noexcept {
  const auto& [a0, a1, a2, a3] = a.limbs;
  const auto& [b0, b1, b2, b3] = b.limbs;
  const DoubleDouble s0 = two_sum(a0, b0), s1 = two_sum(a1, b1), s2 = two_sum(a2, b2),
                     s3 = two_sum(a3, b3);
  const DoubleDouble first = two_sum(s1.hi, s0.lo);
  const auto second = three_sum(s2.hi, first.lo, s1.lo);
  const auto third = three_sum(s3.hi, second[1], s2.lo);
  return renormalized<2>(
      {s0.hi, first.hi, second[0], third[0], (third[1] + third[2]) + (second[2] + s3.lo)});
}

inline QuadDouble operator-(const QuadDouble& a, const QuadDouble& b) noexcept { return a + (-b); }

POSENC_NOINLINE inline QuadDouble operator*(const QuadDouble& a, const QuadDouble& b) noexcept {
  const auto& [a0, a1, a2, a3] = a.limbs;
  const auto& [b0, b1, b2, b3] = b.limbs;
  const DoubleDouble p00 = two_product(a0, b0), p01 = two_product(a0, b1),
                     p10 = two_product(a1, b0), p02 = two_product(a0, b2),
                     p11 = two_product(a1, b1), p20 = two_product(a2, b0);
  const auto first = three_sum(p01.hi, p10.hi, p00.lo);
  const auto products = three_sum(p02.hi, p11.hi, p20.hi);
  const auto rests = three_sum(p01.lo, p10.lo, first[1]);
  const DoubleDouble second = two_sum(products[0], rests[0]);
  const auto third = three_sum(products[1], rests[1], second.lo);
  const double last =
      mul_add(a0, b3, mul_add(a3, b0, mul_add(a1, b2, mul_add(a2, b1, p02.lo + p11.lo + p20.lo))));
  const DoubleDouble fourth = two_sum(third[0], last);
  return renormalized<1>({p00.hi, first[0], second.hi, fourth.hi,
                          fourth.lo + ((third[1] + first[2]) + (products[2] + rests[2]))});
}

POSENC_NOINLINE inline QuadDouble operator/(const QuadDouble& a, const QuadDouble& b) noexcept {
  // Long division with two digits of about 100 bits.
  const DoubleDouble divisor = rounded(b), first = rounded(a) / divisor;
  return QuadDouble(first) + QuadDouble(rounded(a - b * first) / divisor);
}

inline bool operator<(const QuadDouble& a, const QuadDouble& b) noexcept {
  return (a - b).limbs[0] < 0;
}

/// Returns the largest integer not above x.
inline QuadDouble floor(const QuadDouble& x) noexcept {
  QuadDouble result;
  for (std::size_t i = 0; i < 4; ++i) {
    result.limbs[i] = std::floor(x.limbs[i]);
    if (result.limbs[i] != x.limbs[i]) break;
  }
  return renormalized_sum(result.limbs);
}

/// Returns e^x. exp(0) is exactly 1.
inline QuadDouble exp(const QuadDouble& x) noexcept {
  const double k = std::rint(x.limbs[0] / ln_2.hi);
  const QuadDouble r = (x - quad_ln_2 * k) * 0x1p-9;
  // |r| < 2^-10, so sixteen terms are enough. They are summed as 16! / n! r^n, whose factors are
  // exact. The terms from r^9 on are less than 2^-108 of the sum, so DoubleDouble precision is
  // enough for them.
  DoubleDouble tail = 1.0;
  double factor = 1;
  for (int n = 16; n > 9; --n) {
    factor *= n;
    tail = tail * rounded(r) + factor;
  }
  QuadDouble sum = tail;
  for (int n = 9; n >= 1; --n) {
    factor *= n;
    sum = sum * r + factor;
  }
  QuadDouble power = x.limbs[0] == 0 ? QuadDouble(1) : sum * quad_inv_16_factorial;
  for (int i = 0; i < 9; ++i) power = power * power;
  for (double& limb : power.limbs) limb = std::ldexp(limb, static_cast<int>(k));
  return power;
}

/// Returns the natural logarithm of x > 0. log(1) is exactly 0.
inline QuadDouble log(const QuadDouble& x) noexcept {
  const double guess = std::log(x.limbs[0]);
  const QuadDouble error = x * exp(QuadDouble(-guess)) - 1.0;
  // The series of log(1 + error) up to error^3, because error^4 is less than 2^-200.
  return guess + (error - error * error * (QuadDouble(0.5) - error.limbs[0] / 3));
}

}  // namespace detail
POSENC_END
