// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/detail/instructions_avx2.hpp>
#include <posenc/simd/detail/instructions_avx512.hpp>
#include <posenc/simd/detail/instructions_neon.hpp>
#include <posenc/simd/detail/instructions_scalar.hpp>
#include <posenc/simd/detail/instructions_sse2.hpp>
#include <posenc/simd/detail/unfused.hpp>
#include <posenc/simd/tier.hpp>

#include <bit>
#include <concepts>
#include <cstdint>

POSENC_BEGIN
namespace detail {

// Operations that only some tiers have.
template <class Ops>
concept Fuses = requires {
  Ops::mul_add;
};
template <class Ops>
concept OrdersPairs = requires {
  Ops::pair_order;
};
template <class Ops>
concept Scatters = requires {
  Ops::scatter;
};
template <class Ops>
concept LoadsNear = requires {
  Ops::load_near;
};
template <class Ops>
concept JoinsLanes = requires {
  Ops::lanes_from;
};
template <class Ops>
concept StoresTwoPairs = requires {
  Ops::store_two_bfloat16_pairs;
};
template <class Ops>
concept MultipliesPairs = requires {
  Ops::add_pair_products;
};
template <class Ops, class P>
concept Transposes = requires {
  Ops::template transpose<P>;
};

}  // namespace detail

/// `width` lanes of float or double. Kernels are written once over it; a tier is these operations and nothing else.
/// They are written here where g++ and clang++ have them for every tier's vectors, and by detail::Instructions where
/// they do not. All are noexcept, and no address needs alignment.
template <std::floating_point T, class Tier>
struct Pack {
 private:
  using Ops = detail::Instructions<T, Tier>;
  using Bits = typename Ops::Bits;

 public:
  static constexpr Index width = Ops::width;

  typename Ops::V v;

  POSENC_ALWAYS_INLINE static Pack broadcast(T x) noexcept { return {Ops::broadcast(x)}; }
  POSENC_ALWAYS_INLINE static Pack zero() noexcept { return {typename Ops::V{}}; }

  POSENC_ALWAYS_INLINE static Pack load(const T* p) noexcept { return {Ops::load(p)}; }
  POSENC_ALWAYS_INLINE void store(T* p) const noexcept { Ops::store(p, v); }
  /// Loads the first n, 0 <= n <= width; the other lanes are zero and their memory is not touched.
  POSENC_ALWAYS_INLINE static Pack load_partial(const T* p, Index n) noexcept {
    return {Ops::load_partial(p, n)};
  }
  /// Stores the first n, 0 <= n <= width.
  POSENC_ALWAYS_INLINE void store_partial(T* p, Index n) const noexcept {
    Ops::store_partial(p, n, v);
  }
  /// Stores lane u to p[u * stride]. Only AVX-512 has it (float).
  POSENC_ALWAYS_INLINE void scatter(
      T* p, std::int32_t stride) const noexcept requires detail::Scatters<Ops> {
    Ops::scatter(p, stride, v);
  }
  /// Loads width / 2 values, each twice.
  POSENC_ALWAYS_INLINE static Pack load_doubled(const T* p) noexcept requires(width > 1) {
    return {Ops::load_doubled(p)};
  }
  /// Loads p[places[u] - places[0]] into lane u; the places lie 0 .. width - 1 apart. Only AVX2 (float) and AVX-512
  /// have it.
  POSENC_ALWAYS_INLINE static Pack load_near(
      const T* p, const std::int32_t* places) noexcept requires detail::LoadsNear<Ops> {
    return {Ops::load_near(p, places)};
  }
  /// Returns lanes n .. n + width - 1 of a and, behind it, b; 0 <= n <= width. Only AVX-512 has it.
  POSENC_ALWAYS_INLINE friend Pack lanes_from(Index n, Pack a,
                                              Pack b) noexcept requires detail::JoinsLanes<Ops> {
    return {Ops::lanes_from(n, a.v, b.v)};
  }

