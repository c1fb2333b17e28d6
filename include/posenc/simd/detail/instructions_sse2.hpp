// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/detail/instructions_scalar.hpp>
#include <posenc/simd/tier.hpp>

#if POSENC_HAS_SSE2
#include <emmintrin.h>
#if POSENC_HAS_FMA
#include <immintrin.h>
#endif

POSENC_BEGIN
namespace detail {

/// Operations on four floats.
template <>
struct Instructions<float, tier::Sse2> {
  using V = __m128;
  using Bits [[gnu::vector_size(16)]] = std::uint32_t;
  static constexpr Index width = 4;

  POSENC_ALWAYS_INLINE static V broadcast(float x) noexcept { return _mm_set1_ps(x); }
  POSENC_ALWAYS_INLINE static V load(const float* p) noexcept { return _mm_loadu_ps(p); }
  POSENC_ALWAYS_INLINE static V load_partial(const float* p, Index n) noexcept {
    float lanes[4] = {};
    for (Index i = 0; i < n; ++i) lanes[i] = p[i];
    return load(lanes);
  }
  POSENC_ALWAYS_INLINE static void store(float* p, V v) noexcept { _mm_storeu_ps(p, v); }
  POSENC_ALWAYS_INLINE static void store_partial(float* p, Index n, V v) noexcept {
    float lanes[4];
    store(lanes, v);
    for (Index i = 0; i < n; ++i) p[i] = lanes[i];
  }

#if POSENC_HAS_FMA
  POSENC_ALWAYS_INLINE static V mul_add(V a, V b, V c) noexcept { return _mm_fmadd_ps(a, b, c); }
  POSENC_ALWAYS_INLINE static V mul_sub(V a, V b, V c) noexcept { return _mm_fmsub_ps(a, b, c); }
#endif
  POSENC_ALWAYS_INLINE static V larger(V a, V b) noexcept { return _mm_max_ps(a, b); }
  POSENC_ALWAYS_INLINE static V smaller(V a, V b) noexcept { return _mm_min_ps(a, b); }
  POSENC_ALWAYS_INLINE static V bit_and(V a, V b) noexcept { return _mm_and_ps(a, b); }
  POSENC_ALWAYS_INLINE static V bit_xor(V a, V b) noexcept { return _mm_xor_ps(a, b); }
  POSENC_ALWAYS_INLINE static V select_by_sign(V sign, V a, V b) noexcept {
    return _mm_castsi128_ps(select(_mm_srai_epi32(bits(sign), 31), bits(a), bits(b)));
  }

  POSENC_ALWAYS_INLINE static V swap_pairs(V a) noexcept { return _mm_shuffle_ps(a, a, 0xb1); }
  POSENC_ALWAYS_INLINE static V load_duplicated(const float* p) noexcept {
    const __m128 two = _mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    return _mm_unpacklo_ps(two, two);
  }
  POSENC_ALWAYS_INLINE static void split_pairs(V low, V high, V& even, V& odd) noexcept {
    even = _mm_shuffle_ps(low, high, 0x88);
    odd = _mm_shuffle_ps(low, high, 0xdd);
  }
  POSENC_ALWAYS_INLINE static void join_pairs(V even, V odd, V& low, V& high) noexcept {
    low = _mm_unpacklo_ps(even, odd);
    high = _mm_unpackhi_ps(even, odd);
  }

