// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/detail/bfloat16_avx512.hpp>
#include <posenc/simd/detail/instructions_avx2.hpp>
#include <posenc/simd/tier.hpp>

#if POSENC_HAS_AVX512
#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>

POSENC_UNDEFINED_OPERANDS_BEGIN
POSENC_BEGIN
namespace detail {

/// Operations on sixteen floats.
template <>
struct Instructions<float, tier::Avx512> {
  using V = __m512;
  using Bits [[gnu::vector_size(64)]] = std::uint32_t;
  static constexpr Index width = 16;

  POSENC_ALWAYS_INLINE static V broadcast(float x) noexcept { return _mm512_set1_ps(x); }
  POSENC_ALWAYS_INLINE static V load(const float* p) noexcept { return _mm512_loadu_ps(p); }
  POSENC_ALWAYS_INLINE static V load_partial(const float* p, Index n) noexcept {
    return _mm512_maskz_loadu_ps(mask_of_first(n), p);
  }
  POSENC_ALWAYS_INLINE static void store(float* p, V v) noexcept { _mm512_storeu_ps(p, v); }
  POSENC_ALWAYS_INLINE static void store_partial(float* p, Index n, V v) noexcept {
    _mm512_mask_storeu_ps(p, mask_of_first(n), v);
  }
// Without optimisation the intrinsic is a macro in g++, and g++ warns of a constant in it.
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif
  POSENC_ALWAYS_INLINE static void scatter(float* p, std::int32_t stride, V v) noexcept {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm512_i32scatter_ps(p, _mm512_mullo_epi32(lane, _mm512_set1_epi32(stride)), v, sizeof(float));
  }
  /// Stores the pairs of adjacent lanes of a and then of b, the second lane of each pair first.
  /// `stride` counts pairs.
  POSENC_ALWAYS_INLINE static void scatter_bfloat16_pairs(void* p, std::int32_t stride, V a,
                                                          V b) noexcept {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i even = _mm512_slli_epi32(lane, 1),
                  odd = _mm512_or_si512(even, _mm512_set1_epi32(1));
    const __m512i low = rounded_to_bfloat16(a), high = rounded_to_bfloat16(b);
    const __m512i second = _mm512_permutex2var_epi32(low, odd, high);
    const __m512i first = _mm512_permutex2var_epi32(low, even, high);
    // second >> 16 | (first & high halves)
    const __m512i pairs =
        _mm512_ternarylogic_epi32(_mm512_srli_epi32(second, 16), first, high_half_mask(), 0xf8);
    _mm512_i32scatter_epi32(p, _mm512_mullo_epi32(lane, _mm512_set1_epi32(stride)), pairs, 4);
  }
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

