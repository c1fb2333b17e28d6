// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/double_double.hpp>
#include <posenc/simd/bfloat16.hpp>
#include <posenc/simd/detail/unfused.hpp>
#include <posenc/simd/half.hpp>
#include <posenc/simd/tier.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

POSENC_BEGIN

template <class T, class Tier>
struct Pack;

/// One lane: the contract of pack.hpp in plain C++, for processors without a tier of their own and
/// as the measure of the others.
template <std::floating_point T>
struct Pack<T, tier::Scalar> {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static constexpr Index width = 1;

  T v;

  static Pack broadcast(T x) noexcept { return {x}; }
  static Pack zero() noexcept { return {T{0}}; }

  static Pack load(const T* p) noexcept { return {*p}; }
  static Pack load_partial(const T* p, Index n) noexcept { return {n > 0 ? *p : T{0}}; }
  void store(T* p) const noexcept { *p = v; }
  void store_partial(T* p, Index n) const noexcept {
    if (n > 0) *p = v;
  }

  friend Pack operator+(Pack a, Pack b) noexcept { return {a.v + b.v}; }
  friend Pack operator-(Pack a, Pack b) noexcept { return {a.v - b.v}; }
  friend Pack operator*(Pack a, Pack b) noexcept { return {detail::unfused(a.v * b.v)}; }
  friend Pack operator/(Pack a, Pack b) noexcept { return {a.v / b.v}; }
  friend Pack operator-(Pack a) noexcept { return {-a.v}; }
  friend Pack mul_add(Pack a, Pack b, Pack c) noexcept { return {posenc::mul_add(a.v, b.v, c.v)}; }
  friend Pack mul_sub(Pack a, Pack b, Pack c) noexcept { return {posenc::mul_add(a.v, b.v, -c.v)}; }
  friend Pack larger(Pack a, Pack b) noexcept { return {a.v > b.v ? a.v : b.v}; }
  friend Pack smaller(Pack a, Pack b) noexcept { return {a.v < b.v ? a.v : b.v}; }

  friend Pack operator&(Pack a, Pack b) noexcept { return from_bits(a.bits() & b.bits()); }
  friend Pack operator^(Pack a, Pack b) noexcept { return from_bits(a.bits() ^ b.bits()); }
  friend Pack add_bits(Pack a, Pack b) noexcept { return from_bits(a.bits() + b.bits()); }
  template <int N>
  friend Pack shift_left(Pack a) noexcept {
    return from_bits(a.bits() << N);
  }
  friend Pack select_by_sign(Pack sign, Pack a, Pack b) noexcept {
    return (sign.bits() >> (8 * sizeof(T) - 1)) != 0 ? a : b;
  }

  friend Pack pair_order(Pack a) noexcept { return a; }
  friend Pack natural_order(Pack a) noexcept { return a; }
  friend void split_pairs(Pack low, Pack high, Pack& even, Pack& odd) noexcept {
    even = low;
    odd = high;
  }
  friend void join_pairs(Pack even, Pack odd, Pack& low, Pack& high) noexcept {
    low = even;
    high = odd;
  }
  friend void interleave(Pack a, Pack b, Pack& low, Pack& high) noexcept {
    low = a;
    high = b;
  }

  friend T sum(Pack a) noexcept { return a.v; }
  friend T maximum(Pack a) noexcept { return a.v; }

  static Pack load_half(const void* p) noexcept requires std::same_as<T, float> {
    return {Half::from_bits(read(p, 0))};
  }
  void store_half(void* p) const noexcept requires std::same_as<T, float> {
    write(p, 0, Half(v).bits());
  }
  static Pack load_bfloat16(const void* p) noexcept requires std::same_as<T, float> {
    return {Bfloat16::from_bits(read(p, 0))};
  }
  void store_bfloat16(void* p) const noexcept requires std::same_as<T, float> {
    write(p, 0, Bfloat16(v).bits());
  }
  static void load_bfloat16_pairs(const void* p, Pack& even,
                                  Pack& odd) noexcept requires std::same_as<T, float> {
    even = {Bfloat16::from_bits(read(p, 0))};
    odd = {Bfloat16::from_bits(read(p, 1))};
  }
  static void store_bfloat16_pairs(void* p, Pack even,
                                   Pack odd) noexcept requires std::same_as<T, float> {
    write(p, 0, Bfloat16(even.v).bits());
    write(p, 1, Bfloat16(odd.v).bits());
  }

  void store_rounded(float* p) const noexcept requires std::same_as<T, double> {
    *p = static_cast<float>(v);
  }
  void store_rounded_partial(float* p, Index n) const noexcept requires std::same_as<T, double> {
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
  Bits bits() const noexcept { return std::bit_cast<Bits>(v); }
  static Pack from_bits(Bits bits) noexcept { return {std::bit_cast<T>(bits)}; }
};

POSENC_END