  POSENC_ALWAYS_INLINE static float sum(V a) noexcept {
    const __m128 two = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  POSENC_ALWAYS_INLINE static float maximum(V a) noexcept {
    const __m128 two = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }

  POSENC_ALWAYS_INLINE static V load_half(const void* p) noexcept {
    const __m128i narrow = _mm_loadl_epi64(static_cast<const __m128i*>(p));
    const __m128i wide = _mm_unpacklo_epi16(narrow, _mm_setzero_si128());
    const __m128i magnitude = _mm_and_si128(wide, _mm_set1_epi32(0x7fff));
    const __m128i sign = _mm_slli_epi32(_mm_xor_si128(wide, magnitude), 16);
    const __m128i shifted = _mm_slli_epi32(magnitude, 13);
    // The product shifts the exponent. It is exact and also normalises denormals.
    const __m128 scaled = _mm_mul_ps(_mm_castsi128_ps(shifted), _mm_set1_ps(0x1p112f));
    const __m128i special = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7bff));
    const __m128i nan = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7c00));
    const __m128i top = _mm_or_si128(_mm_and_si128(special, _mm_set1_epi32(0x7f800000)),
                                     _mm_and_si128(nan, _mm_set1_epi32(0x400000)));
    return _mm_castsi128_ps(_mm_or_si128(_mm_castps_si128(scaled), _mm_or_si128(sign, top)));
  }
  POSENC_ALWAYS_INLINE static void store_half(void* p, V v) noexcept {
    const __m128i sign = _mm_and_si128(bits(v), _mm_set1_epi32(static_cast<int>(0x80000000u)));
    const __m128i magnitude = _mm_xor_si128(bits(v), sign);
    // Below 2^-14 the rounding of the float sum drops the surplus bits. Above, integer arithmetic
    // rounds.
    const __m128 shifted = _mm_add_ps(_mm_castsi128_ps(magnitude), _mm_set1_ps(0.5f));
    const __m128i tiny = _mm_sub_epi32(_mm_castps_si128(shifted), _mm_set1_epi32(0x3f000000));
    const __m128i odd = _mm_and_si128(_mm_srli_epi32(magnitude, 13), _mm_set1_epi32(1));
    const __m128i up = _mm_add_epi32(odd, _mm_set1_epi32(0xfff - 0x38000000));
    const __m128i normal = _mm_srli_epi32(_mm_add_epi32(magnitude, up), 13);
    const __m128i nan = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7f800000));
    const __m128i payload = _mm_or_si128(
        _mm_set1_epi32(0x200), _mm_and_si128(_mm_srli_epi32(magnitude, 13), _mm_set1_epi32(0x3ff)));
    const __m128i special = _mm_or_si128(_mm_set1_epi32(0x7c00), _mm_and_si128(nan, payload));
    const __m128i finite =
        select(_mm_cmplt_epi32(magnitude, _mm_set1_epi32(0x38800000)), tiny, normal);
    const __m128i rounded =
        select(_mm_cmplt_epi32(magnitude, _mm_set1_epi32(0x47800000)), finite, special);
    store_low_halves(p, _mm_or_si128(rounded, _mm_srli_epi32(sign, 16)));
  }
  POSENC_ALWAYS_INLINE static V load_bfloat16(const void* p) noexcept {
    const __m128i narrow = _mm_loadl_epi64(static_cast<const __m128i*>(p));
    return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), narrow));
  }
  POSENC_ALWAYS_INLINE static void store_bfloat16(void* p, V v) noexcept {
    store_low_halves(p, _mm_srli_epi32(rounded_to_bfloat16(v), 16));
  }
  POSENC_ALWAYS_INLINE static void load_bfloat16_pairs(const void* p, V& even, V& odd) noexcept {
    const __m128i both = _mm_loadu_si128(static_cast<const __m128i*>(p));
    even = _mm_castsi128_ps(_mm_slli_epi32(both, 16));
    odd = _mm_castsi128_ps(_mm_and_si128(both, high_half_mask()));
  }
  POSENC_ALWAYS_INLINE static void store_bfloat16_pairs(void* p, V even, V odd) noexcept {
    const __m128i low = _mm_srli_epi32(rounded_to_bfloat16(even), 16);
    const __m128i high = _mm_and_si128(rounded_to_bfloat16(odd), high_half_mask());
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm_or_si128(low, high));
  }

 private:
  POSENC_ALWAYS_INLINE static __m128i bits(V v) noexcept { return _mm_castps_si128(v); }
  POSENC_ALWAYS_INLINE static __m128i high_half_mask() noexcept {
    return _mm_set1_epi32(static_cast<int>(0xffff0000u));
  }
  POSENC_ALWAYS_INLINE static __m128i select(__m128i mask, __m128i a, __m128i b) noexcept {
    return _mm_or_si128(_mm_and_si128(mask, a), _mm_andnot_si128(mask, b));
  }
  POSENC_ALWAYS_INLINE static void store_low_halves(void* p, __m128i wide) noexcept {
    // _mm_packs_epi32() saturates signed numbers, so the 16 bits are sign-extended first.
    const __m128i number = _mm_srai_epi32(_mm_slli_epi32(wide, 16), 16);
    _mm_storel_epi64(static_cast<__m128i*>(p), _mm_packs_epi32(number, number));
  }
  /// Rounds every lane to bfloat16, in its upper 16 bits. The lower 16 bits are unspecified.
  POSENC_ALWAYS_INLINE static __m128i rounded_to_bfloat16(V v) noexcept {
    const __m128i odd = _mm_and_si128(_mm_srli_epi32(bits(v), 16), _mm_set1_epi32(1));
    const __m128i up = _mm_add_epi32(odd, _mm_set1_epi32(0x7fff));
    const __m128i quiet = _mm_or_si128(bits(v), _mm_set1_epi32(0x400000));
    return select(_mm_castps_si128(_mm_cmpunord_ps(v, v)), quiet, _mm_add_epi32(bits(v), up));
  }
};

