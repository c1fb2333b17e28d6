// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/detail/instructions_scalar.hpp>
#include <posenc/simd/detail/instructions_sse2.hpp>
#include <posenc/simd/tier.hpp>

#if POSENC_HAS_AVX2
#include <immintrin.h>

POSENC_BEGIN
namespace detail {

/// Operations on eight floats.
template <>
struct Instructions<float, tier::Avx2> {
  using V = __m256;
  using Bits [[gnu::vector_size(32)]] = std::uint32_t;
  static constexpr Index width = 8;

  POSENC_ALWAYS_INLINE static V broadcast(float x) noexcept { return _mm256_set1_ps(x); }
  POSENC_ALWAYS_INLINE static V load(const float* p) noexcept { return _mm256_loadu_ps(p); }
  POSENC_ALWAYS_INLINE static V load_partial(const float* p, Index n) noexcept {
    return _mm256_maskload_ps(p, mask_of_first(n));
  }
  POSENC_ALWAYS_INLINE static void store(float* p, V v) noexcept { _mm256_storeu_ps(p, v); }
  POSENC_ALWAYS_INLINE static void store_partial(float* p, Index n, V v) noexcept {
    _mm256_maskstore_ps(p, mask_of_first(n), v);
  }

  POSENC_ALWAYS_INLINE static V mul_add(V a, V b, V c) noexcept { return _mm256_fmadd_ps(a, b, c); }
  POSENC_ALWAYS_INLINE static V mul_sub(V a, V b, V c) noexcept { return _mm256_fmsub_ps(a, b, c); }
  POSENC_ALWAYS_INLINE static V larger(V a, V b) noexcept { return _mm256_max_ps(a, b); }
  POSENC_ALWAYS_INLINE static V smaller(V a, V b) noexcept { return _mm256_min_ps(a, b); }
  POSENC_ALWAYS_INLINE static V bit_and(V a, V b) noexcept { return _mm256_and_ps(a, b); }
  POSENC_ALWAYS_INLINE static V bit_xor(V a, V b) noexcept { return _mm256_xor_ps(a, b); }
  POSENC_ALWAYS_INLINE static V select_by_sign(V sign, V a, V b) noexcept {
    return _mm256_blendv_ps(b, a, sign);
  }

