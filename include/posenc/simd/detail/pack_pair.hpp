// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/pack.hpp>

POSENC_BEGIN
namespace detail {

/// Two packs used as one of twice the width. One long dependency chain leaves execution units idle,
/// and two interleaved chains keep them busy.
template <class P>
struct PackPair {
  static constexpr Index width = 2 * P::width;

  P a, b;

  template <class T>
  POSENC_ALWAYS_INLINE static PackPair broadcast(T x) noexcept {
    return {P::broadcast(x), P::broadcast(x)};
  }
  template <class T>
  POSENC_ALWAYS_INLINE static PackPair load(const T* p) noexcept {
    return {P::load(p), P::load(p + P::width)};
  }
  template <class T>
  requires requires(P pack, T* p) { pack.store(p); }
  POSENC_ALWAYS_INLINE void store(T* p) const noexcept {
    a.store(p);
    b.store(p + P::width);
  }
  POSENC_ALWAYS_INLINE void store_rounded(float* p) const noexcept {
    a.store_rounded(p);
    b.store_rounded(p + P::width);
  }
  /// Stores both halves, rounded to float, as one vector. The compiler can then replace a later
  /// load of one vector by the register. If the row does go to memory, store_rounded() is faster.
  POSENC_ALWAYS_INLINE void store_rounded_joined(float* p) const noexcept requires(P::width > 1) {
    rounded(a, b).store(p);
  }

  POSENC_ALWAYS_INLINE friend PackPair operator+(PackPair x, PackPair y) noexcept {
    return {x.a + y.a, x.b + y.b};
  }
  POSENC_ALWAYS_INLINE friend PackPair operator-(PackPair x, PackPair y) noexcept {
    return {x.a - y.a, x.b - y.b};
  }
  POSENC_ALWAYS_INLINE friend PackPair operator*(PackPair x, PackPair y) noexcept {
    return {x.a * y.a, x.b * y.b};
  }
  POSENC_ALWAYS_INLINE friend PackPair mul_add(PackPair x, PackPair y, PackPair z) noexcept {
    return {mul_add(x.a, y.a, z.a), mul_add(x.b, y.b, z.b)};
  }
  POSENC_ALWAYS_INLINE friend PackPair mul_sub(PackPair x, PackPair y, PackPair z) noexcept {
    return {mul_sub(x.a, y.a, z.a), mul_sub(x.b, y.b, z.b)};
  }
  POSENC_ALWAYS_INLINE friend PackPair operator&(PackPair x, PackPair y) noexcept {
    return {x.a & y.a, x.b & y.b};
  }
  POSENC_ALWAYS_INLINE friend PackPair operator^(PackPair x, PackPair y) noexcept {
    return {x.a ^ y.a, x.b ^ y.b};
  }
  template <int N>
  POSENC_ALWAYS_INLINE friend PackPair shift_left(PackPair x) noexcept {
    return {shift_left<N>(x.a), shift_left<N>(x.b)};
  }
  POSENC_ALWAYS_INLINE friend PackPair select_by_sign(PackPair sign, PackPair x,
                                                      PackPair y) noexcept {
    return {select_by_sign(sign.a, x.a, y.a), select_by_sign(sign.b, x.b, y.b)};
  }
};

}  // namespace detail
POSENC_END
