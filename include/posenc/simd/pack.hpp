// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/detail/instructions_avx2.hpp>
#include <posenc/simd/detail/instructions_avx512.hpp>
#include <posenc/simd/detail/instructions_neon.hpp>
#include <posenc/simd/detail/instructions_scalar.hpp>
#include <posenc/simd/detail/instructions_sse2.hpp>
#include <posenc/simd/detail/prevent_contraction.hpp>
#include <posenc/simd/tier.hpp>

#include <bit>
#include <concepts>
#include <cstdint>

POSENC_BEGIN
/// A vector of `width` floats or doubles. Kernels are written once, over packs; a tier consists of
/// these operations alone. Operators that g++ and clang++ provide for the vectors of every tier are
/// implemented here, and the others in detail::Instructions. All are noexcept, and no address needs
/// alignment.
template <std::floating_point T, class Tier>
struct Pack {
 private:
  using Ops = detail::Instructions<T, Tier>;
  using Bits = typename Ops::Bits;

  // Operations that only some tiers have.
  static constexpr bool has_scatter = requires { Ops::scatter; };
  static constexpr bool has_gather_window = requires { Ops::gather_window; };
  static constexpr bool has_combine_shift = requires { Ops::combine_shift; };
  static constexpr bool has_store_two_bfloat16_pairs = requires { Ops::store_two_bfloat16_pairs; };
  static constexpr bool has_add_pair_products = requires { Ops::add_pair_products; };
  static constexpr bool has_transpose = requires { Ops::template transpose<Pack>; };

 public:
  /// Number of lanes.
  static constexpr Index width = Ops::width;

  /// The lanes, in the vector type of the tier.
  typename Ops::V v;

  /// Returns a pack with x in every lane.
  POSENC_ALWAYS_INLINE static Pack broadcast(T x) noexcept { return {Ops::broadcast(x)}; }
  /// Returns a pack of zeros.
  POSENC_ALWAYS_INLINE static Pack zero() noexcept { return {typename Ops::V{}}; }

  /// Loads `width` consecutive values.
  POSENC_ALWAYS_INLINE static Pack load(const T* p) noexcept { return {Ops::load(p)}; }
  /// Stores all lanes to consecutive addresses.
  POSENC_ALWAYS_INLINE void store(T* p) const noexcept { Ops::store(p, v); }
  /// Loads the first n values, 0 <= n <= width. The other lanes are zero, and their memory is not
  /// accessed.
  POSENC_ALWAYS_INLINE static Pack load_partial(const T* p, Index n) noexcept {
    return {Ops::load_partial(p, n)};
  }
  /// Stores the first n lanes, 0 <= n <= width.
  POSENC_ALWAYS_INLINE void store_partial(T* p, Index n) const noexcept {
    Ops::store_partial(p, n, v);
  }
  /// Stores lane u to p[u * stride]. Only AVX-512 has it (float).
  POSENC_ALWAYS_INLINE void scatter(T* p, std::int32_t stride) const noexcept
      requires(has_scatter) {
    Ops::scatter(p, stride, v);
  }
  /// Loads width / 2 values, each into two adjacent lanes.
  POSENC_ALWAYS_INLINE static Pack load_duplicated(const T* p) noexcept requires(width > 1) {
    return {Ops::load_duplicated(p)};
  }
  /// Loads p[indices[u] - indices[0]] into lane u: a gather within `width` elements, by a
  /// permutation. All differences must be in [0, width). Only AVX2 (float) and AVX-512 have it.
  POSENC_ALWAYS_INLINE static Pack gather_window(const T* p, const std::int32_t* indices) noexcept
      requires(has_gather_window) {
    return {Ops::gather_window(p, indices)};
  }
  /// Returns lanes n .. n + width - 1 of the concatenation of a and b, 0 <= n <= width. Only
  /// AVX-512 has it.
  POSENC_ALWAYS_INLINE friend Pack combine_shift(Index n, Pack a, Pack b) noexcept
      requires(has_combine_shift) {
    return {Ops::combine_shift(n, a.v, b.v)};
  }

