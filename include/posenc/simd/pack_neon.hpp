// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/detail/unfused.hpp>
#include <posenc/simd/pack_scalar.hpp>
#include <posenc/simd/tier.hpp>

#if POSENC_HAS_NEON
#include <arm_neon.h>

POSENC_BEGIN

/// Four floats.
template <>
struct Pack<float, tier::Neon> {
  static constexpr Index width = 4;

  float32x4_t v;

  POSENC_ALWAYS_INLINE static Pack broadcast(float x) noexcept { return {vdupq_n_f32(x)}; }
  POSENC_ALWAYS_INLINE static Pack zero() noexcept { return {vdupq_n_f32(0)}; }

  POSENC_ALWAYS_INLINE static Pack load(const float* p) noexcept { return {vld1q_f32(p)}; }
  POSENC_ALWAYS_INLINE static Pack load_partial(const float* p, Index n) noexcept {
    float lanes[4] = {};
    for (Index i = 0; i < n; ++i) lanes[i] = p[i];
    return load(lanes);
  }
  POSENC_ALWAYS_INLINE void store(float* p) const noexcept { vst1q_f32(p, v); }
  POSENC_ALWAYS_INLINE void store_partial(float* p, Index n) const noexcept {
    float lanes[4];
    store(lanes);
    for (Index i = 0; i < n; ++i) p[i] = lanes[i];
  }

