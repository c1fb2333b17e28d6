// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/pack.hpp>

// A pack as two of the next narrower tier, where a tier's vectors are made of those: AVX2 and AVX-512.
//
//   joined(low, high)  low_half(a)  high_half(a)  swap_halves(a)
POSENC_BEGIN
namespace detail {

#if POSENC_HAS_AVX2
POSENC_ALWAYS_INLINE Pack<float, tier::Avx2> joined(Pack<float, tier::Sse2> low,
                                                    Pack<float, tier::Sse2> high) noexcept {
  return {_mm256_insertf128_ps(_mm256_castps128_ps256(low.v), high.v, 1)};
}
POSENC_ALWAYS_INLINE Pack<double, tier::Avx2> joined(Pack<double, tier::Sse2> low,
                                                     Pack<double, tier::Sse2> high) noexcept {
  return {_mm256_insertf128_pd(_mm256_castpd128_pd256(low.v), high.v, 1)};
}
POSENC_ALWAYS_INLINE Pack<float, tier::Sse2> low_half(Pack<float, tier::Avx2> a) noexcept {
  return {_mm256_castps256_ps128(a.v)};
}
POSENC_ALWAYS_INLINE Pack<double, tier::Sse2> low_half(Pack<double, tier::Avx2> a) noexcept {
  return {_mm256_castpd256_pd128(a.v)};
}
POSENC_ALWAYS_INLINE Pack<float, tier::Sse2> high_half(Pack<float, tier::Avx2> a) noexcept {
  return {_mm256_extractf128_ps(a.v, 1)};
}
POSENC_ALWAYS_INLINE Pack<double, tier::Sse2> high_half(Pack<double, tier::Avx2> a) noexcept {
  return {_mm256_extractf128_pd(a.v, 1)};
}
POSENC_ALWAYS_INLINE Pack<float, tier::Avx2> swap_halves(Pack<float, tier::Avx2> a) noexcept {
  return {_mm256_permute2f128_ps(a.v, a.v, 1)};
}
POSENC_ALWAYS_INLINE Pack<double, tier::Avx2> swap_halves(Pack<double, tier::Avx2> a) noexcept {
  return {_mm256_permute2f128_pd(a.v, a.v, 1)};
}
#endif

#if POSENC_HAS_AVX512
POSENC_UNDEFINED_OPERANDS_BEGIN
POSENC_ALWAYS_INLINE Pack<float, tier::Avx512> joined(Pack<float, tier::Avx2> low,
                                                      Pack<float, tier::Avx2> high) noexcept {
  return {_mm512_insertf32x8(_mm512_castps256_ps512(low.v), high.v, 1)};
}
POSENC_ALWAYS_INLINE Pack<double, tier::Avx512> joined(Pack<double, tier::Avx2> low,
                                                       Pack<double, tier::Avx2> high) noexcept {
  return {_mm512_insertf64x4(_mm512_castpd256_pd512(low.v), high.v, 1)};
}
POSENC_ALWAYS_INLINE Pack<float, tier::Avx2> low_half(Pack<float, tier::Avx512> a) noexcept {
  return {_mm512_castps512_ps256(a.v)};
}
POSENC_ALWAYS_INLINE Pack<double, tier::Avx2> low_half(Pack<double, tier::Avx512> a) noexcept {
  return {_mm512_castpd512_pd256(a.v)};
}
POSENC_ALWAYS_INLINE Pack<float, tier::Avx2> high_half(Pack<float, tier::Avx512> a) noexcept {
  return {_mm512_extractf32x8_ps(a.v, 1)};
}
POSENC_ALWAYS_INLINE Pack<double, tier::Avx2> high_half(Pack<double, tier::Avx512> a) noexcept {
  return {_mm512_maskz_extractf64x4_pd(0xff, a.v, 1)};  // the form that g++ 12 does not warn of
}
POSENC_ALWAYS_INLINE Pack<float, tier::Avx512> swap_halves(Pack<float, tier::Avx512> a) noexcept {
  return {_mm512_shuffle_f32x4(a.v, a.v, 0x4e)};
}
POSENC_ALWAYS_INLINE Pack<double, tier::Avx512> swap_halves(Pack<double, tier::Avx512> a) noexcept {
  return {_mm512_shuffle_f64x2(a.v, a.v, 0x4e)};
}
POSENC_UNDEFINED_OPERANDS_END
#endif

/// Whether there are the above for P.
template <class P>
concept HasHalves = requires(P a) {
  swap_halves(a);
};

/// One half after the other.
template <HasHalves P, class T>
POSENC_ALWAYS_INLINE void store_halves(P a, T* p) noexcept {
  low_half(a).store(p);
  auto high = high_half(a);
#if defined(__clang__) && (defined(__x86_64__) || defined(__i386__))
  asm("" : "+v"(high.v));  // or the two become one again
#endif
  high.store(p + P::width / 2);
}

}  // namespace detail
POSENC_END