  /// Returns a + b in every lane, rounded once.
  POSENC_ALWAYS_INLINE friend Pack operator+(Pack a, Pack b) noexcept { return {a.v + b.v}; }
  /// Returns a - b in every lane, rounded once.
  POSENC_ALWAYS_INLINE friend Pack operator-(Pack a, Pack b) noexcept { return {a.v - b.v}; }
  /// Returns a * b in every lane, rounded once. No compiler fuses it with a following addition.
  POSENC_ALWAYS_INLINE friend Pack operator*(Pack a, Pack b) noexcept {
    return {detail::prevent_contraction(a.v * b.v)};
  }
  /// Returns a / b in every lane, rounded once.
  POSENC_ALWAYS_INLINE friend Pack operator/(Pack a, Pack b) noexcept { return {a.v / b.v}; }
  /// Returns -a in every lane; the sign of 0 changes, too.
  POSENC_ALWAYS_INLINE friend Pack operator-(Pack a) noexcept { return {-a.v}; }
  /// Returns a b + c, fused wherever POSENC_HAS_FMA.
  POSENC_ALWAYS_INLINE friend Pack mul_add(Pack a, Pack b, Pack c) noexcept {
    if constexpr (requires { Ops::mul_add; }) {
      return {Ops::mul_add(a.v, b.v, c.v)};
    } else {
      return a * b + c;
    }
  }
  /// Returns a b - c, fused wherever POSENC_HAS_FMA.
  POSENC_ALWAYS_INLINE friend Pack mul_sub(Pack a, Pack b, Pack c) noexcept {
    if constexpr (requires { Ops::mul_add; }) {
      return {Ops::mul_sub(a.v, b.v, c.v)};
    } else {
      return a * b - c;
    }
  }
  /// Returns the larger of a and b in every lane, and b if either is NaN.
  POSENC_ALWAYS_INLINE friend Pack larger(Pack a, Pack b) noexcept {
    return {Ops::larger(a.v, b.v)};
  }
  /// Returns the smaller of a and b in every lane, and b if either is NaN.
  POSENC_ALWAYS_INLINE friend Pack smaller(Pack a, Pack b) noexcept {
    return {Ops::smaller(a.v, b.v)};
  }

  /// Returns the bitwise and of the lanes' bits.
  POSENC_ALWAYS_INLINE friend Pack operator&(Pack a, Pack b) noexcept {
    return {Ops::bit_and(a.v, b.v)};
  }
  /// Returns the bitwise exclusive or of the lanes' bits.
  POSENC_ALWAYS_INLINE friend Pack operator^(Pack a, Pack b) noexcept {
    return {Ops::bit_xor(a.v, b.v)};
  }
  /// Returns the sum of the lanes' bits as unsigned integers; overflow wraps around.
  POSENC_ALWAYS_INLINE friend Pack add_bits(Pack a, Pack b) noexcept {
    return from_bits(a.bits() + b.bits());
  }
  /// Returns the lanes' bits shifted left by N, with zeros shifted in; 0 <= N < the bits of T.
  template <int N>
  POSENC_ALWAYS_INLINE friend Pack shift_left(Pack a) noexcept {
    return from_bits(a.bits() << N);
  }
  /// Returns, per lane, a if the sign bit of `sign` is set, else b.
  POSENC_ALWAYS_INLINE friend Pack select_by_sign(Pack sign, Pack a, Pack b) noexcept {
    return {Ops::select_by_sign(sign.v, a.v, b.v)};
  }