  POSENC_ALWAYS_INLINE static V mul_add(V a, V b, V c) noexcept { return _mm512_fmadd_ps(a, b, c); }
  POSENC_ALWAYS_INLINE static V mul_sub(V a, V b, V c) noexcept { return _mm512_fmsub_ps(a, b, c); }
  POSENC_ALWAYS_INLINE static V larger(V a, V b) noexcept {
    return _mm512_maskz_max_ps(0xffff, a, b);
  }
  POSENC_ALWAYS_INLINE static V smaller(V a, V b) noexcept {
    return _mm512_maskz_min_ps(0xffff, a, b);
  }
  POSENC_ALWAYS_INLINE static V bit_and(V a, V b) noexcept { return _mm512_and_ps(a, b); }
  POSENC_ALWAYS_INLINE static V bit_xor(V a, V b) noexcept { return _mm512_xor_ps(a, b); }
  POSENC_ALWAYS_INLINE static V select_by_sign(V sign, V a, V b) noexcept {
    return _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(sign)), b, a);
  }

  POSENC_ALWAYS_INLINE static V swap_pairs(V a) noexcept { return _mm512_permute_ps(a, 0xb1); }
  POSENC_ALWAYS_INLINE static V load_duplicated(const float* p) noexcept {
    const __m512i lanes = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(lanes, _mm512_castps256_ps512(_mm256_loadu_ps(p)));
  }
  POSENC_ALWAYS_INLINE static V gather_window(const float* p,
                                              const std::int32_t* indices) noexcept {
    const __m512i lanes = _mm512_loadu_si512(indices), first = _mm512_set1_epi32(indices[0]);
    return _mm512_permutexvar_ps(_mm512_sub_epi32(lanes, first), _mm512_loadu_ps(p));
  }
  POSENC_ALWAYS_INLINE static V combine_shift(Index n, V a, V b) noexcept {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i first = _mm512_set1_epi32(static_cast<int>(n));
    return _mm512_permutex2var_ps(a, _mm512_add_epi32(lane, first), b);
  }
  POSENC_ALWAYS_INLINE static V pair_order(V a) noexcept {
    const __m512i lanes = _mm512_setr_epi32(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
    return _mm512_permutexvar_ps(lanes, a);
  }
  POSENC_ALWAYS_INLINE static V natural_order(V a) noexcept {
    const __m512i lanes = _mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    return _mm512_permutexvar_ps(lanes, a);
  }
  POSENC_ALWAYS_INLINE static void split_pairs(V low, V high, V& even, V& odd) noexcept {
    even = _mm512_shuffle_ps(low, high, 0x88);
    odd = _mm512_shuffle_ps(low, high, 0xdd);
  }
  POSENC_ALWAYS_INLINE static void join_pairs(V even, V odd, V& low, V& high) noexcept {
    low = _mm512_unpacklo_ps(even, odd);
    high = _mm512_unpackhi_ps(even, odd);
  }
  POSENC_ALWAYS_INLINE static void interleave(V a, V b, V& low, V& high) noexcept {
    const __m512i lower = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i upper =
        _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    low = _mm512_permutex2var_ps(a, lower, b);
    high = _mm512_permutex2var_ps(a, upper, b);
  }
  /// Exchanges lane j of rows[i] and lane i of rows[j]. Shuffles within 128 bits are cheaper than
  /// interleave().
  template <class P>
  POSENC_ALWAYS_INLINE static void transpose(P (&rows)[width]) noexcept {
    for (Index i = 0; i < width; i += 4) {
      const __m512d a = pairs(_mm512_unpacklo_ps(rows[i].v, rows[i + 1].v));
      const __m512d b = pairs(_mm512_unpackhi_ps(rows[i].v, rows[i + 1].v));
      const __m512d c = pairs(_mm512_unpacklo_ps(rows[i + 2].v, rows[i + 3].v));
      const __m512d d = pairs(_mm512_unpackhi_ps(rows[i + 2].v, rows[i + 3].v));
      rows[i].v = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
      rows[i + 1].v = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
      rows[i + 2].v = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
      rows[i + 3].v = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    for (Index i = 0; i < 4; ++i) {
      const __m512 a = _mm512_shuffle_f32x4(rows[i].v, rows[i + 4].v, 0x44);
      const __m512 b = _mm512_shuffle_f32x4(rows[i].v, rows[i + 4].v, 0xee);
      const __m512 c = _mm512_shuffle_f32x4(rows[i + 8].v, rows[i + 12].v, 0x44);
      const __m512 d = _mm512_shuffle_f32x4(rows[i + 8].v, rows[i + 12].v, 0xee);
      rows[i].v = _mm512_shuffle_f32x4(a, c, 0x88);
      rows[i + 4].v = _mm512_shuffle_f32x4(a, c, 0xdd);
      rows[i + 8].v = _mm512_shuffle_f32x4(b, d, 0x88);
      rows[i + 12].v = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
  }

  POSENC_ALWAYS_INLINE static float sum(V a) noexcept { return Half::sum(low(a) + high(a)); }
  POSENC_ALWAYS_INLINE static float maximum(V a) noexcept {
    return Half::maximum(Half::larger(low(a), high(a)));
  }

  POSENC_ALWAYS_INLINE static V load_half(const void* p) noexcept {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  POSENC_ALWAYS_INLINE static void store_half(void* p, V v) noexcept {
    _mm256_storeu_si256(static_cast<__m256i*>(p),
                        _mm512_maskz_cvtps_ph(0xffff, v, _MM_FROUND_TO_NEAREST_INT));
  }
  POSENC_ALWAYS_INLINE static V load_bfloat16(const void* p) noexcept {
    const __m256i narrow = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16));
  }
#if POSENC_BFLOAT16_PRODUCTS
  POSENC_ALWAYS_INLINE static V broadcast_pair(const void* p) noexcept {
    int pair;
    std::memcpy(&pair, p, sizeof(pair));
    return _mm512_castsi512_ps(_mm512_set1_epi32(pair));
  }
  POSENC_ALWAYS_INLINE static V add_pair_products(V sum, V a, V b) noexcept {
    return _mm512_dpbf16_ps(sum, std::bit_cast<__m512bh>(a), std::bit_cast<__m512bh>(b));
  }
  POSENC_ALWAYS_INLINE static void load_row_pairs(const void* first, const void* second, V& a,
                                                  V& b) noexcept {
    const __m512i low = _mm512_loadu_si512(first), high = _mm512_loadu_si512(second);
    a = _mm512_castsi512_ps(_mm512_unpacklo_epi16(low, high));
    b = _mm512_castsi512_ps(_mm512_unpackhi_epi16(low, high));
  }
  POSENC_ALWAYS_INLINE static V load_row_pairs(const void* first, const void* second) noexcept {
    const __m512i low =
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(first)));
    const __m512i high = _mm512_castps_si512(load_bfloat16(second));
    return _mm512_castsi512_ps(_mm512_or_si512(low, high));
  }
  POSENC_ALWAYS_INLINE static void order_row_pairs(V a, V b, V& low, V& high) noexcept {
    const __m512i lower = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i upper =
        _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    low = _mm512_permutex2var_ps(a, lower, b);
    high = _mm512_permutex2var_ps(a, upper, b);
  }
  POSENC_ALWAYS_INLINE static void store_swapped_bfloat16(void* p, V v) noexcept {
    const auto rounded = std::bit_cast<__m256i>(_mm512_cvtneps_pbh(v));
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm256_rol_epi32(rounded, 16));
  }
