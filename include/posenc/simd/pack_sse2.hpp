// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/detail/unfused.hpp>
#include <posenc/simd/pack_scalar.hpp>
#include <posenc/simd/tier.hpp>

#if POSENC_HAS_SSE2
#include <emmintrin.h>
#if POSENC_HAS_FMA
#include <immintrin.h>
#endif

POSENC_BEGIN

/// Four floats.
template <>
struct Pack<float, tier::Sse2> {
  static constexpr Index width = 4;

  __m128 v;

  POSENC_ALWAYS_INLINE static Pack broadcast(float x) noexcept { return {_mm_set1_ps(x)}; }
  POSENC_ALWAYS_INLINE static Pack zero() noexcept { return {_mm_setzero_ps()}; }

  POSENC_ALWAYS_INLINE static Pack load(const float* p) noexcept { return {_mm_loadu_ps(p)}; }
  POSENC_ALWAYS_INLINE static Pack load_partial(const float* p, Index n) noexcept {
    float lanes[4] = {};
    for (Index i = 0; i < n; ++i) lanes[i] = p[i];
    return load(lanes);
  }
  POSENC_ALWAYS_INLINE void store(float* p) const noexcept { _mm_storeu_ps(p, v); }
  POSENC_ALWAYS_INLINE void store_partial(float* p, Index n) const noexcept {
    float lanes[4];
    store(lanes);
    for (Index i = 0; i < n; ++i) p[i] = lanes[i];
  }