  /// Exchanges lanes 2i and 2i + 1.
  POSENC_ALWAYS_INLINE friend Pack swap_pairs(Pack a) noexcept requires(width > 1) {
    return {Ops::swap_pairs(a.v)};
  }
  /// Deinterleaves 2 width values into the even and the odd ones, in the tier's deinterleaved lane
  /// order. join_pairs() is the inverse.
  POSENC_ALWAYS_INLINE friend void split_pairs(Pack low, Pack high, Pack& even,
                                               Pack& odd) noexcept {
    Ops::split_pairs(low.v, high.v, even.v, odd.v);
  }
  /// Interleaves two packs in the tier's deinterleaved lane order: the inverse of split_pairs().
  POSENC_ALWAYS_INLINE friend void join_pairs(Pack even, Pack odd, Pack& low, Pack& high) noexcept {
    Ops::join_pairs(even.v, odd.v, low.v, high.v);
  }
  /// Permutes lanes from natural order to the tier's deinterleaved lane order. natural_order() is
  /// the inverse.
  POSENC_ALWAYS_INLINE friend Pack pair_order(Pack a) noexcept {
    if constexpr (requires { Ops::pair_order; }) a.v = Ops::pair_order(a.v);
    return a;
  }
  /// Permutes lanes from the tier's deinterleaved lane order to natural order.
  POSENC_ALWAYS_INLINE friend Pack natural_order(Pack a) noexcept {
    if constexpr (requires { Ops::pair_order; }) a.v = Ops::natural_order(a.v);
    return a;
  }
  /// Interleaves a and b: a0 b0 a1 b1 .... `low` receives the first `width` values, `high` the
  /// others.
  POSENC_ALWAYS_INLINE friend void interleave(Pack a, Pack b, Pack& low, Pack& high) noexcept {
    if constexpr (requires { Ops::pair_order; }) {
      Ops::interleave(a.v, b.v, low.v, high.v);
    } else {
      join_pairs(a, b, low, high);
    }
  }

  /// Returns the sum of the lanes, added in an order that depends on the tier.
  POSENC_ALWAYS_INLINE friend T sum(Pack a) noexcept { return Ops::sum(a.v); }
  /// Returns the largest lane. If a lane is NaN, the result depends on the tier.
  POSENC_ALWAYS_INLINE friend T maximum(Pack a) noexcept { return Ops::maximum(a.v); }

  // Conversions from and to 16-bit numbers in memory at the untyped address p, for float only.
  /// Loads `width` binary16 numbers and converts them to float, which is exact.
  POSENC_ALWAYS_INLINE static Pack load_half(
      const void* p) noexcept requires std::same_as<T, float> {
    return {Ops::load_half(p)};
  }
  /// Stores the lanes as `width` binary16 numbers, rounded to nearest even. Denormals and NaN are
  /// kept.
  POSENC_ALWAYS_INLINE void store_half(void* p) const noexcept requires std::same_as<T, float> {
    Ops::store_half(p, v);
  }
  /// Loads `width` bfloat16 numbers and converts them to float, which is exact.
  POSENC_ALWAYS_INLINE static Pack load_bfloat16(
      const void* p) noexcept requires std::same_as<T, float> {
    return {Ops::load_bfloat16(p)};
  }
  /// Stores the lanes as `width` bfloat16 numbers, rounded to nearest even. Denormals and NaN are
  /// kept.
  POSENC_ALWAYS_INLINE void store_bfloat16(void* p) const noexcept requires std::same_as<T, float> {
    Ops::store_bfloat16(p, v);
  }
  /// Loads and deinterleaves 2 width values, both packs in natural order.
  POSENC_ALWAYS_INLINE static void load_bfloat16_pairs(
      const void* p, Pack& even, Pack& odd) noexcept requires std::same_as<T, float> {
    Ops::load_bfloat16_pairs(p, even.v, odd.v);
  }
  /// Interleaves and stores 2 width values, both packs in natural order.
  POSENC_ALWAYS_INLINE static void store_bfloat16_pairs(
      void* p, Pack even, Pack odd) noexcept requires std::same_as<T, float> {
    Ops::store_bfloat16_pairs(p, even.v, odd.v);
  }
  /// Stores (even, odd) to p and (even2, odd2) to p2. Only tiers on which one call is faster than
  /// two have it.
  POSENC_ALWAYS_INLINE static void store_bfloat16_pairs(void* p, Pack even, Pack odd, void* p2,
                                                        Pack even2, Pack odd2) noexcept
      requires(has_store_two_bfloat16_pairs) {
    Ops::store_two_bfloat16_pairs(p, even.v, odd.v, p2, even2.v, odd2.v);
  }
  /// Stores the 2 width values of a and then b as pairs: values 2u + 1 and 2u become pair
  /// number u * stride at p. Only tiers with scatter() have it.
  POSENC_ALWAYS_INLINE static void scatter_bfloat16_pairs(void* p, std::int32_t stride, Pack a,
                                                          Pack b) noexcept requires(has_scatter) {
    Ops::scatter_bfloat16_pairs(p, stride, a.v, b.v);
  }

