// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/detail/unfused.hpp>
#include <posenc/simd/pack_scalar.hpp>
#include <posenc/simd/pack_sse2.hpp>
#include <posenc/simd/tier.hpp>

#if POSENC_HAS_AVX2
#include <immintrin.h>

POSENC_BEGIN

/// Eight floats.
template <>
struct Pack<float, tier::Avx2> {
  static constexpr Index width = 8;

  __m256 v;

  POSENC_ALWAYS_INLINE static Pack broadcast(float x) noexcept { return {_mm256_set1_ps(x)}; }
  POSENC_ALWAYS_INLINE static Pack zero() noexcept { return {_mm256_setzero_ps()}; }

  POSENC_ALWAYS_INLINE static Pack load(const float* p) noexcept { return {_mm256_loadu_ps(p)}; }
  POSENC_ALWAYS_INLINE static Pack load_partial(const float* p, Index n) noexcept {
    return {_mm256_maskload_ps(p, first(n))};
  }
  POSENC_ALWAYS_INLINE void store(float* p) const noexcept { _mm256_storeu_ps(p, v); }
  POSENC_ALWAYS_INLINE void store_partial(float* p, Index n) const noexcept {
    _mm256_maskstore_ps(p, first(n), v);
  }

  POSENC_ALWAYS_INLINE friend Pack operator+(Pack a, Pack b) noexcept {
    return {_mm256_add_ps(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator-(Pack a, Pack b) noexcept {
    return {_mm256_sub_ps(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator*(Pack a, Pack b) noexcept {
    return {detail::unfused(_mm256_mul_ps(a.v, b.v))};
  }
  POSENC_ALWAYS_INLINE friend Pack operator/(Pack a, Pack b) noexcept {
    return {_mm256_div_ps(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator-(Pack a) noexcept { return a ^ broadcast(-0.0f); }
  POSENC_ALWAYS_INLINE friend Pack mul_add(Pack a, Pack b, Pack c) noexcept {
    return {_mm256_fmadd_ps(a.v, b.v, c.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack mul_sub(Pack a, Pack b, Pack c) noexcept {
    return {_mm256_fmsub_ps(a.v, b.v, c.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack larger(Pack a, Pack b) noexcept {
    return {_mm256_max_ps(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack smaller(Pack a, Pack b) noexcept {
    return {_mm256_min_ps(a.v, b.v)};
  }

  POSENC_ALWAYS_INLINE friend Pack operator&(Pack a, Pack b) noexcept {
    return {_mm256_and_ps(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator^(Pack a, Pack b) noexcept {
    return {_mm256_xor_ps(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack add_bits(Pack a, Pack b) noexcept {
    return {_mm256_castsi256_ps(_mm256_add_epi32(a.bits(), b.bits()))};
  }
  template <int N>
  POSENC_ALWAYS_INLINE friend Pack shift_left(Pack a) noexcept {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(a.bits(), N))};
  }
  POSENC_ALWAYS_INLINE friend Pack select_by_sign(Pack sign, Pack a, Pack b) noexcept {
    return {_mm256_blendv_ps(b.v, a.v, sign.v)};
  }

  POSENC_ALWAYS_INLINE friend Pack swap_pairs(Pack a) noexcept {
    return {_mm256_permute_ps(a.v, 0xb1)};
  }
  POSENC_ALWAYS_INLINE static Pack load_doubled(const float* p) noexcept {
    const __m256i lanes = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    return {_mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), lanes)};
  }
  POSENC_ALWAYS_INLINE static Pack load_near(const float* p, const std::int32_t* places) noexcept {
    const __m256i lanes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(places));
    const __m256i from_first = _mm256_sub_epi32(lanes, _mm256_set1_epi32(places[0]));
    return {_mm256_permutevar8x32_ps(_mm256_loadu_ps(p), from_first)};
  }
  POSENC_ALWAYS_INLINE friend Pack pair_order(Pack a) noexcept {
    return {_mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(a.v), 0xd8))};
  }
  POSENC_ALWAYS_INLINE friend Pack natural_order(Pack a) noexcept { return pair_order(a); }
  POSENC_ALWAYS_INLINE friend void split_pairs(Pack low, Pack high, Pack& even,
                                               Pack& odd) noexcept {
    even = {_mm256_shuffle_ps(low.v, high.v, 0x88)};
    odd = {_mm256_shuffle_ps(low.v, high.v, 0xdd)};
  }
  POSENC_ALWAYS_INLINE friend void join_pairs(Pack even, Pack odd, Pack& low, Pack& high) noexcept {
    low = {_mm256_unpacklo_ps(even.v, odd.v)};
    high = {_mm256_unpackhi_ps(even.v, odd.v)};
  }
  POSENC_ALWAYS_INLINE friend void interleave(Pack a, Pack b, Pack& low, Pack& high) noexcept {
    const __m256 even = _mm256_unpacklo_ps(a.v, b.v), odd = _mm256_unpackhi_ps(a.v, b.v);
    low = {_mm256_permute2f128_ps(even, odd, 0x20)};
    high = {_mm256_permute2f128_ps(even, odd, 0x31)};
  }

  POSENC_ALWAYS_INLINE friend float sum(Pack a) noexcept {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  POSENC_ALWAYS_INLINE friend float maximum(Pack a) noexcept {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  POSENC_ALWAYS_INLINE static Pack load_half(const void* p) noexcept {
#if POSENC_HAS_F16C
    return {_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
#else
    const Half low = Half::load_half(p), high = Half::load_half(static_cast<const char*>(p) + 8);
    return {_mm256_insertf128_ps(_mm256_castps128_ps256(low.v), high.v, 1)};
#endif
  }
  POSENC_ALWAYS_INLINE void store_half(void* p) const noexcept {
#if POSENC_HAS_F16C
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
#else
    Half{_mm256_castps256_ps128(v)}.store_half(p);
    Half{_mm256_extractf128_ps(v, 1)}.store_half(static_cast<char*>(p) + 8);
#endif
  }
  POSENC_ALWAYS_INLINE static Pack load_bfloat16(const void* p) noexcept {
    const __m128i narrow = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16))};
  }
  POSENC_ALWAYS_INLINE void store_bfloat16(void* p) const noexcept {
    const __m256i wide = _mm256_srli_epi32(rounded_to_bfloat16(), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(wide, wide), 0x08);
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
  POSENC_ALWAYS_INLINE static void load_bfloat16_pairs(const void* p, Pack& even,
                                                       Pack& odd) noexcept {
    const __m256i both = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    even = {_mm256_castsi256_ps(_mm256_slli_epi32(both, 16))};
    odd = {_mm256_castsi256_ps(_mm256_blend_epi16(_mm256_setzero_si256(), both, 0xaa))};
  }
  POSENC_ALWAYS_INLINE static void store_bfloat16_pairs(void* p, Pack even, Pack odd) noexcept {
    const __m256i low = _mm256_srli_epi32(even.rounded_to_bfloat16(), 16);
    _mm256_storeu_si256(static_cast<__m256i*>(p),
                        _mm256_blend_epi16(low, odd.rounded_to_bfloat16(), 0xaa));
  }

 private:
#if !POSENC_HAS_F16C
  using Half = Pack<float, tier::Sse2>;
#endif
  POSENC_ALWAYS_INLINE static __m256i first(Index n) noexcept {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  POSENC_ALWAYS_INLINE __m256i bits() const noexcept { return _mm256_castps_si256(v); }
  /// Each lane's bfloat16 in its upper half; the lower half holds what is left over.
  POSENC_ALWAYS_INLINE __m256i rounded_to_bfloat16() const noexcept {
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits(), 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_add_epi32(bits(), up);
    const __m256i quiet = _mm256_or_si256(bits(), _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(rounded, quiet, nan);
  }
};

/// Four doubles.
template <>
struct Pack<double, tier::Avx2> {
  static constexpr Index width = 4;

  __m256d v;

  POSENC_ALWAYS_INLINE static Pack broadcast(double x) noexcept { return {_mm256_set1_pd(x)}; }
  POSENC_ALWAYS_INLINE static Pack zero() noexcept { return {_mm256_setzero_pd()}; }

  POSENC_ALWAYS_INLINE static Pack load(const double* p) noexcept { return {_mm256_loadu_pd(p)}; }
  POSENC_ALWAYS_INLINE static Pack load_partial(const double* p, Index n) noexcept {
    return {_mm256_maskload_pd(p, first(n))};
  }
  POSENC_ALWAYS_INLINE void store(double* p) const noexcept { _mm256_storeu_pd(p, v); }
  POSENC_ALWAYS_INLINE void store_partial(double* p, Index n) const noexcept {
    _mm256_maskstore_pd(p, first(n), v);
  }

  POSENC_ALWAYS_INLINE friend Pack operator+(Pack a, Pack b) noexcept {
    return {_mm256_add_pd(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator-(Pack a, Pack b) noexcept {
    return {_mm256_sub_pd(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator*(Pack a, Pack b) noexcept {
    return {detail::unfused(_mm256_mul_pd(a.v, b.v))};
  }
  POSENC_ALWAYS_INLINE friend Pack operator/(Pack a, Pack b) noexcept {
    return {_mm256_div_pd(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator-(Pack a) noexcept { return a ^ broadcast(-0.0); }
  POSENC_ALWAYS_INLINE friend Pack mul_add(Pack a, Pack b, Pack c) noexcept {
    return {_mm256_fmadd_pd(a.v, b.v, c.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack mul_sub(Pack a, Pack b, Pack c) noexcept {
    return {_mm256_fmsub_pd(a.v, b.v, c.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack larger(Pack a, Pack b) noexcept {
    return {_mm256_max_pd(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack smaller(Pack a, Pack b) noexcept {
    return {_mm256_min_pd(a.v, b.v)};
  }

  POSENC_ALWAYS_INLINE friend Pack operator&(Pack a, Pack b) noexcept {
    return {_mm256_and_pd(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator^(Pack a, Pack b) noexcept {
    return {_mm256_xor_pd(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack add_bits(Pack a, Pack b) noexcept {
    return {_mm256_castsi256_pd(_mm256_add_epi64(a.bits(), b.bits()))};
  }
  template <int N>
  POSENC_ALWAYS_INLINE friend Pack shift_left(Pack a) noexcept {
    return {_mm256_castsi256_pd(_mm256_slli_epi64(a.bits(), N))};
  }
  POSENC_ALWAYS_INLINE friend Pack select_by_sign(Pack sign, Pack a, Pack b) noexcept {
    return {_mm256_blendv_pd(b.v, a.v, sign.v)};
  }

  POSENC_ALWAYS_INLINE friend Pack swap_pairs(Pack a) noexcept {
    return {_mm256_permute_pd(a.v, 0x5)};
  }
  POSENC_ALWAYS_INLINE static Pack load_doubled(const double* p) noexcept {
    return {_mm256_permute4x64_pd(_mm256_castpd128_pd256(_mm_loadu_pd(p)), 0x50)};
  }
  POSENC_ALWAYS_INLINE friend Pack pair_order(Pack a) noexcept {
    return {_mm256_permute4x64_pd(a.v, 0xd8)};
  }
  POSENC_ALWAYS_INLINE friend Pack natural_order(Pack a) noexcept { return pair_order(a); }
  POSENC_ALWAYS_INLINE friend void split_pairs(Pack low, Pack high, Pack& even,
                                               Pack& odd) noexcept {
    even = {_mm256_unpacklo_pd(low.v, high.v)};
    odd = {_mm256_unpackhi_pd(low.v, high.v)};
  }
  POSENC_ALWAYS_INLINE friend void join_pairs(Pack even, Pack odd, Pack& low, Pack& high) noexcept {
    low = {_mm256_unpacklo_pd(even.v, odd.v)};
    high = {_mm256_unpackhi_pd(even.v, odd.v)};
  }
  POSENC_ALWAYS_INLINE friend void interleave(Pack a, Pack b, Pack& low, Pack& high) noexcept {
    const __m256d even = _mm256_unpacklo_pd(a.v, b.v), odd = _mm256_unpackhi_pd(a.v, b.v);
    low = {_mm256_permute2f128_pd(even, odd, 0x20)};
    high = {_mm256_permute2f128_pd(even, odd, 0x31)};
  }

  POSENC_ALWAYS_INLINE friend double sum(Pack a) noexcept {
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(a.v), _mm256_extractf128_pd(a.v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }
  POSENC_ALWAYS_INLINE friend double maximum(Pack a) noexcept {
    const __m128d two = _mm_max_pd(_mm256_castpd256_pd128(a.v), _mm256_extractf128_pd(a.v, 1));
    return _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
  }

  POSENC_ALWAYS_INLINE void store_rounded(float* p) const noexcept {
    _mm_storeu_ps(p, _mm256_cvtpd_ps(v));
  }
  POSENC_ALWAYS_INLINE void store_rounded_partial(float* p, Index n) const noexcept {
    const __m128i lanes =
        _mm_cmpgt_epi32(_mm_set1_epi32(static_cast<int>(n)), _mm_setr_epi32(0, 1, 2, 3));
    _mm_maskstore_ps(p, lanes, _mm256_cvtpd_ps(v));
  }

 private:
  POSENC_ALWAYS_INLINE static __m256i first(Index n) noexcept {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
  }
  POSENC_ALWAYS_INLINE __m256i bits() const noexcept { return _mm256_castpd_si256(v); }
};

/// Both rounded to float, one after the other.
POSENC_ALWAYS_INLINE Pack<float, tier::Avx2> rounded(Pack<double, tier::Avx2> low,
                                                     Pack<double, tier::Avx2> high) noexcept {
  return {_mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(low.v)),
                               _mm256_cvtpd_ps(high.v), 1)};
}

POSENC_END
#endif
