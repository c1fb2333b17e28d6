// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/double_double.hpp>
#include <posenc/simd/pack.hpp>

POSENC_BEGIN

/// cos and sin of the same angles, one per lane.
template <class P>
struct CosSinOf {
  P cos;  ///< cosine of each lane's angle
  P sin;  ///< sine of each lane's angle
};

namespace detail {

/// cos and sin of one angle.
struct CosSin {
  double cos = 1;
  double sin = 0;
};

/// A reduced angle: a number of quarter turns, split into the nearest integer and the remainder.
template <class P>
struct ReducedAngle {
  P quadrant_bits;  ///< the integer plus 1.5 * 2^52; its last bits are those of the integer
  P remainder;      ///< at most 0.501 up to 2^40 radians, and 0.580 (without FMA 0.643) to 2^50
};

/// A constant that rounds: its sum with x, |x| < 2^51, has x in the last bits, rounded to nearest
/// even.
inline constexpr double shifter = 0x1.8p52;

/// Reduces position * (hi + lo) quarter turns. The rounding error of the product is recovered, so
/// the size of the product costs no accuracy.
///   Accuracy: the remainder is within 1.2e-16 of its exact value (without FMA: 1.4e-16) for angles
///             up to 2^50 radians, if |lo| <= ulp(hi) / 2
template <class P>
POSENC_ALWAYS_INLINE ReducedAngle<P> reduce_angle(P position, P hi, P lo) noexcept {
#if POSENC_HAS_FMA
  const P shifted = mul_add(position, hi, P::broadcast(shifter));
  const P minus_integer =
      P::broadcast(shifter) - shifted;  // never -0, so that position -0 acts as 0
  return {shifted, mul_add(position, lo, mul_add(position, hi, minus_integer))};
#else
  const P product = position * hi;
  const P shifted = product + P::broadcast(shifter);
  const P minus_integer = P::broadcast(shifter) - shifted;
  // Dekker's product. A mask splits the factors into halves of 26 bits, because it cannot overflow.
  const P upper = P::broadcast(std::bit_cast<double>(0xfffffffff8000000u));
  const P position_high = position & upper, hi_high = hi & upper;
  const P position_low = position - position_high, hi_low = hi - hi_high;
  const P error =
      ((position_high * hi_high - product) + position_high * hi_low + position_low * hi_high) +
      position_low * hi_low;
  return {shifted, (product + minus_integer) + (error + position * lo)};
#endif
}

/// Returns cos(pi/2 r) and sin(pi/2 r) by minimax polynomials in r^2.
///   Accuracy: absolute errors of the polynomials for |r| <= 9/16: cos within 8.2e-18 and sin
///             within 4.3e-17, most of it by the rounding of pi/2. They grow beyond: for |r| <=
///             0.643 to 4.7e-16 and 7.3e-17. Rounding is within 1.7e-16 and 2.3e-16 then
template <class P>
POSENC_ALWAYS_INLINE CosSinOf<P> cos_sin_reduced(P r) noexcept {
  const auto next = [u = r * r](P polynomial, double coefficient) {
    return mul_add(polynomial, u, P::broadcast(coefficient));
  };
  P c = P::broadcast(-0x1.b13e632da3acap-28);
  P s = P::broadcast(-0x1.6b501d7978d21p-31);
  c = next(c, 0x1.f9c8123f59982p-22);
  s = next(s, 0x1.e8ead3daaa2fbp-25);
  c = next(c, -0x1.a6d1e6891d83bp-16);
  s = next(s, -0x1.e307454936a20p-19);
  c = next(c, 0x1.e1f5067b13e51p-11);
  s = next(s, 0x1.507834813fd3ap-13);
  c = next(c, -0x1.55d3c7e3c34b6p-6);
  s = next(s, -0x1.32d2cce627364p-8);
  c = next(c, 0x1.03c1f081b5a72p-2);
  s = next(s, 0x1.466bc6775aaafp-4);
  c = next(c, -0x1.3bd3cc9be45dep+0);
  s = next(s, -0x1.4abbce625be53p-1);
  c = next(c, 1.0);
  return {c, mul_add(s, (r * r) * r, r * P::broadcast(0x1.921fb54442d18p+0))};
}

}  // namespace detail

/// Returns cos and sin of position * (hi + lo) quarter turns in every lane, where hi + lo is
/// inv_freq * 2 / pi.
///   Accuracy: absolute error <= 4e-16 for angles |position * inv_freq| <= 2^40 and <= 1e-15 up to
///             2^50, with hi + lo taken as exact; position 0 gives exactly 1 and 0; cos is even,
///             sin odd
///   Bits:     every lane of every tier with FMA returns the same bits
///   Cost:     with FMA, three multiply-adds, a subtraction and two polynomials of degree 7 in r^2;
///             no branch, no table
template <class P>
POSENC_ALWAYS_INLINE CosSinOf<P> cos_sin(P position, P hi, P lo) noexcept {
  const detail::ReducedAngle<P> angle = detail::reduce_angle(position, hi, lo);
  const CosSinOf<P> first = detail::cos_sin_reduced(angle.remainder);
  // Odd quarters swap cos and sin. sin is negated in quarters 2 and 3, cos in quarters 1 and 2.
  const P odd = shift_left<63>(angle.quadrant_bits);
  const P sin_sign = shift_left<62>(angle.quadrant_bits) & P::broadcast(-0.0);
  const P cos_sign = sin_sign ^ odd;
  return {select_by_sign(odd, first.sin, first.cos) ^ cos_sign,
          select_by_sign(odd, first.cos, first.sin) ^ sin_sign};
}

namespace detail {

/// Returns cos and sin of one angle, position * turns quarter turns.
inline CosSin cos_sin(double position, DoubleDouble turns) noexcept {
  using One = Pack<double, tier::Scalar>;
  const CosSinOf<One> value = posenc::cos_sin(One{position}, One{turns.hi}, One{turns.lo});
  return {value.cos.v, value.sin.v};
}

}  // namespace detail

POSENC_END