  // Products of bfloat16 pairs, for processors that compute them quickly
  // (POSENC_BFLOAT16_PRODUCTS). Every lane holds a pair.
  /// Loads 2 width consecutive values.
  POSENC_ALWAYS_INLINE static Pack load_pairs(const void* p) noexcept
      requires(has_add_pair_products) {
    return {Ops::load(static_cast<const T*>(p))};
  }
  /// Loads the pair at p into every lane.
  POSENC_ALWAYS_INLINE static Pack broadcast_pair(const void* p) noexcept
      requires(has_add_pair_products) {
    return {Ops::broadcast_pair(p)};
  }
  /// Pairs 2 width consecutive values at `second` with those at `first`, which are the first of
  /// each pair. order_row_pairs() has the order of the lanes.
  POSENC_ALWAYS_INLINE static void load_row_pairs(const void* first, const void* second, Pack& a,
                                                  Pack& b) noexcept
      requires(has_add_pair_products) {
    Ops::load_row_pairs(first, second, a.v, b.v);
  }
  /// Pairs `width` consecutive values, in natural order.
  POSENC_ALWAYS_INLINE static Pack load_row_pairs(const void* first, const void* second) noexcept
      requires(has_add_pair_products) {
    return {Ops::load_row_pairs(first, second)};
  }
  /// Permutes the lanes of two packs from the order of load_row_pairs() to natural order.
  POSENC_ALWAYS_INLINE friend void order_row_pairs(Pack a, Pack b, Pack& low, Pack& high) noexcept
      requires(has_add_pair_products) {
    Ops::order_row_pairs(a.v, b.v, low.v, high.v);
  }
  /// Stores the lanes rounded to bfloat16, lane 2i + 1 before 2i. Denormals become zero.
  POSENC_ALWAYS_INLINE void store_swapped_bfloat16(void* p) const noexcept
      requires(has_add_pair_products) {
    Ops::store_swapped_bfloat16(p, v);
  }
  /// Returns fma(a0, b0, fma(a1, b1, sum)), the second of a pair first. Inputs with magnitudes
  /// below 2^-126 count as zero. So do sums that are below 2^-126 once they are rounded to 24 bits.
  POSENC_ALWAYS_INLINE friend Pack add_pair_products(Pack sum, Pack a, Pack b) noexcept
      requires(has_add_pair_products) {
    return {Ops::add_pair_products(sum.v, a.v, b.v)};
  }

  /// Stores the lanes as `width` floats, rounded to nearest even.
  POSENC_ALWAYS_INLINE void store_rounded(
      float* p) const noexcept requires std::same_as<T, double> {
    Ops::store_rounded(p, v);
  }
  /// Stores the first n lanes as floats, rounded to nearest even, 0 <= n <= width.
  POSENC_ALWAYS_INLINE void store_rounded_partial(
      float* p, Index n) const noexcept requires std::same_as<T, double> {
    Ops::store_rounded_partial(p, n, v);
  }
  /// Returns low and then high, rounded to float, as one pack.
  POSENC_ALWAYS_INLINE friend Pack<float, Tier> rounded(Pack low, Pack high) noexcept
      requires(std::same_as<T, double>&& width > 1) {
    return {Ops::rounded(low.v, high.v)};
  }

  /// Exchanges lane j of rows[i] and lane i of rows[j]. Only tiers that are faster without
  /// interleave() have it: AVX-512 (float). For any pack use transpose() of transpose.hpp.
  POSENC_ALWAYS_INLINE static void transpose(Pack (&rows)[std::size_t{width}]) noexcept
      requires(has_transpose) {
    Ops::transpose(rows);
  }

 private:
  POSENC_ALWAYS_INLINE Bits bits() const noexcept { return std::bit_cast<Bits>(v); }
  POSENC_ALWAYS_INLINE static Pack from_bits(Bits bits) noexcept {
    return {std::bit_cast<typename Ops::V>(bits)};
  }
};

POSENC_END