  POSENC_ALWAYS_INLINE friend Pack operator+(Pack a, Pack b) noexcept {
    return {_mm_add_ps(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator-(Pack a, Pack b) noexcept {
    return {_mm_sub_ps(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator*(Pack a, Pack b) noexcept {
    return {detail::unfused(_mm_mul_ps(a.v, b.v))};
  }
  POSENC_ALWAYS_INLINE friend Pack operator/(Pack a, Pack b) noexcept {
    return {_mm_div_ps(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator-(Pack a) noexcept { return a ^ broadcast(-0.0f); }
  POSENC_ALWAYS_INLINE friend Pack mul_add(Pack a, Pack b, Pack c) noexcept {
#if POSENC_HAS_FMA
    return {_mm_fmadd_ps(a.v, b.v, c.v)};
#else
    return a * b + c;
#endif
  }
  POSENC_ALWAYS_INLINE friend Pack mul_sub(Pack a, Pack b, Pack c) noexcept {
#if POSENC_HAS_FMA
    return {_mm_fmsub_ps(a.v, b.v, c.v)};
#else
    return a * b - c;
#endif
  }
  POSENC_ALWAYS_INLINE friend Pack larger(Pack a, Pack b) noexcept {
    return {_mm_max_ps(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack smaller(Pack a, Pack b) noexcept {
    return {_mm_min_ps(a.v, b.v)};
  }

  POSENC_ALWAYS_INLINE friend Pack operator&(Pack a, Pack b) noexcept {
    return {_mm_and_ps(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator^(Pack a, Pack b) noexcept {
    return {_mm_xor_ps(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack add_bits(Pack a, Pack b) noexcept {
    return {_mm_castsi128_ps(_mm_add_epi32(a.bits(), b.bits()))};
  }
  template <int N>
  POSENC_ALWAYS_INLINE friend Pack shift_left(Pack a) noexcept {
    return {_mm_castsi128_ps(_mm_slli_epi32(a.bits(), N))};
  }
  POSENC_ALWAYS_INLINE friend Pack select_by_sign(Pack sign, Pack a, Pack b) noexcept {
    return {_mm_castsi128_ps(select(_mm_srai_epi32(sign.bits(), 31), a.bits(), b.bits()))};
  }

  POSENC_ALWAYS_INLINE friend Pack swap_pairs(Pack a) noexcept {
    return {_mm_shuffle_ps(a.v, a.v, 0xb1)};
  }
  POSENC_ALWAYS_INLINE static Pack load_doubled(const float* p) noexcept {
    const __m128 two = _mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    return {_mm_unpacklo_ps(two, two)};
  }
  POSENC_ALWAYS_INLINE friend Pack pair_order(Pack a) noexcept { return a; }
  POSENC_ALWAYS_INLINE friend Pack natural_order(Pack a) noexcept { return a; }
  POSENC_ALWAYS_INLINE friend void split_pairs(Pack low, Pack high, Pack& even,
                                               Pack& odd) noexcept {
    even = {_mm_shuffle_ps(low.v, high.v, 0x88)};
    odd = {_mm_shuffle_ps(low.v, high.v, 0xdd)};
  }
  POSENC_ALWAYS_INLINE friend void join_pairs(Pack even, Pack odd, Pack& low, Pack& high) noexcept {
    low = {_mm_unpacklo_ps(even.v, odd.v)};
    high = {_mm_unpackhi_ps(even.v, odd.v)};
  }
  POSENC_ALWAYS_INLINE friend void interleave(Pack a, Pack b, Pack& low, Pack& high) noexcept {
    low = {_mm_unpacklo_ps(a.v, b.v)};
    high = {_mm_unpackhi_ps(a.v, b.v)};
  }

  POSENC_ALWAYS_INLINE friend float sum(Pack a) noexcept {
    const __m128 two = _mm_add_ps(a.v, _mm_movehl_ps(a.v, a.v));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  POSENC_ALWAYS_INLINE friend float maximum(Pack a) noexcept {
    const __m128 two = _mm_max_ps(a.v, _mm_movehl_ps(a.v, a.v));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }

  POSENC_ALWAYS_INLINE static Pack load_half(const void* p) noexcept {
    const __m128i narrow = _mm_loadl_epi64(static_cast<const __m128i*>(p));
    const __m128i wide = _mm_unpacklo_epi16(narrow, _mm_setzero_si128());
    const __m128i magnitude = _mm_and_si128(wide, _mm_set1_epi32(0x7fff));
    const __m128i sign = _mm_slli_epi32(_mm_xor_si128(wide, magnitude), 16);
    const __m128i shifted = _mm_slli_epi32(magnitude, 13);
    // Moves the exponent by a product, which is exact and also normalises denormals.
    const __m128 scaled = _mm_mul_ps(_mm_castsi128_ps(shifted), _mm_set1_ps(0x1p112f));
    const __m128i special = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7bff));
    const __m128i nan = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7c00));
    const __m128i top = _mm_or_si128(_mm_and_si128(special, _mm_set1_epi32(0x7f800000)),
                                     _mm_and_si128(nan, _mm_set1_epi32(0x400000)));
    return {_mm_castsi128_ps(_mm_or_si128(_mm_castps_si128(scaled), _mm_or_si128(sign, top)))};
  }
  POSENC_ALWAYS_INLINE void store_half(void* p) const noexcept {
    const __m128i sign = _mm_and_si128(bits(), _mm_set1_epi32(static_cast<int>(0x80000000u)));
    const __m128i magnitude = _mm_xor_si128(bits(), sign);
    // Below 2^-14 the sum's rounding drops the bits; above, integers round.
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
  POSENC_ALWAYS_INLINE static Pack load_bfloat16(const void* p) noexcept {
    const __m128i narrow = _mm_loadl_epi64(static_cast<const __m128i*>(p));
    return {_mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), narrow))};
  }
  POSENC_ALWAYS_INLINE void store_bfloat16(void* p) const noexcept {
    store_low_halves(p, _mm_srli_epi32(rounded_to_bfloat16(), 16));
  }
  POSENC_ALWAYS_INLINE static void load_bfloat16_pairs(const void* p, Pack& even,
                                                       Pack& odd) noexcept {
    const __m128i both = _mm_loadu_si128(static_cast<const __m128i*>(p));
    even = {_mm_castsi128_ps(_mm_slli_epi32(both, 16))};
    odd = {_mm_castsi128_ps(_mm_and_si128(both, high_halves()))};
  }
  POSENC_ALWAYS_INLINE static void store_bfloat16_pairs(void* p, Pack even, Pack odd) noexcept {
    const __m128i low = _mm_srli_epi32(even.rounded_to_bfloat16(), 16);
    const __m128i high = _mm_and_si128(odd.rounded_to_bfloat16(), high_halves());
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm_or_si128(low, high));
  }

 private:
  POSENC_ALWAYS_INLINE __m128i bits() const noexcept { return _mm_castps_si128(v); }
  POSENC_ALWAYS_INLINE static __m128i high_halves() noexcept {
    return _mm_set1_epi32(static_cast<int>(0xffff0000u));
  }
  POSENC_ALWAYS_INLINE static __m128i select(__m128i mask, __m128i a, __m128i b) noexcept {
    return _mm_or_si128(_mm_and_si128(mask, a), _mm_andnot_si128(mask, b));
  }
  POSENC_ALWAYS_INLINE static void store_low_halves(void* p, __m128i wide) noexcept {
    // Packing saturates as signed numbers do, so the 16 bits are made one first.
    const __m128i number = _mm_srai_epi32(_mm_slli_epi32(wide, 16), 16);
    _mm_storel_epi64(static_cast<__m128i*>(p), _mm_packs_epi32(number, number));
  }
  /// Each lane's bfloat16 in its upper half; the lower half holds what is left over.
  POSENC_ALWAYS_INLINE __m128i rounded_to_bfloat16() const noexcept {
    const __m128i odd = _mm_and_si128(_mm_srli_epi32(bits(), 16), _mm_set1_epi32(1));
    const __m128i up = _mm_add_epi32(odd, _mm_set1_epi32(0x7fff));
    const __m128i quiet = _mm_or_si128(bits(), _mm_set1_epi32(0x400000));
    return select(_mm_castps_si128(_mm_cmpunord_ps(v, v)), quiet, _mm_add_epi32(bits(), up));
  }
};

/// Two doubles.
template <>
struct Pack<double, tier::Sse2> {
  static constexpr Index width = 2;

  __m128d v;

  POSENC_ALWAYS_INLINE static Pack broadcast(double x) noexcept { return {_mm_set1_pd(x)}; }
  POSENC_ALWAYS_INLINE static Pack zero() noexcept { return {_mm_setzero_pd()}; }

  POSENC_ALWAYS_INLINE static Pack load(const double* p) noexcept { return {_mm_loadu_pd(p)}; }
  POSENC_ALWAYS_INLINE static Pack load_partial(const double* p, Index n) noexcept {
    return n >= 2 ? load(p) : n == 1 ? Pack{_mm_load_sd(p)} : zero();
  }
  POSENC_ALWAYS_INLINE void store(double* p) const noexcept { _mm_storeu_pd(p, v); }
  POSENC_ALWAYS_INLINE void store_partial(double* p, Index n) const noexcept {
    if (n >= 1) _mm_storel_pd(p, v);
    if (n >= 2) _mm_storeh_pd(p + 1, v);
  }

  POSENC_ALWAYS_INLINE friend Pack operator+(Pack a, Pack b) noexcept {
    return {_mm_add_pd(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator-(Pack a, Pack b) noexcept {
    return {_mm_sub_pd(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator*(Pack a, Pack b) noexcept {
    return {detail::unfused(_mm_mul_pd(a.v, b.v))};
  }
  POSENC_ALWAYS_INLINE friend Pack operator/(Pack a, Pack b) noexcept {
    return {_mm_div_pd(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator-(Pack a) noexcept { return a ^ broadcast(-0.0); }
  POSENC_ALWAYS_INLINE friend Pack mul_add(Pack a, Pack b, Pack c) noexcept {
#if POSENC_HAS_FMA
    return {_mm_fmadd_pd(a.v, b.v, c.v)};
#else
    return a * b + c;
#endif
  }
  POSENC_ALWAYS_INLINE friend Pack mul_sub(Pack a, Pack b, Pack c) noexcept {
#if POSENC_HAS_FMA
    return {_mm_fmsub_pd(a.v, b.v, c.v)};
#else
    return a * b - c;
#endif
  }
  POSENC_ALWAYS_INLINE friend Pack larger(Pack a, Pack b) noexcept {
    return {_mm_max_pd(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack smaller(Pack a, Pack b) noexcept {
    return {_mm_min_pd(a.v, b.v)};
  }

  POSENC_ALWAYS_INLINE friend Pack operator&(Pack a, Pack b) noexcept {
    return {_mm_and_pd(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator^(Pack a, Pack b) noexcept {
    return {_mm_xor_pd(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack add_bits(Pack a, Pack b) noexcept {
    return {_mm_castsi128_pd(_mm_add_epi64(a.bits(), b.bits()))};
  }
  template <int N>
  POSENC_ALWAYS_INLINE friend Pack shift_left(Pack a) noexcept {
    return {_mm_castsi128_pd(_mm_slli_epi64(a.bits(), N))};
  }
  POSENC_ALWAYS_INLINE friend Pack select_by_sign(Pack sign, Pack a, Pack b) noexcept {
    // SSE2 shifts no 64-bit number arithmetically: the upper halves' masks serve both halves.
    const __m128i upper = _mm_srai_epi32(sign.bits(), 31);
    const __m128d mask = _mm_castsi128_pd(_mm_shuffle_epi32(upper, 0xf5));
    return {_mm_or_pd(_mm_and_pd(mask, a.v), _mm_andnot_pd(mask, b.v))};
  }

  POSENC_ALWAYS_INLINE friend Pack swap_pairs(Pack a) noexcept {
    return {_mm_shuffle_pd(a.v, a.v, 1)};
  }
  POSENC_ALWAYS_INLINE static Pack load_doubled(const double* p) noexcept {
    return {_mm_load1_pd(p)};
  }
  POSENC_ALWAYS_INLINE friend Pack pair_order(Pack a) noexcept { return a; }
  POSENC_ALWAYS_INLINE friend Pack natural_order(Pack a) noexcept { return a; }
  POSENC_ALWAYS_INLINE friend void split_pairs(Pack low, Pack high, Pack& even,
                                               Pack& odd) noexcept {
    even = {_mm_unpacklo_pd(low.v, high.v)};
    odd = {_mm_unpackhi_pd(low.v, high.v)};
  }
  POSENC_ALWAYS_INLINE friend void join_pairs(Pack even, Pack odd, Pack& low, Pack& high) noexcept {
    low = {_mm_unpacklo_pd(even.v, odd.v)};
    high = {_mm_unpackhi_pd(even.v, odd.v)};
  }
  POSENC_ALWAYS_INLINE friend void interleave(Pack a, Pack b, Pack& low, Pack& high) noexcept {
    low = {_mm_unpacklo_pd(a.v, b.v)};
    high = {_mm_unpackhi_pd(a.v, b.v)};
  }

  POSENC_ALWAYS_INLINE friend double sum(Pack a) noexcept {
    return _mm_cvtsd_f64(_mm_add_sd(a.v, _mm_unpackhi_pd(a.v, a.v)));
  }
  POSENC_ALWAYS_INLINE friend double maximum(Pack a) noexcept {
    return _mm_cvtsd_f64(_mm_max_sd(a.v, _mm_unpackhi_pd(a.v, a.v)));
  }

  POSENC_ALWAYS_INLINE void store_rounded(float* p) const noexcept {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_castps_si128(_mm_cvtpd_ps(v)));
  }
  POSENC_ALWAYS_INLINE void store_rounded_partial(float* p, Index n) const noexcept {
    if (n >= 2) {
      store_rounded(p);
    } else if (n == 1) {
      _mm_store_ss(p, _mm_cvtpd_ps(v));
    }
  }

 private:
  POSENC_ALWAYS_INLINE __m128i bits() const noexcept { return _mm_castpd_si128(v); }
};

/// Both rounded to float, one after the other.
POSENC_ALWAYS_INLINE Pack<float, tier::Sse2> rounded(Pack<double, tier::Sse2> low,
                                                     Pack<double, tier::Sse2> high) noexcept {
  return {_mm_movelh_ps(_mm_cvtpd_ps(low.v), _mm_cvtpd_ps(high.v))};
}

POSENC_END
#endif