  POSENC_ALWAYS_INLINE static V swap_pairs(V a) noexcept { return _mm256_permute_ps(a, 0xb1); }
  POSENC_ALWAYS_INLINE static V load_duplicated(const float* p) noexcept {
    const __m256i lanes = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), lanes);
  }
  POSENC_ALWAYS_INLINE static V gather_window(const float* p,
                                              const std::int32_t* indices) noexcept {
    const __m256i lanes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(indices));
    const __m256i from_first = _mm256_sub_epi32(lanes, _mm256_set1_epi32(indices[0]));
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(p), from_first);
  }
  POSENC_ALWAYS_INLINE static V pair_order(V a) noexcept {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(a), 0xd8));
  }
  POSENC_ALWAYS_INLINE static V natural_order(V a) noexcept { return pair_order(a); }
  POSENC_ALWAYS_INLINE static void split_pairs(V low, V high, V& even, V& odd) noexcept {
    even = _mm256_shuffle_ps(low, high, 0x88);
    odd = _mm256_shuffle_ps(low, high, 0xdd);
  }
  POSENC_ALWAYS_INLINE static void join_pairs(V even, V odd, V& low, V& high) noexcept {
    low = _mm256_unpacklo_ps(even, odd);
    high = _mm256_unpackhi_ps(even, odd);
  }
  POSENC_ALWAYS_INLINE static void interleave(V a, V b, V& low, V& high) noexcept {
    const __m256 even = _mm256_unpacklo_ps(a, b), odd = _mm256_unpackhi_ps(a, b);
    low = _mm256_permute2f128_ps(even, odd, 0x20);
    high = _mm256_permute2f128_ps(even, odd, 0x31);
  }

  POSENC_ALWAYS_INLINE static float sum(V a) noexcept {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  POSENC_ALWAYS_INLINE static float maximum(V a) noexcept {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  POSENC_ALWAYS_INLINE static V load_half(const void* p) noexcept {
#if POSENC_HAS_F16C
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
#else
    const __m128 low = Half::load_half(p), high = Half::load_half(static_cast<const char*>(p) + 8);
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
#endif
  }
  POSENC_ALWAYS_INLINE static void store_half(void* p, V v) noexcept {
#if POSENC_HAS_F16C
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
#else
    Half::store_half(p, _mm256_castps256_ps128(v));
    Half::store_half(static_cast<char*>(p) + 8, _mm256_extractf128_ps(v, 1));
#endif
  }
  POSENC_ALWAYS_INLINE static V load_bfloat16(const void* p) noexcept {
    const __m128i narrow = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16));
  }
  POSENC_ALWAYS_INLINE static void store_bfloat16(void* p, V v) noexcept {
    const __m256i wide = _mm256_srli_epi32(rounded_to_bfloat16(v), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(wide, wide), 0x08);
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
  POSENC_ALWAYS_INLINE static void load_bfloat16_pairs(const void* p, V& even, V& odd) noexcept {
    const __m256i both = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    even = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
    odd = _mm256_castsi256_ps(_mm256_blend_epi16(_mm256_setzero_si256(), both, 0xaa));
  }
  POSENC_ALWAYS_INLINE static void store_bfloat16_pairs(void* p, V even, V odd) noexcept {
    const __m256i low = _mm256_srli_epi32(rounded_to_bfloat16(even), 16);
    _mm256_storeu_si256(static_cast<__m256i*>(p),
                        _mm256_blend_epi16(low, rounded_to_bfloat16(odd), 0xaa));
  }

 private:
#if !POSENC_HAS_F16C
  using Half = Instructions<float, tier::Sse2>;
#endif
  POSENC_ALWAYS_INLINE static __m256i mask_of_first(Index n) noexcept {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  POSENC_ALWAYS_INLINE static __m256i bits(V v) noexcept { return _mm256_castps_si256(v); }
  /// Rounds every lane to bfloat16, in its upper 16 bits. The lower 16 bits are unspecified.
  POSENC_ALWAYS_INLINE static __m256i rounded_to_bfloat16(V v) noexcept {
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits(v), 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_add_epi32(bits(v), up);
    const __m256i quiet = _mm256_or_si256(bits(v), _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(rounded, quiet, nan);
  }
};

/// Operations on four doubles.
template <>
struct Instructions<double, tier::Avx2> {
  using V = __m256d;
  using Bits [[gnu::vector_size(32)]] = std::uint64_t;
  static constexpr Index width = 4;

  POSENC_ALWAYS_INLINE static V broadcast(double x) noexcept { return _mm256_set1_pd(x); }
  POSENC_ALWAYS_INLINE static V load(const double* p) noexcept { return _mm256_loadu_pd(p); }
  POSENC_ALWAYS_INLINE static V load_partial(const double* p, Index n) noexcept {
    return _mm256_maskload_pd(p, mask_of_first(n));
  }
  POSENC_ALWAYS_INLINE static void store(double* p, V v) noexcept { _mm256_storeu_pd(p, v); }
  POSENC_ALWAYS_INLINE static void store_partial(double* p, Index n, V v) noexcept {
    _mm256_maskstore_pd(p, mask_of_first(n), v);
  }

  POSENC_ALWAYS_INLINE static V mul_add(V a, V b, V c) noexcept { return _mm256_fmadd_pd(a, b, c); }
  POSENC_ALWAYS_INLINE static V mul_sub(V a, V b, V c) noexcept { return _mm256_fmsub_pd(a, b, c); }
  POSENC_ALWAYS_INLINE static V larger(V a, V b) noexcept { return _mm256_max_pd(a, b); }
  POSENC_ALWAYS_INLINE static V smaller(V a, V b) noexcept { return _mm256_min_pd(a, b); }
  POSENC_ALWAYS_INLINE static V bit_and(V a, V b) noexcept { return _mm256_and_pd(a, b); }
  POSENC_ALWAYS_INLINE static V bit_xor(V a, V b) noexcept { return _mm256_xor_pd(a, b); }
  POSENC_ALWAYS_INLINE static V select_by_sign(V sign, V a, V b) noexcept {
    return _mm256_blendv_pd(b, a, sign);
  }

  POSENC_ALWAYS_INLINE static V swap_pairs(V a) noexcept { return _mm256_permute_pd(a, 0x5); }
  POSENC_ALWAYS_INLINE static V load_duplicated(const double* p) noexcept {
    return _mm256_permute4x64_pd(_mm256_castpd128_pd256(_mm_loadu_pd(p)), 0x50);
  }
  POSENC_ALWAYS_INLINE static V pair_order(V a) noexcept { return _mm256_permute4x64_pd(a, 0xd8); }
  POSENC_ALWAYS_INLINE static V natural_order(V a) noexcept { return pair_order(a); }
  POSENC_ALWAYS_INLINE static void split_pairs(V low, V high, V& even, V& odd) noexcept {
    even = _mm256_unpacklo_pd(low, high);
    odd = _mm256_unpackhi_pd(low, high);
  }
  POSENC_ALWAYS_INLINE static void join_pairs(V even, V odd, V& low, V& high) noexcept {
    low = _mm256_unpacklo_pd(even, odd);
    high = _mm256_unpackhi_pd(even, odd);
  }
  POSENC_ALWAYS_INLINE static void interleave(V a, V b, V& low, V& high) noexcept {
    const __m256d even = _mm256_unpacklo_pd(a, b), odd = _mm256_unpackhi_pd(a, b);
    low = _mm256_permute2f128_pd(even, odd, 0x20);
    high = _mm256_permute2f128_pd(even, odd, 0x31);
  }

  POSENC_ALWAYS_INLINE static double sum(V a) noexcept {
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }
  POSENC_ALWAYS_INLINE static double maximum(V a) noexcept {
    const __m128d two = _mm_max_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
  }

  POSENC_ALWAYS_INLINE static void store_rounded(float* p, V v) noexcept {
    _mm_storeu_ps(p, _mm256_cvtpd_ps(v));
  }
  POSENC_ALWAYS_INLINE static void store_rounded_partial(float* p, Index n, V v) noexcept {
    const __m128i lanes =
        _mm_cmpgt_epi32(_mm_set1_epi32(static_cast<int>(n)), _mm_setr_epi32(0, 1, 2, 3));
    _mm_maskstore_ps(p, lanes, _mm256_cvtpd_ps(v));
  }
  POSENC_ALWAYS_INLINE static __m256 rounded(V low, V high) noexcept {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(low)), _mm256_cvtpd_ps(high),
                                1);
  }

 private:
  POSENC_ALWAYS_INLINE static __m256i mask_of_first(Index n) noexcept {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
  }
};

}  // namespace detail
POSENC_END
#endif
