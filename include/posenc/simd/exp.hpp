// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/pack.hpp>

#include <cstddef>
#include <iterator>

POSENC_BEGIN
namespace detail {

/// Constants of exp() for a type. exp() splits x into n ln 2 + r with an integer n, and computes
/// exp(r) as 1 + r + r^2 q(r).
template <class T>
struct ExpConstants;

template <>
struct ExpConstants<float> {
  static constexpr float shifter = 0x1.8p23f;  ///< its sum with x has rint(x) in the last bits
  /// exp() returns 0 and infinity for these, and clamps x to them.
  static constexpr float min_argument = -105, max_argument = 89.5;
  /// exp_nonpositive() clamps x to min_nonpositive_argument. Its n is -underflow_exponent, and the
  /// result is 0.
  static constexpr float min_nonpositive_argument = -69.5F, underflow_exponent = 100;
  static constexpr float exponent_rescale = 0x1p27F;  ///< 2^(exponent_bias - underflow_exponent)
  static constexpr float exponent_bias = 127;
  static constexpr float log2_e = 0x1.715476p+0f;
  static constexpr float ln_2_hi = 0x1.62e400p-1f, ln_2_lo = 0x1.7f7d1cp-20f;
  static constexpr int exponent_shift = 23;
  static constexpr float q[] = {0x1.6d117ap-10f, 0x1.120bdep-7f, 0x1.555518p-5f, 0x1.5554dcp-3f,
                                0.5f};
};

template <>
struct ExpConstants<double> {
  static constexpr double shifter = 0x1.8p52;
  static constexpr double min_argument = -746, max_argument = 710;
  static constexpr double min_nonpositive_argument = -624, underflow_exponent = 900;
  static constexpr double exponent_rescale = 0x1p123;
  static constexpr double exponent_bias = 1023;
  static constexpr double log2_e = 0x1.71547652b82fep+0;
  static constexpr double ln_2_hi = 0x1.62e42fefa3800p-1, ln_2_lo = 0x1.ef35793c76730p-45;
  static constexpr int exponent_shift = 52;
  static constexpr double q[] = {0x1.af39091a8441ap-26, 0x1.2891d2ecb3ed9p-22,
                                 0x1.71de0d863c737p-19, 0x1.a019b8cbe6585p-16,
                                 0x1.a01a01a7ce75dp-13, 0x1.6c16c1789caa1p-10,
                                 0x1.11111111109a6p-7,  0x1.5555555553d38p-5,
                                 0x1.5555555555556p-3,  0.5};
};

/// The result of split_exponent(): x = n ln 2 + r with |r| <= ln(2) / 2. The power of 2 is
/// 2^(n + bias - exponent_bias) for n in [-bias, bias], and 0 at n = -bias. A NaN in x stays in r.
template <class P>
struct SplitExponent {
  P r, power_of_2;
};

template <class T, class Tier>
POSENC_ALWAYS_INLINE SplitExponent<Pack<T, Tier>> split_exponent(
    Pack<T, Tier> x, T bias = ExpConstants<T>::exponent_bias) noexcept {
  using P = Pack<T, Tier>;
  using K = ExpConstants<T>;
  constexpr int shift = K::exponent_shift;  // by name, or clang++ 14 finds no shift_left
  // The last bits of the sum are n + bias, so a shift moves them into the exponent.
  const P biased = P::broadcast(K::shifter + bias);
  const P shifted = mul_add(x, P::broadcast(K::log2_e), biased);
  const P n = shifted - biased;
  const P r = mul_add(n, P::broadcast(-K::ln_2_hi), x);
  return {mul_add(n, P::broadcast(-K::ln_2_lo), r), shift_left<shift>(shifted)};
}

/// Returns scale * (exp(r) - 1 - r) / r^2, where `scale` is a power of 2.
template <class T, class Tier>
POSENC_ALWAYS_INLINE Pack<T, Tier> exp_polynomial(Pack<T, Tier> r, T scale = 1) noexcept {
  using P = Pack<T, Tier>;
  using K = ExpConstants<T>;
  P q = P::broadcast(K::q[0] * scale);
  for (std::size_t i = 1; i < std::size(K::q); ++i) {
    q = mul_add(q, r, P::broadcast(K::q[i] * scale));
  }
  return q;
}

}  // namespace detail

/// Returns e^x in every lane.
///   Accuracy: 1.2 ulp (double 1.25); 0 and infinity if they are nearest; denormal results are
///             rounded once more; exp(0) is exactly 1; NaN stays NaN
///   Bits:     all tiers with FMA return the same bits
///   Cost:     about 15 operations; no branch, no table
template <class T, class Tier>
POSENC_ALWAYS_INLINE Pack<T, Tier> exp(Pack<T, Tier> x) noexcept {
  using P = Pack<T, Tier>;
  using K = detail::ExpConstants<T>;
  const P shifter = P::broadcast(K::shifter);
  // x is the second argument, so that NaN is kept.
  x = smaller(P::broadcast(K::max_argument), larger(P::broadcast(K::min_argument), x));
  const P n = mul_add(x, P::broadcast(K::log2_e), shifter) - shifter;
  P r = mul_add(n, P::broadcast(-K::ln_2_hi), x);
  r = mul_add(n, P::broadcast(-K::ln_2_lo), r);
  const P power = mul_add(detail::exp_polynomial(r), r * r, r) + P::broadcast(T{1});
  // 2^n may be out of range, so it is applied as two factors.
  const P first = mul_add(n, P::broadcast(T{0.5}), shifter);
  const P second = (n - (first - shifter)) + shifter;
  constexpr int shift = K::exponent_shift;  // by name, or clang++ 14 finds no shift_left
  const auto power_of_2 = [](P shifted) {
    return add_bits(shift_left<shift>(shifted), P::broadcast(T{1}));
  };
  return (power * power_of_2(first)) * power_of_2(second);
}

/// Returns e^x in every lane for x <= 0, as a softmax needs it for scores minus their maximum.
/// Finite x up to 88 is allowed, too.
///   Accuracy: 1.1 ulp (1.4 without FMA) down to 2^-99 (double: 2^-899). Smaller results are 0,
///             because their products with values would be denormal, which is slow. exp(0) is
///             exactly 1; NaN stays NaN
///   Bits:     all tiers with FMA return the same bits
///   Cost:     13 operations, 10 of them products (double: 18 and 15); no branch, no table
template <class T, class Tier>
POSENC_ALWAYS_INLINE Pack<T, Tier> exp_nonpositive(Pack<T, Tier> x) noexcept {
  using P = Pack<T, Tier>;
  using K = detail::ExpConstants<T>;
  // 2^n is built from its bits, which are 0 at the smallest n. A power of 2 is moved into the
  // polynomial, which is exact, so that the smallest n is not the smallest exponent of the type.
  const P one = P::broadcast(K::exponent_rescale);
  // x is the second argument, so that NaN is kept.
  const auto [r, power_of_2] = detail::split_exponent(
      larger(P::broadcast(K::min_nonpositive_argument), x), K::underflow_exponent);
  return mul_add(mul_add(detail::exp_polynomial(r, K::exponent_rescale), r, one), r, one) *
         power_of_2;
}

POSENC_END
