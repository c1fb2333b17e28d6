// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/detail/instructions_scalar.hpp>
#include <posenc/simd/tier.hpp>

#if POSENC_HAS_NEON
#include <arm_neon.h>

POSENC_BEGIN
namespace detail {

/// Operations on four floats.
template <>
struct Instructions<float, tier::Neon> {
  using V = float32x4_t;
  using Bits [[gnu::vector_size(16)]] = std::uint32_t;
  static constexpr Index width = 4;

  POSENC_ALWAYS_INLINE static V broadcast(float x) noexcept { return vdupq_n_f32(x); }
  POSENC_ALWAYS_INLINE static V load(const float* p) noexcept { return vld1q_f32(p); }
  POSENC_ALWAYS_INLINE static V load_partial(const float* p, Index n) noexcept {
    float lanes[4] = {};
    for (Index i = 0; i < n; ++i) lanes[i] = p[i];
    return load(lanes);
  }
  POSENC_ALWAYS_INLINE static void store(float* p, V v) noexcept { vst1q_f32(p, v); }
  POSENC_ALWAYS_INLINE static void store_partial(float* p, Index n, V v) noexcept {
    float lanes[4];
    store(lanes, v);
    for (Index i = 0; i < n; ++i) p[i] = lanes[i];
  }

  POSENC_ALWAYS_INLINE static V mul_add(V a, V b, V c) noexcept { return vfmaq_f32(c, a, b); }
  POSENC_ALWAYS_INLINE static V mul_sub(V a, V b, V c) noexcept {
    return vfmaq_f32(vnegq_f32(c), a, b);
  }
  POSENC_ALWAYS_INLINE static V larger(V a, V b) noexcept {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
  }
  POSENC_ALWAYS_INLINE static V smaller(V a, V b) noexcept {
    return vbslq_f32(vcltq_f32(a, b), a, b);
  }
  POSENC_ALWAYS_INLINE static V bit_and(V a, V b) noexcept { return V(Bits(a) & Bits(b)); }
  POSENC_ALWAYS_INLINE static V bit_xor(V a, V b) noexcept { return V(Bits(a) ^ Bits(b)); }
  POSENC_ALWAYS_INLINE static V select_by_sign(V sign, V a, V b) noexcept {
    return vbslq_f32(vcltzq_s32(vreinterpretq_s32_f32(sign)), a, b);
  }

  POSENC_ALWAYS_INLINE static V swap_pairs(V a) noexcept { return vrev64q_f32(a); }
  POSENC_ALWAYS_INLINE static V load_duplicated(const float* p) noexcept {
    const float32x2_t two = vld1_f32(p);
    return vcombine_f32(vdup_lane_f32(two, 0), vdup_lane_f32(two, 1));
  }
  POSENC_ALWAYS_INLINE static void split_pairs(V low, V high, V& even, V& odd) noexcept {
    even = vuzp1q_f32(low, high);
    odd = vuzp2q_f32(low, high);
  }
  POSENC_ALWAYS_INLINE static void join_pairs(V even, V odd, V& low, V& high) noexcept {
    low = vzip1q_f32(even, odd);
    high = vzip2q_f32(even, odd);
  }

  POSENC_ALWAYS_INLINE static float sum(V a) noexcept { return vaddvq_f32(a); }
  POSENC_ALWAYS_INLINE static float maximum(V a) noexcept { return vmaxvq_f32(a); }