  POSENC_ALWAYS_INLINE friend Pack operator+(Pack a, Pack b) noexcept {
    return {vaddq_f32(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator-(Pack a, Pack b) noexcept {
    return {vsubq_f32(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator*(Pack a, Pack b) noexcept {
    return {detail::unfused(vmulq_f32(a.v, b.v))};
  }
  POSENC_ALWAYS_INLINE friend Pack operator/(Pack a, Pack b) noexcept {
    return {vdivq_f32(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator-(Pack a) noexcept { return {vnegq_f32(a.v)}; }
  POSENC_ALWAYS_INLINE friend Pack mul_add(Pack a, Pack b, Pack c) noexcept {
    return {vfmaq_f32(c.v, a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack mul_sub(Pack a, Pack b, Pack c) noexcept {
    return {vfmaq_f32(vnegq_f32(c.v), a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack larger(Pack a, Pack b) noexcept {
    return {vbslq_f32(vcgtq_f32(a.v, b.v), a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack smaller(Pack a, Pack b) noexcept {
    return {vbslq_f32(vcltq_f32(a.v, b.v), a.v, b.v)};
  }

  POSENC_ALWAYS_INLINE friend Pack operator&(Pack a, Pack b) noexcept {
    return {vreinterpretq_f32_u32(vandq_u32(a.bits(), b.bits()))};
  }
  POSENC_ALWAYS_INLINE friend Pack operator^(Pack a, Pack b) noexcept {
    return {vreinterpretq_f32_u32(veorq_u32(a.bits(), b.bits()))};
  }
  POSENC_ALWAYS_INLINE friend Pack add_bits(Pack a, Pack b) noexcept {
    return {vreinterpretq_f32_u32(vaddq_u32(a.bits(), b.bits()))};
  }
  template <int N>
  POSENC_ALWAYS_INLINE friend Pack shift_left(Pack a) noexcept {
    return {vreinterpretq_f32_u32(vshlq_n_u32(a.bits(), N))};
  }
  POSENC_ALWAYS_INLINE friend Pack select_by_sign(Pack sign, Pack a, Pack b) noexcept {
    return {vbslq_f32(vcltzq_s32(vreinterpretq_s32_f32(sign.v)), a.v, b.v)};
  }

  POSENC_ALWAYS_INLINE friend Pack swap_pairs(Pack a) noexcept { return {vrev64q_f32(a.v)}; }
  POSENC_ALWAYS_INLINE static Pack load_doubled(const float* p) noexcept {
    const float32x2_t two = vld1_f32(p);
    return {vcombine_f32(vdup_lane_f32(two, 0), vdup_lane_f32(two, 1))};
  }
  POSENC_ALWAYS_INLINE friend Pack pair_order(Pack a) noexcept { return a; }
  POSENC_ALWAYS_INLINE friend Pack natural_order(Pack a) noexcept { return a; }
  POSENC_ALWAYS_INLINE friend void split_pairs(Pack low, Pack high, Pack& even,
                                               Pack& odd) noexcept {
    even = {vuzp1q_f32(low.v, high.v)};
    odd = {vuzp2q_f32(low.v, high.v)};
  }
  POSENC_ALWAYS_INLINE friend void join_pairs(Pack even, Pack odd, Pack& low, Pack& high) noexcept {
    low = {vzip1q_f32(even.v, odd.v)};
    high = {vzip2q_f32(even.v, odd.v)};
  }
  POSENC_ALWAYS_INLINE friend void interleave(Pack a, Pack b, Pack& low, Pack& high) noexcept {
    low = {vzip1q_f32(a.v, b.v)};
    high = {vzip2q_f32(a.v, b.v)};
  }

  POSENC_ALWAYS_INLINE friend float sum(Pack a) noexcept { return vaddvq_f32(a.v); }
  POSENC_ALWAYS_INLINE friend float maximum(Pack a) noexcept { return vmaxvq_f32(a.v); }

  POSENC_ALWAYS_INLINE static Pack load_half(const void* p) noexcept {
    return {vcvt_f32_f16(vreinterpret_f16_u16(load_narrow(p)))};
  }
  POSENC_ALWAYS_INLINE void store_half(void* p) const noexcept {
    store_narrow(p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
  }
  POSENC_ALWAYS_INLINE static Pack load_bfloat16(const void* p) noexcept {
    return {vreinterpretq_f32_u32(vshll_n_u16(load_narrow(p), 16))};
  }
  POSENC_ALWAYS_INLINE void store_bfloat16(void* p) const noexcept {
    store_narrow(p, vshrn_n_u32(rounded_to_bfloat16(), 16));
  }
  POSENC_ALWAYS_INLINE static void load_bfloat16_pairs(const void* p, Pack& even,
                                                       Pack& odd) noexcept {
    const uint32x4_t both = vreinterpretq_u32_u8(vld1q_u8(static_cast<const std::uint8_t*>(p)));
    even = {vreinterpretq_f32_u32(vshlq_n_u32(both, 16))};
    odd = {vreinterpretq_f32_u32(vandq_u32(both, vdupq_n_u32(0xffff0000u)))};
  }
  POSENC_ALWAYS_INLINE static void store_bfloat16_pairs(void* p, Pack even, Pack odd) noexcept {
    const uint32x4_t both = vsriq_n_u32(odd.rounded_to_bfloat16(), even.rounded_to_bfloat16(), 16);
    vst1q_u8(static_cast<std::uint8_t*>(p), vreinterpretq_u8_u32(both));
  }

 private:
  POSENC_ALWAYS_INLINE uint32x4_t bits() const noexcept { return vreinterpretq_u32_f32(v); }
  POSENC_ALWAYS_INLINE static uint16x4_t load_narrow(const void* p) noexcept {
    return vreinterpret_u16_u8(vld1_u8(static_cast<const std::uint8_t*>(p)));
  }
  POSENC_ALWAYS_INLINE static void store_narrow(void* p, uint16x4_t narrow) noexcept {
    vst1_u8(static_cast<std::uint8_t*>(p), vreinterpret_u8_u16(narrow));
  }
  /// Each lane's bfloat16 in its upper half; the lower half holds what is left over.
  POSENC_ALWAYS_INLINE uint32x4_t rounded_to_bfloat16() const noexcept {
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits(), 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(bits(), vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(bits(), vdupq_n_u32(0x400000));
    return vbslq_u32(vceqq_f32(v, v), rounded, quiet);
  }
};

/// Two doubles.
template <>
struct Pack<double, tier::Neon> {
  static constexpr Index width = 2;

  float64x2_t v;

  POSENC_ALWAYS_INLINE static Pack broadcast(double x) noexcept { return {vdupq_n_f64(x)}; }
  POSENC_ALWAYS_INLINE static Pack zero() noexcept { return {vdupq_n_f64(0)}; }

  POSENC_ALWAYS_INLINE static Pack load(const double* p) noexcept { return {vld1q_f64(p)}; }
  POSENC_ALWAYS_INLINE static Pack load_partial(const double* p, Index n) noexcept {
    return n >= 2 ? load(p) : n == 1 ? Pack{vsetq_lane_f64(*p, vdupq_n_f64(0), 0)} : zero();
  }
  POSENC_ALWAYS_INLINE void store(double* p) const noexcept { vst1q_f64(p, v); }
  POSENC_ALWAYS_INLINE void store_partial(double* p, Index n) const noexcept {
    if (n >= 1) vst1q_lane_f64(p, v, 0);
    if (n >= 2) vst1q_lane_f64(p + 1, v, 1);
  }

  POSENC_ALWAYS_INLINE friend Pack operator+(Pack a, Pack b) noexcept {
    return {vaddq_f64(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator-(Pack a, Pack b) noexcept {
    return {vsubq_f64(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator*(Pack a, Pack b) noexcept {
    return {detail::unfused(vmulq_f64(a.v, b.v))};
  }
  POSENC_ALWAYS_INLINE friend Pack operator/(Pack a, Pack b) noexcept {
    return {vdivq_f64(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator-(Pack a) noexcept { return {vnegq_f64(a.v)}; }
  POSENC_ALWAYS_INLINE friend Pack mul_add(Pack a, Pack b, Pack c) noexcept {
    return {vfmaq_f64(c.v, a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack mul_sub(Pack a, Pack b, Pack c) noexcept {
    return {vfmaq_f64(vnegq_f64(c.v), a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack larger(Pack a, Pack b) noexcept {
    return {vbslq_f64(vcgtq_f64(a.v, b.v), a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack smaller(Pack a, Pack b) noexcept {
    return {vbslq_f64(vcltq_f64(a.v, b.v), a.v, b.v)};
  }

  POSENC_ALWAYS_INLINE friend Pack operator&(Pack a, Pack b) noexcept {
    return {vreinterpretq_f64_u64(vandq_u64(a.bits(), b.bits()))};
  }
  POSENC_ALWAYS_INLINE friend Pack operator^(Pack a, Pack b) noexcept {
    return {vreinterpretq_f64_u64(veorq_u64(a.bits(), b.bits()))};
  }
  POSENC_ALWAYS_INLINE friend Pack add_bits(Pack a, Pack b) noexcept {
    return {vreinterpretq_f64_u64(vaddq_u64(a.bits(), b.bits()))};
  }
  template <int N>
  POSENC_ALWAYS_INLINE friend Pack shift_left(Pack a) noexcept {
    return {vreinterpretq_f64_u64(vshlq_n_u64(a.bits(), N))};
  }
  POSENC_ALWAYS_INLINE friend Pack select_by_sign(Pack sign, Pack a, Pack b) noexcept {
    return {vbslq_f64(vcltzq_s64(vreinterpretq_s64_f64(sign.v)), a.v, b.v)};
  }

  POSENC_ALWAYS_INLINE friend Pack swap_pairs(Pack a) noexcept { return {vextq_f64(a.v, a.v, 1)}; }
  POSENC_ALWAYS_INLINE static Pack load_doubled(const double* p) noexcept {
    return {vld1q_dup_f64(p)};
  }
  POSENC_ALWAYS_INLINE friend Pack pair_order(Pack a) noexcept { return a; }
  POSENC_ALWAYS_INLINE friend Pack natural_order(Pack a) noexcept { return a; }
  POSENC_ALWAYS_INLINE friend void split_pairs(Pack low, Pack high, Pack& even,
                                               Pack& odd) noexcept {
    even = {vuzp1q_f64(low.v, high.v)};
    odd = {vuzp2q_f64(low.v, high.v)};
  }
  POSENC_ALWAYS_INLINE friend void join_pairs(Pack even, Pack odd, Pack& low, Pack& high) noexcept {
    low = {vzip1q_f64(even.v, odd.v)};
    high = {vzip2q_f64(even.v, odd.v)};
  }
  POSENC_ALWAYS_INLINE friend void interleave(Pack a, Pack b, Pack& low, Pack& high) noexcept {
    low = {vzip1q_f64(a.v, b.v)};
    high = {vzip2q_f64(a.v, b.v)};
  }

  POSENC_ALWAYS_INLINE friend double sum(Pack a) noexcept { return vaddvq_f64(a.v); }
  POSENC_ALWAYS_INLINE friend double maximum(Pack a) noexcept { return vmaxvq_f64(a.v); }

  POSENC_ALWAYS_INLINE void store_rounded(float* p) const noexcept { vst1_f32(p, vcvt_f32_f64(v)); }
  POSENC_ALWAYS_INLINE void store_rounded_partial(float* p, Index n) const noexcept {
    const float32x2_t narrow = vcvt_f32_f64(v);
    if (n >= 1) vst1_lane_f32(p, narrow, 0);
    if (n >= 2) vst1_lane_f32(p + 1, narrow, 1);
  }

 private:
  POSENC_ALWAYS_INLINE uint64x2_t bits() const noexcept { return vreinterpretq_u64_f64(v); }
};

/// Both rounded to float, one after the other.
POSENC_ALWAYS_INLINE Pack<float, tier::Neon> rounded(Pack<double, tier::Neon> low,
                                                     Pack<double, tier::Neon> high) noexcept {
  return {vcombine_f32(vcvt_f32_f64(low.v), vcvt_f32_f64(high.v))};
}

POSENC_END
#endif