#endif
  POSENC_ALWAYS_INLINE static void store_bfloat16(void* p, V v) noexcept {
    _mm256_storeu_si256(static_cast<__m256i*>(p),
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded_to_bfloat16(v), 16)));
  }
  POSENC_ALWAYS_INLINE static void load_bfloat16_pairs(const void* p, V& even, V& odd) noexcept {
    const __m512i both = _mm512_loadu_si512(p);
    even = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
    odd = _mm512_castsi512_ps(_mm512_and_si512(both, high_half_mask()));
  }
  POSENC_ALWAYS_INLINE static void store_bfloat16_pairs(void* p, V even, V odd) noexcept {
#if defined(__AVX512BF16__)
    const __m512i packed = convert_two_to_bfloat16(even, odd);
    if (zero_mask(packed) == 0 || !any_denormal(even, odd)) [[likely]] {
      return store_interleaved_bfloat16(p, packed);
    }
#endif
    __m512i low = nearest_bfloat16(even), high = nearest_bfloat16(odd);
    // NaN is rare, so one comparison tests both packs.
    if (_mm512_cmp_ps_mask(even, odd, _CMP_UNORD_Q) != 0) [[unlikely]] {
      low = rounded_to_bfloat16(even);
      high = rounded_to_bfloat16(odd);
    }
    // low | (high & high halves)
    _mm512_storeu_si512(
        p, _mm512_ternarylogic_epi32(_mm512_srli_epi32(low, 16), high, high_half_mask(), 0xf8));
  }

#if defined(__AVX512BF16__)
  /// Stores two packs of pairs like two calls of store_bfloat16_pairs(), with one branch for both.
  POSENC_ALWAYS_INLINE static void store_two_bfloat16_pairs(void* p, V even, V odd, void* p2,
                                                            V even2, V odd2) noexcept {
    const __m512i packed = convert_two_to_bfloat16(even, odd);
    const __m512i packed2 = convert_two_to_bfloat16(even2, odd2);
    const __mmask32 zeros = zero_mask(packed);
    if (_kortestz_mask32_u8(zeros, zero_mask(packed2)) != 0) [[likely]] {
      store_interleaved_bfloat16(p, packed);
      store_interleaved_bfloat16(p2, packed2);
    } else {
      store_bfloat16_pairs(p, even, odd);
      store_bfloat16_pairs(p2, even2, odd2);
    }
  }
#endif

 private:
  using Half = Instructions<float, tier::Avx2>;

  POSENC_ALWAYS_INLINE static __m512d pairs(__m512 x) noexcept { return _mm512_castps_pd(x); }
  POSENC_ALWAYS_INLINE static __mmask16 mask_of_first(Index n) noexcept {
    return static_cast<__mmask16>((1u << n) - 1u);
  }
  // These are the forms of the intrinsics for which g++ 12 gives no warning.
  POSENC_ALWAYS_INLINE static __m256 low(V v) noexcept { return _mm512_extractf32x8_ps(v, 0); }
  POSENC_ALWAYS_INLINE static __m256 high(V v) noexcept { return _mm512_extractf32x8_ps(v, 1); }
};

/// Operations on eight doubles.
template <>
struct Instructions<double, tier::Avx512> {
  using V = __m512d;
  using Bits [[gnu::vector_size(64)]] = std::uint64_t;
  static constexpr Index width = 8;

  POSENC_ALWAYS_INLINE static V broadcast(double x) noexcept { return _mm512_set1_pd(x); }
  POSENC_ALWAYS_INLINE static V load(const double* p) noexcept { return _mm512_loadu_pd(p); }
  POSENC_ALWAYS_INLINE static V load_partial(const double* p, Index n) noexcept {
    return _mm512_maskz_loadu_pd(mask_of_first(n), p);
  }
  POSENC_ALWAYS_INLINE static void store(double* p, V v) noexcept { _mm512_storeu_pd(p, v); }
  POSENC_ALWAYS_INLINE static void store_partial(double* p, Index n, V v) noexcept {
    _mm512_mask_storeu_pd(p, mask_of_first(n), v);
  }