  POSENC_ALWAYS_INLINE static V load_half(const void* p) noexcept {
    return vcvt_f32_f16(vreinterpret_f16_u16(load_narrow(p)));
  }
  POSENC_ALWAYS_INLINE static void store_half(void* p, V v) noexcept {
    store_narrow(p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
  }
  POSENC_ALWAYS_INLINE static V load_bfloat16(const void* p) noexcept {
    return vreinterpretq_f32_u32(vshll_n_u16(load_narrow(p), 16));
  }
  POSENC_ALWAYS_INLINE static void store_bfloat16(void* p, V v) noexcept {
    store_narrow(p, vshrn_n_u32(rounded_to_bfloat16(v), 16));
  }
  POSENC_ALWAYS_INLINE static void load_bfloat16_pairs(const void* p, V& even, V& odd) noexcept {
    const uint32x4_t both = vreinterpretq_u32_u8(vld1q_u8(static_cast<const std::uint8_t*>(p)));
    even = vreinterpretq_f32_u32(vshlq_n_u32(both, 16));
    odd = vreinterpretq_f32_u32(vandq_u32(both, vdupq_n_u32(0xffff0000u)));
  }
  POSENC_ALWAYS_INLINE static void store_bfloat16_pairs(void* p, V even, V odd) noexcept {
    const uint32x4_t both = vsriq_n_u32(rounded_to_bfloat16(odd), rounded_to_bfloat16(even), 16);
    vst1q_u8(static_cast<std::uint8_t*>(p), vreinterpretq_u8_u32(both));
  }

 private:
  POSENC_ALWAYS_INLINE static uint32x4_t bits(V v) noexcept { return vreinterpretq_u32_f32(v); }
  POSENC_ALWAYS_INLINE static uint16x4_t load_narrow(const void* p) noexcept {
    return vreinterpret_u16_u8(vld1_u8(static_cast<const std::uint8_t*>(p)));
  }
  POSENC_ALWAYS_INLINE static void store_narrow(void* p, uint16x4_t narrow) noexcept {
    vst1_u8(static_cast<std::uint8_t*>(p), vreinterpret_u8_u16(narrow));
  }
  /// Rounds every lane to bfloat16, in its upper 16 bits. The lower 16 bits are unspecified.
  POSENC_ALWAYS_INLINE static uint32x4_t rounded_to_bfloat16(V v) noexcept {
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits(v), 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(bits(v), vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(bits(v), vdupq_n_u32(0x400000));
    return vbslq_u32(vceqq_f32(v, v), rounded, quiet);
  }
};

/// Operations on two doubles.
template <>
struct Instructions<double, tier::Neon> {
  using V = float64x2_t;
  using Bits [[gnu::vector_size(16)]] = std::uint64_t;
  static constexpr Index width = 2;

  POSENC_ALWAYS_INLINE static V broadcast(double x) noexcept { return vdupq_n_f64(x); }
  POSENC_ALWAYS_INLINE static V load(const double* p) noexcept { return vld1q_f64(p); }
  POSENC_ALWAYS_INLINE static V load_partial(const double* p, Index n) noexcept {
    return n >= 2 ? load(p) : n == 1 ? vsetq_lane_f64(*p, V{}, 0) : V{};
  }
  POSENC_ALWAYS_INLINE static void store(double* p, V v) noexcept { vst1q_f64(p, v); }
  POSENC_ALWAYS_INLINE static void store_partial(double* p, Index n, V v) noexcept {
    if (n >= 1) vst1q_lane_f64(p, v, 0);
    if (n >= 2) vst1q_lane_f64(p + 1, v, 1);
  }

  POSENC_ALWAYS_INLINE static V mul_add(V a, V b, V c) noexcept { return vfmaq_f64(c, a, b); }
  POSENC_ALWAYS_INLINE static V mul_sub(V a, V b, V c) noexcept {
    return vfmaq_f64(vnegq_f64(c), a, b);
  }
  POSENC_ALWAYS_INLINE static V larger(V a, V b) noexcept {
    return vbslq_f64(vcgtq_f64(a, b), a, b);
  }
  POSENC_ALWAYS_INLINE static V smaller(V a, V b) noexcept {
    return vbslq_f64(vcltq_f64(a, b), a, b);
  }
  POSENC_ALWAYS_INLINE static V bit_and(V a, V b) noexcept { return V(Bits(a) & Bits(b)); }
  POSENC_ALWAYS_INLINE static V bit_xor(V a, V b) noexcept { return V(Bits(a) ^ Bits(b)); }
  POSENC_ALWAYS_INLINE static V select_by_sign(V sign, V a, V b) noexcept {
    return vbslq_f64(vcltzq_s64(vreinterpretq_s64_f64(sign)), a, b);
  }

  POSENC_ALWAYS_INLINE static V swap_pairs(V a) noexcept { return vextq_f64(a, a, 1); }
  POSENC_ALWAYS_INLINE static V load_duplicated(const double* p) noexcept {
    return vld1q_dup_f64(p);
  }
  POSENC_ALWAYS_INLINE static void split_pairs(V low, V high, V& even, V& odd) noexcept {
    even = vuzp1q_f64(low, high);
    odd = vuzp2q_f64(low, high);
  }
  POSENC_ALWAYS_INLINE static void join_pairs(V even, V odd, V& low, V& high) noexcept {
    low = vzip1q_f64(even, odd);
    high = vzip2q_f64(even, odd);
  }

  POSENC_ALWAYS_INLINE static double sum(V a) noexcept { return vaddvq_f64(a); }
  POSENC_ALWAYS_INLINE static double maximum(V a) noexcept { return vmaxvq_f64(a); }

  POSENC_ALWAYS_INLINE static void store_rounded(float* p, V v) noexcept {
    vst1_f32(p, vcvt_f32_f64(v));
  }
  POSENC_ALWAYS_INLINE static void store_rounded_partial(float* p, Index n, V v) noexcept {
    const float32x2_t narrow = vcvt_f32_f64(v);
    if (n >= 1) vst1_lane_f32(p, narrow, 0);
    if (n >= 2) vst1_lane_f32(p + 1, narrow, 1);
  }
  POSENC_ALWAYS_INLINE static float32x4_t rounded(V low, V high) noexcept {
    return vcombine_f32(vcvt_f32_f64(low), vcvt_f32_f64(high));
  }
};

}  // namespace detail
POSENC_END
#endif
