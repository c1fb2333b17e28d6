// SPDX-License-Identifier: MIT
#pragma once

#include "accuracy/truth.hpp"
#include <posenc/simd/pack.hpp>
#include <posenc/simd/tier.hpp>

#include <array>

/// True values for billions of inputs: sums of two doubles, on packs. cos_sin_of() has more digits and
/// decides where these leave a question open.
namespace accuracy {

/// An unevaluated sum of two packs.
template <class P>
struct PackSum {
  P hi, lo;
};

/// a + b exactly. Requires |a| >= |b| or a == 0.
template <class P>
PackSum<P> quick_two_sum(P a, P b) {
  const P sum = a + b;
  return {sum, b - (sum - a)};
}

/// a + b exactly.
template <class P>
PackSum<P> two_sum(P a, P b) {
  const P sum = a + b, b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

/// a * b exactly, unless its last bit underflows.
template <class P>
PackSum<P> two_product(P a, P b) {
  const P product = a * b;
#if POSENC_HAS_FMA
  return {product, mul_sub(a, b, product)};
#else
  const auto split = [](P x) {
    const P scaled = P::broadcast(0x1p27 + 1) * x, high = scaled - (scaled - x);
    return PackSum<P>{high, x - high};
  };
  const PackSum<P> x = split(a), y = split(b);
  return {product, ((x.hi * y.hi - product) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo};
#endif
}

template <class P>
PackSum<P> operator*(PackSum<P> a, PackSum<P> b) {
  const PackSum<P> product = two_product(a.hi, b.hi);
  return quick_two_sum(product.hi, product.lo + (a.hi * b.lo + a.lo * b.hi));
}

/// constant + b, for |constant| >= |b|.
template <class P>
PackSum<P> operator+(posenc::detail::DoubleDouble constant, PackSum<P> b) {
  const PackSum<P> sum = quick_two_sum(P::broadcast(constant.hi), b.hi);
  return quick_two_sum(sum.hi, sum.lo + (b.lo + P::broadcast(constant.lo)));
}

/// Returns coefficients[0] + z coefficients[1] + z^2 coefficients[2] + ...
template <class P, std::size_t N>
P polynomial(P z, const std::array<double, N>& coefficients) {
  P sum = P::broadcast(coefficients.back());
  for (std::size_t n = N - 1; n-- > 0;) sum = mul_add(z, sum, P::broadcast(coefficients[n]));
  return sum;
}

/// cos and sin of an angle, which is the sum of multiples of pi / 2 and of a rest.
template <class P>
struct PackCosSin {
  P angle, quarter_turns;
  PackSum<P> cos_rest, sin_rest;
};

/// Returns cos and sin of position * frequency, up to an angle of 2^50. The relative error is at most
/// 2^-60 if the result is above 2^-40, or no quarter turn was subtracted.
template <class P>
PackCosSin<P> cos_sin_of(P position, PackSum<P> frequency) {
  // pi / 2 in three parts.
  const P parts[] = {P::broadcast(0x1.921fb54442d18p+0), P::broadcast(0x1.1a62633145c07p-54),
                     P::broadcast(-0x1.f1976b7ed8fbcp-110)};
  const P to_integer = P::broadcast(0x1.8p52);
  const PackSum<P> high = two_product(position, frequency.hi),
                   low = two_product(position, frequency.lo);
  const P quarter_turns = (high.hi * P::broadcast(0x1.45f306dc9c883p-1) + to_integer) - to_integer;
  const PackSum<P> first = two_product(quarter_turns, parts[0]),
                   second = two_product(quarter_turns, parts[1]);
  // The first difference is exact.
  const PackSum<P> a = two_sum(high.lo, -first.lo), b = two_sum(low.hi, -second.hi),
                   c = two_sum(high.hi - first.hi, a.hi), d = two_sum(c.hi, b.hi);
  const P rests =
      ((a.lo + b.lo) + (c.lo + d.lo)) + ((low.lo - second.lo) - quarter_turns * parts[2]);
  const PackSum<P> r = quick_two_sum(d.hi, rests), z = r * r;
  // Coefficients of the series; those of high powers in one double.
  constexpr std::array sin_high{1 / 362880.0,          -1 / 39916800.0,
                                1 / 6227020800.0,      -1 / 1307674368000.0,
                                1 / 355687428096000.0, -1 / 121645100408832000.0};
  constexpr std::array cos_high{
      1 / 40320.0,          -1 / 3628800.0,          1 / 479001600.0,          -1 / 87178291200.0,
      1 / 20922789888000.0, -1 / 6402373705728000.0, 1 / 2432902008176640000.0};
  using posenc::detail::DoubleDouble;
  constexpr DoubleDouble third{-0x1.5555555555555p-3, -0x1.5555555555555p-57},
      fourth{0x1.5555555555555p-5, 0x1.5555555555555p-59},
      fifth{0x1.1111111111111p-7, 0x1.1111111111111p-63},
      sixth{-0x1.6c16c16c16c17p-10, 0x1.f49f49f49f49fp-65},
      seventh{-0x1.a01a01a01a01ap-13, -0x1.a01a01a01a01ap-73};
  const P zero = P::zero();
  const PackSum<P> sin_tail = seventh + PackSum<P>{z.hi * polynomial(z.hi, sin_high), zero};
  const PackSum<P> cos_tail = sixth + PackSum<P>{z.hi * polynomial(z.hi, cos_high), zero};
  const PackSum<P> sin_factor = DoubleDouble(1) + z * (third + z * (fifth + z * sin_tail));
  const PackSum<P> cos_rest =
      DoubleDouble(1) + z * (DoubleDouble(-0.5) + z * (fourth + z * cos_tail));
  return {high.hi, quarter_turns, cos_rest, r * sin_factor};
}

}  // namespace accuracy
