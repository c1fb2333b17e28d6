// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/exp.hpp>

POSENC_BEGIN

/// Returns tanh(x) in every lane, as (e^2|x| - 1) / (e^2|x| + 1) with the sign of x.
///   Accuracy: 2.6 ulp (2.7 without FMA); odd; magnitudes never exceed 1 and are exactly 1 from
///             |x| = 10 on (double: 20); tiny x is returned unchanged; NaN stays NaN
///   Bits:     all tiers with FMA return the same bits
///   Cost:     19 operations (double: 24) and a division; no branch, no table
template <class T, class Tier>
POSENC_ALWAYS_INLINE Pack<T, Tier> tanh(Pack<T, Tier> x) noexcept {
  using P = Pack<T, Tier>;
  // For 2|x| >= 40, e^2|x| + 1 and e^2|x| - 1 round to the same number.
  const P max_argument = P::broadcast(T{40});
  const P sign = x & P::broadcast(-T{0});
  const P magnitude = x ^ sign;
  // The variable is the second argument, so that NaN is kept.
  const auto [r, power_of_2] = detail::split_exponent(smaller(max_argument, magnitude + magnitude));
  const P exp_r_minus_1 = mul_add(detail::exp_polynomial(r), r * r, r);
  const P exp_minus_1 = mul_add(exp_r_minus_1, power_of_2, power_of_2 - P::broadcast(T{1}));
  return (exp_minus_1 / (exp_minus_1 + P::broadcast(T{2}))) ^ sign;
}

POSENC_END
