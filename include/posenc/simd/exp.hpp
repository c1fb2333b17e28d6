// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/pack.hpp>

#include <cstddef>
#include <iterator>

POSENC_BEGIN
namespace detail {

/// What exp() needs to know of a type: x is split into n ln 2 + r, and exp(r) is 1 + r + r^2 q(r).
template <class T>
struct ExpConstants;

template <>
struct ExpConstants<float> {
  static constexpr float shifter = 0x1.8p23f;  ///< leaves an integer in the last bits of a sum
  static constexpr float smallest = -105, largest = 89.5;  ///< where the result is 0, and infinite
  static constexpr float log2_e = 0x1.715476p+0f;
  static constexpr float ln_2_hi = 0x1.62e400p-1f, ln_2_lo = 0x1.7f7d1cp-20f;
  static constexpr int exponent_shift = 23;
  static constexpr float q[] = {0x1.6d117ap-10f, 0x1.120bdep-7f, 0x1.555518p-5f, 0x1.5554dcp-3f,
                                0.5f};
};

template <>
struct ExpConstants<double> {
  static constexpr double shifter = 0x1.8p52;
  static constexpr double smallest = -746, largest = 710;
  static constexpr double log2_e = 0x1.71547652b82fep+0;
  static constexpr double ln_2_hi = 0x1.62e42fefa3800p-1, ln_2_lo = 0x1.ef35793c76730p-45;
  static constexpr int exponent_shift = 52;
  static constexpr double q[] = {0x1.af39091a8441ap-26, 0x1.2891d2ecb3ed9p-22,
                                 0x1.71de0d863c737p-19, 0x1.a019b8cbe6585p-16,
                                 0x1.a01a01a7ce75dp-13, 0x1.6c16c1789caa1p-10,
                                 0x1.11111111109a6p-7,  0x1.5555555553d38p-5,
                                 0x1.5555555555556p-3,  0.5};
};

}  // namespace detail

/// e^x in every lane.
///   Accuracy: 1.2 ulp; 0 and infinity where they are the nearest, denormal results rounded once more;
///             exp(0) is exactly 1; NaN stays NaN. The same bits on every tier with fma.
///   Cost:     about 15 operations; no branch, no table.
template <class T, class Tier>
POSENC_ALWAYS_INLINE Pack<T, Tier> exp(Pack<T, Tier> x) noexcept {
  using P = Pack<T, Tier>;
  using K = detail::ExpConstants<T>;
  const P shifter = P::broadcast(K::shifter);
  // The variable comes second, so that its NaN survives.
  x = min(P::broadcast(K::largest), max(P::broadcast(K::smallest), x));
  const P n = mul_add(x, P::broadcast(K::log2_e), shifter) - shifter;
  P r = mul_add(n, P::broadcast(-K::ln_2_hi), x);
  r = mul_add(n, P::broadcast(-K::ln_2_lo), r);
  P q = P::broadcast(K::q[0]);
  for (std::size_t i = 1; i < std::size(K::q); ++i) q = mul_add(q, r, P::broadcast(K::q[i]));
  const P power = mul_add(q, r * r, r) + P::broadcast(T{1});
  // 2^n may lie beyond the exponents, its two halves do not.
  const P first = mul_add(n, P::broadcast(T{0.5}), shifter);
  const P second = (n - (first - shifter)) + shifter;
  constexpr int shift = K::exponent_shift;  // by name, or clang++ 14 finds no shift_left
  const auto power_of_2 = [](P shifted) {
    return add_bits(shift_left<shift>(shifted), P::broadcast(T{1}));
  };
  return (power * power_of_2(first)) * power_of_2(second);
}

POSENC_END
