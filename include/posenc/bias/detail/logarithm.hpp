// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/double_double.hpp>
#include <posenc/simd/pack.hpp>

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

POSENC_BEGIN
namespace detail {

/// Returns 1/3 + z/5 + z^2/7 + ... + z^10/23. Unrolled, because g++ does not vectorise an outer
/// loop around a loop.
POSENC_ALWAYS_INLINE double artanh_series(double z) noexcept {
  double series = mul_add(1.0 / 23, z, 1.0 / 21);
  series = mul_add(series, z, 1.0 / 19);
  series = mul_add(series, z, 1.0 / 17);
  series = mul_add(series, z, 1.0 / 15);
  series = mul_add(series, z, 1.0 / 13);
  series = mul_add(series, z, 1.0 / 11);
  series = mul_add(series, z, 1.0 / 9);
  series = mul_add(series, z, 1.0 / 7);
  series = mul_add(series, z, 1.0 / 5);
  return mul_add(series, z, 1.0 / 3);
}

/// Returns ln(x (1 + extra)) for x normal, positive and finite and |extra| <= 2^-53. Branch-free,
/// so that compilers vectorise loops over it, with the same bits. Zero gives -1023 ln 2.
///   Accuracy: 1 ulp
POSENC_ALWAYS_INLINE double logarithm(double x, double extra = 0) noexcept {
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
  const double series = artanh_series(z);
  const double part = mul_add(s, mul_add(2 * z, series, half * f), mul_add(k, ln_2_lo, extra));
  return mul_add(k, ln_2_hi, f - mul_add(half, f, -part));
}

/// Returns ln(1 + y) for finite y >= 0.
///   Accuracy: 1 ulp
POSENC_ALWAYS_INLINE double log1p_branchless(double y) noexcept {
  const DoubleDouble sum = detail::two_sum(1, y);
  return logarithm(sum.hi, sum.lo / sum.hi);
}

/// Returns ln(1 + y) for y.hi from 0 to 2^1000, branch-free.
///   Accuracy: 2^-57 relative
POSENC_ALWAYS_INLINE DoubleDouble log1p_double_double(DoubleDouble y) noexcept {
  constexpr std::uint64_t one = 0x3ff0000000000000, sign_and_exponent = 0xfff0000000000000;
  constexpr std::uint64_t root_of_half = 0x3fe6a09e667f3bcd, two_to_52 = 0x4330000000000000;
  constexpr double ln_2_hi = 0x1.62e42fefa3800p-1, ln_2_lo = 0x1.ef35793c76730p-45;
  const DoubleDouble x = two_sum(1, y.hi);
  const DoubleDouble below = two_sum(x.lo, y.lo);
  const double extra = below.hi / x.hi;
  // Like logarithm(), but with s in two doubles. The remaining terms of the series are a hundredth
  // of it.
  const auto bits = std::bit_cast<std::uint64_t>(x.hi);
  const std::uint64_t scaled = bits + (one - root_of_half);
  const double k = std::bit_cast<double>((scaled >> 52) | two_to_52) - 0x1.00000000003ffp52;
  const double f = std::bit_cast<double>(bits - (scaled & sign_and_exponent) + one) - 1;
  const double sum = 2 + f, sum_lo = f - (sum - 2);
  const double s = f / sum, z = s * s;
  const DoubleDouble back = two_product(s, sum);
  const double s_lo = mul_add(-s, sum_lo, (f - back.hi) - back.lo) / sum;
  const double series = artanh_series(z);
  const DoubleDouble whole = quick_two_sum(mul_add(k, ln_2_hi, 0.0), 2 * s);
  const DoubleDouble high = two_sum(whole.hi, extra);
  const double part = mul_add(2 * s * z, series, mul_add(2 * s_lo, z, 2 * s_lo)) +
                      mul_add(k, ln_2_lo, mul_add(-0.5 * extra, extra, below.lo / x.hi));
  return quick_two_sum(high.hi, high.lo + (whole.lo + part));
}

/// Returns |from - to| as a sum of two doubles.
POSENC_ALWAYS_INLINE DoubleDouble distance_double_double(double from, double to) noexcept {
  const DoubleDouble d = two_sum(from, -to);
  const double sign = std::copysign(1.0, d.hi);
  return {d.hi * sign, d.lo * sign};
}

/// Returns ln(1 + rate |from - to|) as a sum of two doubles, branch-free. Distance and product must
/// be far from overflow.
POSENC_ALWAYS_INLINE DoubleDouble log1p_distance_double_double(double rate, double from,
                                                               double to) noexcept {
  const DoubleDouble d = distance_double_double(from, to);
  const DoubleDouble product = two_product(rate, d.hi);
  return log1p_double_double(quick_two_sum(product.hi, mul_add(rate, d.lo, product.lo)));
}

/// Returns ln(1 + rate |from - to|) in one double, as accurately as float tiles need it.
POSENC_ALWAYS_INLINE double log1p_distance(double rate, double from, double to) noexcept {
  return log1p_branchless(mul_add(rate, std::abs(from - to), 0.0));
}

/// Limit up to which distances and products are far from overflow.
inline constexpr double overflow_limit = 0x1p980;

/// Returns ln(1 + rate |from - to|) with the accuracy for tiles of Real, even if the distance or
/// its product with the rate overflows a double. A position that is infinite or NaN gives NaN.
template <std::floating_point Real>
DoubleDouble log1p_distance_no_overflow(double rate, double from, double to) noexcept {
  const auto log1p = [](double r, double a, double b) -> DoubleDouble {
    if constexpr (std::same_as<Real, double>) return log1p_distance_double_double(r, a, b);
    return log1p_distance(r, a, b);
  };
  constexpr double limit = 4 * overflow_limit;
  const double distance = std::abs(from - to);
  if (distance <= limit && distance * rate <= limit) return log1p(rate, from, to);
  // The product of a distance above the limit with a small rate may be any number.
  constexpr double scale = 0x1p-100;
  const double scaled = std::abs(scale * from - scale * to);
  if (!std::isfinite(scaled)) return std::numeric_limits<double>::quiet_NaN();  // a position is not
  if (scaled * rate <= scale * limit) return log1p(rate / scale, scale * from, scale * to);
  int exponent = 0, exponent_of_rate = 0;
  const double significand = std::frexp(scaled, &exponent);
  const double significand_of_rate = std::frexp(rate, &exponent_of_rate);
  return log(DoubleDouble(significand)) + log(DoubleDouble(significand_of_rate)) +
         ln_2 * static_cast<double>(exponent + exponent_of_rate + 100);
}

/// Returns the greatest |to[u]|, or infinity if one is NaN. `count` must be a multiple of the width
/// of two packs.
template <class Tier = tier::Best>
double max_absolute(const double* to, Index count) noexcept {
  using P = Pack<double, Tier>;
  const P kept = P::broadcast(std::bit_cast<double>(~std::uint64_t{0} >> 1));  // all but the sign
  P greatest = P::zero(), all = P::zero();
  for (Index u = 0; u < count; u += 2 * P::width) {
    const P a = P::load(to + u) & kept, b = P::load(to + u + P::width) & kept;
    greatest = larger(larger(a, b), greatest);
    all = all + (a + b);  // it stays NaN, which larger() drops
  }
  return std::isnan(sum(all)) ? std::numeric_limits<double>::infinity() : maximum(greatest);
}

/// True if a distance from - to[u], or its product with the rate, may come close to overflow.
inline bool may_overflow(double rate, double from, const double* to, Index count) noexcept {
  const double reach = 0.5 * std::abs(from) + 0.5 * max_absolute(to, count);
  return !(reach <= overflow_limit && reach * std::abs(rate) <= overflow_limit);
}

/// Sets values[u] = finish(ln(1 + rate |from - to[u]|)), as accurately as a tile of Real needs it.
/// The arguments of finish() are the high and the low part of the logarithm.
template <std::floating_point Real, std::floating_point Value, class Finish>
void log1p_distances(double rate, double from, const double* to, Value* values, Index count,
                     const Finish& finish) noexcept {
  if (may_overflow(rate, from, to, count)) {
    for (Index u = 0; u < count; ++u) {
      const DoubleDouble log = log1p_distance_no_overflow<Real>(rate, from, to[u]);
      values[u] = static_cast<Value>(finish(log.hi, log.lo));
    }
  } else if constexpr (std::same_as<Real, double>) {
    for (Index u = 0; u < count; ++u) {
      const DoubleDouble log = log1p_distance_double_double(rate, from, to[u]);
      values[u] = finish(log.hi, log.lo);
    }
  } else {
    for (Index u = 0; u < count; ++u) {
      values[u] = static_cast<Value>(finish(log1p_distance(rate, from, to[u]), 0.0));
    }
  }
}

}  // namespace detail
POSENC_END
