// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/mul_add.hpp>
#include <posenc/simd/bfloat16.hpp>
#include <posenc/simd/half.hpp>
#include <posenc/simd/tier.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// The operations of Pack<T, Tier> that each tier implements with its own instructions. Pack
/// documents them. V is the vector type, with operators + - * / and unary -. Bits holds the lanes'
/// bits as unsigned integers. A tier without mul_add and mul_sub multiplies and then adds. A tier
/// without pair_order, natural_order and interleave splits pairs in natural order, so join_pairs()
/// interleaves.
template <class T, class Tier>
struct Instructions;

/// Operations on one lane, in plain C++: the tier for all other processors, and the reference for
/// the other tiers.
template <std::floating_point T>
struct Instructions<T, tier::Scalar> {
  using V = T;
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static constexpr Index width = 1;

  static V broadcast(T x) noexcept { return x; }
  static V load(const T* p) noexcept { return *p; }
  static V load_partial(const T* p, Index n) noexcept { return n > 0 ? *p : T{0}; }
  static void store(T* p, V v) noexcept { *p = v; }
  static void store_partial(T* p, Index n, V v) noexcept {
    if (n > 0) *p = v;
  }

  static V mul_add(V a, V b, V c) noexcept { return posenc::mul_add(a, b, c); }
  static V mul_sub(V a, V b, V c) noexcept { return posenc::mul_add(a, b, -c); }
  static V larger(V a, V b) noexcept { return a > b ? a : b; }
  static V smaller(V a, V b) noexcept { return a < b ? a : b; }
  static V bit_and(V a, V b) noexcept {
    return std::bit_cast<T>(std::bit_cast<Bits>(a) & std::bit_cast<Bits>(b));
  }
  static V bit_xor(V a, V b) noexcept {
    return std::bit_cast<T>(std::bit_cast<Bits>(a) ^ std::bit_cast<Bits>(b));
  }
  static V select_by_sign(V sign, V a, V b) noexcept {
    return (std::bit_cast<Bits>(sign) >> (8 * sizeof(T) - 1)) != 0 ? a : b;
  }

  static void split_pairs(V low, V high, V& even, V& odd) noexcept {
    even = low;
    odd = high;
  }
  static void join_pairs(V even, V odd, V& low, V& high) noexcept {
    low = even;
    high = odd;
  }

  static T sum(V a) noexcept { return a; }
  static T maximum(V a) noexcept { return a; }

  static V load_half(const void* p) noexcept { return Half::from_bits(read(p, 0)); }
  static void store_half(void* p, V v) noexcept { write(p, 0, Half(v).bits()); }
  static V load_bfloat16(const void* p) noexcept { return Bfloat16::from_bits(read(p, 0)); }
  static void store_bfloat16(void* p, V v) noexcept { write(p, 0, Bfloat16(v).bits()); }
  static void load_bfloat16_pairs(const void* p, V& even, V& odd) noexcept {
    even = Bfloat16::from_bits(read(p, 0));
    odd = Bfloat16::from_bits(read(p, 1));
  }
  static void store_bfloat16_pairs(void* p, V even, V odd) noexcept {
    write(p, 0, Bfloat16(even).bits());
    write(p, 1, Bfloat16(odd).bits());
  }

  static void store_rounded(float* p, V v) noexcept { *p = static_cast<float>(v); }
  static void store_rounded_partial(float* p, Index n, V v) noexcept {
    if (n > 0) *p = static_cast<float>(v);
  }

 private:
  static std::uint16_t read(const void* p, std::size_t i) noexcept {
    std::uint16_t bits;
    std::memcpy(&bits, static_cast<const char*>(p) + 2 * i, 2);
    return bits;
  }
  static void write(void* p, std::size_t i, std::uint16_t bits) noexcept {
    std::memcpy(static_cast<char*>(p) + 2 * i, &bits, 2);
  }
};

}  // namespace detail
POSENC_END