/// Operations on two doubles.
template <>
struct Instructions<double, tier::Sse2> {
  using V = __m128d;
  using Bits [[gnu::vector_size(16)]] = std::uint64_t;
  static constexpr Index width = 2;

  POSENC_ALWAYS_INLINE static V broadcast(double x) noexcept { return _mm_set1_pd(x); }
  POSENC_ALWAYS_INLINE static V load(const double* p) noexcept { return _mm_loadu_pd(p); }
  POSENC_ALWAYS_INLINE static V load_partial(const double* p, Index n) noexcept {
    return n >= 2 ? load(p) : n == 1 ? _mm_load_sd(p) : V{};
  }
  POSENC_ALWAYS_INLINE static void store(double* p, V v) noexcept { _mm_storeu_pd(p, v); }
  POSENC_ALWAYS_INLINE static void store_partial(double* p, Index n, V v) noexcept {
    if (n >= 1) _mm_storel_pd(p, v);
    if (n >= 2) _mm_storeh_pd(p + 1, v);
  }

#if POSENC_HAS_FMA
  POSENC_ALWAYS_INLINE static V mul_add(V a, V b, V c) noexcept { return _mm_fmadd_pd(a, b, c); }
  POSENC_ALWAYS_INLINE static V mul_sub(V a, V b, V c) noexcept { return _mm_fmsub_pd(a, b, c); }
#endif
  POSENC_ALWAYS_INLINE static V larger(V a, V b) noexcept { return _mm_max_pd(a, b); }
  POSENC_ALWAYS_INLINE static V smaller(V a, V b) noexcept { return _mm_min_pd(a, b); }
  POSENC_ALWAYS_INLINE static V bit_and(V a, V b) noexcept { return _mm_and_pd(a, b); }
  POSENC_ALWAYS_INLINE static V bit_xor(V a, V b) noexcept { return _mm_xor_pd(a, b); }
  POSENC_ALWAYS_INLINE static V select_by_sign(V sign, V a, V b) noexcept {
    // SSE2 has no arithmetic shift of 64-bit lanes, so the mask of the upper 32 bits is copied to
    // the lower ones.
    const __m128i upper = _mm_srai_epi32(_mm_castpd_si128(sign), 31);
    const __m128d mask = _mm_castsi128_pd(_mm_shuffle_epi32(upper, 0xf5));
    return _mm_or_pd(_mm_and_pd(mask, a), _mm_andnot_pd(mask, b));
  }

  POSENC_ALWAYS_INLINE static V swap_pairs(V a) noexcept { return _mm_shuffle_pd(a, a, 1); }
  POSENC_ALWAYS_INLINE static V load_duplicated(const double* p) noexcept {
    return _mm_load1_pd(p);
  }
  POSENC_ALWAYS_INLINE static void split_pairs(V low, V high, V& even, V& odd) noexcept {
    even = _mm_unpacklo_pd(low, high);
    odd = _mm_unpackhi_pd(low, high);
  }
  POSENC_ALWAYS_INLINE static void join_pairs(V even, V odd, V& low, V& high) noexcept {
    low = _mm_unpacklo_pd(even, odd);
    high = _mm_unpackhi_pd(even, odd);
  }

  POSENC_ALWAYS_INLINE static double sum(V a) noexcept {
    return _mm_cvtsd_f64(_mm_add_sd(a, _mm_unpackhi_pd(a, a)));
  }
  POSENC_ALWAYS_INLINE static double maximum(V a) noexcept {
    return _mm_cvtsd_f64(_mm_max_sd(a, _mm_unpackhi_pd(a, a)));
  }

  POSENC_ALWAYS_INLINE static void store_rounded(float* p, V v) noexcept {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_castps_si128(_mm_cvtpd_ps(v)));
  }
  POSENC_ALWAYS_INLINE static void store_rounded_partial(float* p, Index n, V v) noexcept {
    if (n >= 2) {
      store_rounded(p, v);
    } else if (n == 1) {
      _mm_store_ss(p, _mm_cvtpd_ps(v));
    }
  }
  POSENC_ALWAYS_INLINE static __m128 rounded(V low, V high) noexcept {
    return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
  }
};

}  // namespace detail
POSENC_END
#endif