  // Arithmetic is rounded once, as the scalar operators are.
  POSENC_ALWAYS_INLINE friend Pack operator+(Pack a, Pack b) noexcept { return {a.v + b.v}; }
  POSENC_ALWAYS_INLINE friend Pack operator-(Pack a, Pack b) noexcept { return {a.v - b.v}; }
  POSENC_ALWAYS_INLINE friend Pack operator*(Pack a, Pack b) noexcept {
    return {detail::unfused(a.v * b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator/(Pack a, Pack b) noexcept { return {a.v / b.v}; }
  POSENC_ALWAYS_INLINE friend Pack operator-(Pack a) noexcept { return {-a.v}; }
  /// Returns a b + c, fused wherever POSENC_HAS_FMA.
  POSENC_ALWAYS_INLINE friend Pack mul_add(Pack a, Pack b, Pack c) noexcept {
    if constexpr (detail::Fuses<Ops>) {
      return {Ops::mul_add(a.v, b.v, c.v)};
    } else {
      return a * b + c;
    }
  }
  /// Returns a b - c, fused wherever POSENC_HAS_FMA.
  POSENC_ALWAYS_INLINE friend Pack mul_sub(Pack a, Pack b, Pack c) noexcept {
    if constexpr (detail::Fuses<Ops>) {
      return {Ops::mul_sub(a.v, b.v, c.v)};
    } else {
      return a * b - c;
    }
  }
  /// Returns the larger lanes, and b where a lane of either is NaN.
  POSENC_ALWAYS_INLINE friend Pack larger(Pack a, Pack b) noexcept {
    return {Ops::larger(a.v, b.v)};
  }
  /// Returns the smaller lanes, and b where a lane of either is NaN.
  POSENC_ALWAYS_INLINE friend Pack smaller(Pack a, Pack b) noexcept {
    return {Ops::smaller(a.v, b.v)};
  }

  // Arithmetic on the lanes' bits, as unsigned integers.
  POSENC_ALWAYS_INLINE friend Pack operator&(Pack a, Pack b) noexcept {
    return {Ops::bit_and(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack operator^(Pack a, Pack b) noexcept {
    return {Ops::bit_xor(a.v, b.v)};
  }
  POSENC_ALWAYS_INLINE friend Pack add_bits(Pack a, Pack b) noexcept {
    return from_bits(a.bits() + b.bits());
  }
  template <int N>
  POSENC_ALWAYS_INLINE friend Pack shift_left(Pack a) noexcept {
    return from_bits(a.bits() << N);
  }
  /// Returns a where the sign bit of `sign` is set, else b.
  POSENC_ALWAYS_INLINE friend Pack select_by_sign(Pack sign, Pack a, Pack b) noexcept {
    return {Ops::select_by_sign(sign.v, a.v, b.v)};
  }

  /// Exchanges lanes 2i and 2i + 1.
  POSENC_ALWAYS_INLINE friend Pack swap_pairs(Pack a) noexcept requires(width > 1) {
    return {Ops::swap_pairs(a.v)};
  }
  /// Splits 2 width neighbours into the even and the odd ones, in the tier's pair order; join_pairs() goes back.
  POSENC_ALWAYS_INLINE friend void split_pairs(Pack low, Pack high, Pack& even,
                                               Pack& odd) noexcept {
    Ops::split_pairs(low.v, high.v, even.v, odd.v);
  }
  POSENC_ALWAYS_INLINE friend void join_pairs(Pack even, Pack odd, Pack& low, Pack& high) noexcept {
    Ops::join_pairs(even.v, odd.v, low.v, high.v);
  }
  /// Brings lanes from natural into pair order; natural_order() goes back.
  POSENC_ALWAYS_INLINE friend Pack pair_order(Pack a) noexcept {
    if constexpr (detail::OrdersPairs<Ops>) a.v = Ops::pair_order(a.v);
    return a;
  }
  POSENC_ALWAYS_INLINE friend Pack natural_order(Pack a) noexcept {
    if constexpr (detail::OrdersPairs<Ops>) a.v = Ops::natural_order(a.v);
    return a;
  }
  /// Writes a0 b0 a1 b1 ...: its first width lanes to low, the rest to high.
  POSENC_ALWAYS_INLINE friend void interleave(Pack a, Pack b, Pack& low, Pack& high) noexcept {
    if constexpr (detail::OrdersPairs<Ops>) {
      Ops::interleave(a.v, b.v, low.v, high.v);
    } else {
      join_pairs(a, b, low, high);
    }
  }

  // The order of the lanes is the tier's choice.
  POSENC_ALWAYS_INLINE friend T sum(Pack a) noexcept { return Ops::sum(a.v); }
  POSENC_ALWAYS_INLINE friend T maximum(Pack a) noexcept { return Ops::maximum(a.v); }

  // Only float has these. Numbers of 16 bits in memory, p without type: rounded to nearest even, denormals kept, NaN
  // stays NaN.
  POSENC_ALWAYS_INLINE static Pack load_half(
      const void* p) noexcept requires std::same_as<T, float> {
    return {Ops::load_half(p)};
  }
  POSENC_ALWAYS_INLINE void store_half(void* p) const noexcept requires std::same_as<T, float> {
    Ops::store_half(p, v);
  }
  POSENC_ALWAYS_INLINE static Pack load_bfloat16(
      const void* p) noexcept requires std::same_as<T, float> {
    return {Ops::load_bfloat16(p)};
  }
  POSENC_ALWAYS_INLINE void store_bfloat16(void* p) const noexcept requires std::same_as<T, float> {
    Ops::store_bfloat16(p, v);
  }
  /// Loads 2 width neighbours, both in natural order.
  POSENC_ALWAYS_INLINE static void load_bfloat16_pairs(
      const void* p, Pack& even, Pack& odd) noexcept requires std::same_as<T, float> {
    Ops::load_bfloat16_pairs(p, even.v, odd.v);
  }
  /// Stores 2 width neighbours, both from natural order.
  POSENC_ALWAYS_INLINE static void store_bfloat16_pairs(
      void* p, Pack even, Pack odd) noexcept requires std::same_as<T, float> {
    Ops::store_bfloat16_pairs(p, even.v, odd.v);
  }
  /// Stores to two p one after the other. Only tiers on which that is faster have it.
  POSENC_ALWAYS_INLINE static void store_bfloat16_pairs(
      void* p, Pack even, Pack odd, void* p2, Pack even2,
      Pack odd2) noexcept requires detail::StoresTwoPairs<Ops> {
    Ops::store_two_bfloat16_pairs(p, even.v, odd.v, p2, even2.v, odd2.v);
  }
  /// Stores 2 width neighbours, a and then b: the pair 2u + 1, 2u to the u-th of p, `stride` pairs apart. Only tiers
  /// with scatter() have it.
  POSENC_ALWAYS_INLINE static void scatter_bfloat16_pairs(
      void* p, std::int32_t stride, Pack a, Pack b) noexcept requires detail::Scatters<Ops> {
    Ops::scatter_bfloat16_pairs(p, stride, a.v, b.v);
  }

  // Only processors that multiply bfloat16 by bfloat16 quickly have these (POSENC_BFLOAT16_PRODUCTS). Lanes hold two
  // of them each.
  /// Loads 2 width neighbours.
  POSENC_ALWAYS_INLINE static Pack load_pairs(
      const void* p) noexcept requires detail::MultipliesPairs<Ops> {
    return {Ops::load(static_cast<const T*>(p))};
  }
  /// Loads the two at p into every lane.
  POSENC_ALWAYS_INLINE static Pack broadcast_pair(
      const void* p) noexcept requires detail::MultipliesPairs<Ops> {
    return {Ops::broadcast_pair(p)};
  }
  /// Returns fma(a0, b0, fma(a1, b1, sum)), the second of a pair first, but what is below 2^-126 is zero: numbers, and
  /// sums once they are rounded to 24 bits.
  POSENC_ALWAYS_INLINE friend Pack add_pair_products(
      Pack sum, Pack a, Pack b) noexcept requires detail::MultipliesPairs<Ops> {
    return {Ops::add_pair_products(sum.v, a.v, b.v)};
  }

  // Only double has these, which round to float.
  POSENC_ALWAYS_INLINE void store_rounded(
      float* p) const noexcept requires std::same_as<T, double> {
    Ops::store_rounded(p, v);
  }
  POSENC_ALWAYS_INLINE void store_rounded_partial(
      float* p, Index n) const noexcept requires std::same_as<T, double> {
    Ops::store_rounded_partial(p, n, v);
  }
  /// Rounds both, one after the other.
  POSENC_ALWAYS_INLINE friend Pack<float, Tier> rounded(Pack low, Pack high) noexcept
      requires(std::same_as<T, double>&& width > 1) {
    return {Ops::rounded(low.v, high.v)};
  }

  /// Exchanges rows[i] lane j and rows[j] lane i. Only tiers with a faster way than interleave() have it: AVX-512
  /// (float). transpose() of transpose.hpp takes any pack.
  POSENC_ALWAYS_INLINE static void transpose(
      Pack (&rows)[std::size_t{width}]) noexcept requires detail::Transposes<Ops, Pack> {
    Ops::transpose(rows);
  }

 private:
  POSENC_ALWAYS_INLINE Bits bits() const noexcept { return std::bit_cast<Bits>(v); }
  POSENC_ALWAYS_INLINE static Pack from_bits(Bits bits) noexcept {
    return {std::bit_cast<typename Ops::V>(bits)};
  }
};

POSENC_END
