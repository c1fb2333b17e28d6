// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#if POSENC_HAS_AVX512
#include <immintrin.h>

#include <bit>

// Conversion of sixteen floats to bfloat16.
POSENC_UNDEFINED_OPERANDS_BEGIN
POSENC_BEGIN
namespace detail {

/// Returns a mask of the upper 16 bits of every lane.
POSENC_ALWAYS_INLINE __m512i high_half_mask() noexcept {
  return _mm512_set1_epi32(static_cast<int>(0xffff0000u));
}
/// Rounds every lane to bfloat16, in its upper 16 bits. The lower 16 bits are unspecified. No lane
/// may be NaN.
POSENC_ALWAYS_INLINE __m512i nearest_bfloat16(__m512 x) noexcept {
  const __m512i bits = _mm512_castps_si512(x);
  const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  const __m512i below_half = _mm512_set1_epi32(0x7fff), half = _mm512_set1_epi32(0x8000);
  return _mm512_add_epi32(bits, _mm512_mask_blend_epi32(odd, below_half, half));
}
/// Like nearest_bfloat16(), for any lanes. NaN stays NaN and becomes quiet.
POSENC_ALWAYS_INLINE __m512i rounded_to_bfloat16(__m512 x) noexcept {
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(nearest_bfloat16(x), nan, _mm512_castps_si512(x),
                              _mm512_set1_epi32(0x400000));
}

#if defined(__AVX512BF16__)
/// Rounds both to bfloat16, all even values before all odd ones. The instruction flushes denormals
/// to zero. If zero_mask() is not 0, the caller must test any_denormal().
POSENC_ALWAYS_INLINE __m512i convert_two_to_bfloat16(__m512 even, __m512 odd) noexcept {
  return std::bit_cast<__m512i>(_mm512_cvtne2ps_pbh(odd, even));
}
/// Returns a mask of the values that are zero.
POSENC_ALWAYS_INLINE __mmask32 zero_mask(__m512i packed) noexcept {
  return _mm512_testn_epi16_mask(packed, _mm512_set1_epi16(0x7fff));
}
/// True if any lane of a or b is denormal.
POSENC_ALWAYS_INLINE bool any_denormal(__m512 a, __m512 b) noexcept {
  constexpr int denormal = 0x20;
  return (_mm512_fpclass_ps_mask(a, denormal) | _mm512_fpclass_ps_mask(b, denormal)) != 0;
}
/// Stores a result of convert_two_to_bfloat16(), with even and odd values interleaved.
POSENC_ALWAYS_INLINE void store_interleaved_bfloat16(void* p, __m512i packed) noexcept {
  const __m512i lanes = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  _mm512_storeu_si512(p, _mm512_permutexvar_epi16(lanes, packed));
}
#endif

}  // namespace detail
POSENC_END
POSENC_UNDEFINED_OPERANDS_END
#endif