  POSENC_ALWAYS_INLINE static V mul_add(V a, V b, V c) noexcept { return _mm512_fmadd_pd(a, b, c); }
  POSENC_ALWAYS_INLINE static V mul_sub(V a, V b, V c) noexcept { return _mm512_fmsub_pd(a, b, c); }
  POSENC_ALWAYS_INLINE static V larger(V a, V b) noexcept {
    return _mm512_maskz_max_pd(0xff, a, b);
  }
  POSENC_ALWAYS_INLINE static V smaller(V a, V b) noexcept {
    return _mm512_maskz_min_pd(0xff, a, b);
  }
  POSENC_ALWAYS_INLINE static V bit_and(V a, V b) noexcept { return _mm512_and_pd(a, b); }
  POSENC_ALWAYS_INLINE static V bit_xor(V a, V b) noexcept { return _mm512_xor_pd(a, b); }
  POSENC_ALWAYS_INLINE static V select_by_sign(V sign, V a, V b) noexcept {
    return _mm512_mask_blend_pd(_mm512_movepi64_mask(_mm512_castpd_si512(sign)), b, a);
  }

  POSENC_ALWAYS_INLINE static V swap_pairs(V a) noexcept { return _mm512_permute_pd(a, 0x55); }
  POSENC_ALWAYS_INLINE static V load_duplicated(const double* p) noexcept {
    const __m512i lanes = _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3);
    return _mm512_permutexvar_pd(lanes, _mm512_castpd256_pd512(_mm256_loadu_pd(p)));
  }
  POSENC_ALWAYS_INLINE static V gather_window(const double* p,
                                              const std::int32_t* indices) noexcept {
    const __m256i lanes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(indices));
    const __m256i from_first = _mm256_sub_epi32(lanes, _mm256_set1_epi32(indices[0]));
    return _mm512_permutexvar_pd(_mm512_maskz_cvtepi32_epi64(0xff, from_first), _mm512_loadu_pd(p));
  }
  POSENC_ALWAYS_INLINE static V combine_shift(Index n, V a, V b) noexcept {
    const __m512i lane = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), first = _mm512_set1_epi64(n);
    return _mm512_permutex2var_pd(a, _mm512_add_epi64(lane, first), b);
  }
  POSENC_ALWAYS_INLINE static V pair_order(V a) noexcept {
    return _mm512_permutexvar_pd(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), a);
  }
  POSENC_ALWAYS_INLINE static V natural_order(V a) noexcept {
    return _mm512_permutexvar_pd(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), a);
  }
  POSENC_ALWAYS_INLINE static void split_pairs(V low, V high, V& even, V& odd) noexcept {
    even = _mm512_unpacklo_pd(low, high);
    odd = _mm512_unpackhi_pd(low, high);
  }
  POSENC_ALWAYS_INLINE static void join_pairs(V even, V odd, V& low, V& high) noexcept {
    low = _mm512_unpacklo_pd(even, odd);
    high = _mm512_unpackhi_pd(even, odd);
  }
  POSENC_ALWAYS_INLINE static void interleave(V a, V b, V& low, V& high) noexcept {
    low = _mm512_permutex2var_pd(a, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), b);
    high = _mm512_permutex2var_pd(a, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), b);
  }

  POSENC_ALWAYS_INLINE static double sum(V a) noexcept { return Half::sum(low(a) + high(a)); }
  POSENC_ALWAYS_INLINE static double maximum(V a) noexcept {
    return Half::maximum(Half::larger(low(a), high(a)));
  }

  POSENC_ALWAYS_INLINE static void store_rounded(float* p, V v) noexcept {
    _mm256_storeu_ps(p, _mm512_cvtpd_ps(v));
  }
  POSENC_ALWAYS_INLINE static void store_rounded_partial(float* p, Index n, V v) noexcept {
    _mm256_mask_storeu_ps(p, mask_of_first(n), _mm512_cvtpd_ps(v));
  }
  POSENC_ALWAYS_INLINE static __m512 rounded(V low, V high) noexcept {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high),
                              1);
  }

 private:
  using Half = Instructions<double, tier::Avx2>;

  POSENC_ALWAYS_INLINE static __mmask8 mask_of_first(Index n) noexcept {
    return static_cast<__mmask8>((1u << n) - 1u);
  }
  POSENC_ALWAYS_INLINE static __m256d low(V v) noexcept {
    return _mm512_maskz_extractf64x4_pd(0xff, v, 0);
  }
  POSENC_ALWAYS_INLINE static __m256d high(V v) noexcept {
    return _mm512_maskz_extractf64x4_pd(0xff, v, 1);
  }
};

}  // namespace detail
POSENC_END
POSENC_UNDEFINED_OPERANDS_END
#endif
