// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/rotary/pairing.hpp>
#include <posenc/simd/detail/pin_in_register.hpp>
#include <posenc/simd/detail/prefetch.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>

// The step of a rotation kernel: the pairs that one set of vectors holds. Its rotated() is the
// innermost arithmetic of all rotations.
POSENC_BEGIN
namespace detail {

/// True if two vectors of bfloat16 are stored faster by one call than by two.
template <class P>
inline constexpr bool has_paired_store = requires(void* p, P a) {
  P::store_bfloat16_pairs(p, a, a, p, a, a);
};

/// Load, rotation and store of `pairs` pairs, those that one set of vectors holds.
///
///   y0 = c x0 - s x1,   y1 = c x1 + s x0
///
/// The product with s is rounded and the product with c is fused, so that all tiers with fma are
/// bit-identical. Channels are loaded as In and rounded once to Out.
///   SingleStore: rules out uses_paired_store, so that the step has half of the pairs
template <class Pairing, Scalar In, class Tier, Scalar Out = In, bool SingleStore = false>
struct RotationStep {
  static_assert(std::same_as<Compute<In>, Compute<Out>>);
  using Input = In;
  using Output = Out;
  using C = Compute<In>;
  using P = Pack<C, Tier>;
  static constexpr bool is_interleaved = std::same_as<Pairing, Interleaved>;
  /// True if input and output are bfloat16. Even and odd channels are then separate vectors,
  /// because this is the cheapest conversion to and from float.
  static constexpr bool uses_even_odd = storage_format<In> == StorageFormat::Bfloat16 &&
                                        storage_format<Out> == StorageFormat::Bfloat16 &&
                                        P::width > 1;
  /// True if a step has two sets of vectors, which one call stores.
  static constexpr bool uses_paired_store =
      is_interleaved && uses_even_odd && has_paired_store<P> && !SingleStore;
  using Narrower =
      std::conditional_t<uses_paired_store, RotationStep<Pairing, In, Tier, Out, true>,
                         RotationStep<Pairing, In, typename tier::Narrower<Tier>::Type, Out>>;
  /// True if a vector of interleaved channels is rotated without deinterleaving. The partners of
  /// pairs are swapped within the vector.
  static constexpr bool swaps_adjacent = is_interleaved && !uses_even_odd && P::width > 1;
  /// Number of vectors of first channels, and of second ones.
  static constexpr std::size_t packs =
      uses_paired_store || (uses_even_odd && !is_interleaved) ? 2 : 1;
  static constexpr Index pairs =
      swaps_adjacent ? P::width / 2 : static_cast<Index>(packs) * P::width;
  /// Distance in channels from step to step.
  static constexpr Index channels = is_interleaved ? 2 * pairs : pairs;
  static constexpr Index vectors = 2 * packs;  ///< number of vectors of cos and sin
  static constexpr Index registers = Tier::registers;
  /// True if few remaining pairs have a tail of half of a step's pairs. A full step, moved back to
  /// end with the last pair, often lies in one cache line more, and heads of 80 channels take an
  /// eighth more time. Only HalfRotate of bfloat16 takes less.
  static constexpr bool has_half_tail = Narrower::pairs > 1 && (is_interleaved || !uses_even_odd);
  /// The maximum number of steps whose angles leave half of the registers for channels, or a
  /// quarter if swaps_adjacent.
  static constexpr Index max_resident_steps = (swaps_adjacent ? 3 : 2) * registers / 4 / vectors;

  using Packs = std::array<P, packs>;
  struct Angles {
    Packs cos, sin;
  };
  struct Channels {
    Packs x0;  ///< first channels of the pairs; all channels if swaps_adjacent
    std::array<P, swaps_adjacent ? 0 : packs> x1;
  };

  /// Returns cos and sin of pairs i .. i + pairs - 1 in the lanes of their channels.
  POSENC_ALWAYS_INLINE static Angles angles(const C* cos, const C* sin, Index i) noexcept {
    if constexpr (swaps_adjacent) {
      return {{P::load_duplicated(cos + i)},
              {P::load_duplicated(sin + i) ^ P::load(first_channel_sign.data())}};
    } else if constexpr (packs == 2) {
      const P cos_low = P::load(cos + i), cos_high = P::load(cos + i + P::width);
      const P sin_low = P::load(sin + i), sin_high = P::load(sin + i + P::width);
      if constexpr (is_interleaved) return {{cos_low, cos_high}, {sin_low, sin_high}};
      return {split_even_odd(cos_low, cos_high), split_even_odd(sin_low, sin_high)};
    } else {
      return {{pin_in_register(P::load(cos + i))}, {pin_in_register(P::load(sin + i))}};
    }
  }
  /// Loads the channels of the pairs that start at `in`, the first channel of the first pair.
  POSENC_ALWAYS_INLINE static Channels load(const In* in, Index pair_stride) noexcept {
    Channels x;
    if constexpr (swaps_adjacent) {
      x.x0[0] = pin_in_register(load_as<P>(in));
    } else if constexpr (is_interleaved && uses_even_odd) {
      for (std::size_t k = 0; k < packs; ++k) {
        P::load_bfloat16_pairs(in + static_cast<Index>(k) * 2 * P::width, x.x0[k], x.x1[k]);
      }
    } else if constexpr (is_interleaved) {
      split_pairs(pin_in_register(load_as<P>(in)), pin_in_register(load_as<P>(in + P::width)),
                  x.x0[0], x.x1[0]);
    } else {
      x.x0 = load_channels(in);
      x.x1 = load_channels(in + pair_stride);
    }
    return x;
  }
  /// Returns the rotated channels, y0 and y1 of the class's formula.
  POSENC_ALWAYS_INLINE static Channels rotated(const Channels& x, const Angles& angles) noexcept {
    Channels y;
    for (std::size_t k = 0; k < x.x0.size(); ++k) {
      const P c = angles.cos[k], s = angles.sin[k];
      if constexpr (swaps_adjacent) {
        y.x0[k] = mul_add(c, x.x0[k], s * swap_pairs(x.x0[k]));
      } else {
        y.x0[k] = mul_sub(c, x.x0[k], s * x.x1[k]);
        y.x1[k] = mul_add(c, x.x1[k], s * x.x0[k]);
      }
    }
    return y;
  }
  /// Stores channels as load() reads them.
  POSENC_ALWAYS_INLINE static void store(const Channels& y, Out* out, Index pair_stride) noexcept {
    if constexpr (swaps_adjacent) {
      store_as(y.x0[0], out);
    } else if constexpr (is_interleaved && uses_even_odd) {
      if constexpr (packs == 2) {
        P::store_bfloat16_pairs(out, y.x0[0], y.x1[0], out + 2 * P::width, y.x0[1], y.x1[1]);
      } else {
        P::store_bfloat16_pairs(out, y.x0[0], y.x1[0]);
      }
    } else if constexpr (is_interleaved) {
      P low, high;
      join_pairs(y.x0[0], y.x1[0], low, high);
      store_as(low, out);
      store_as(high, out + P::width);
    } else if constexpr (uses_even_odd && has_paired_store<P>) {
      P::store_bfloat16_pairs(out, y.x0[0], y.x0[1], out + pair_stride, y.x1[0], y.x1[1]);
    } else {
      store_channels(y.x0, out);
      store_channels(y.x1, out + pair_stride);
    }
  }
  /// Prefetches `Count` pairs. Count is a constant, so that the compiler emits one prefetch per
  /// cache line.
  template <Index Count>
  POSENC_ALWAYS_INLINE static void prefetch(const In* in, Index pair_stride) noexcept {
    constexpr Index bytes = Count * Index{sizeof(In)};
    if constexpr (is_interleaved) {
      detail::prefetch(in, 2 * bytes);
    } else {
      detail::prefetch(in, bytes);
      detail::prefetch(in + pair_stride, bytes);
    }
  }

 private:
  /// Signs that negate s in the first channel of each pair, which gets -s x1.
  alignas(64) static constexpr auto first_channel_sign = [] {
    std::array<C, P::width> signs = {};
    for (std::size_t i = 0; i < signs.size(); i += 2) signs[i] = C(-0.0);
    return signs;
  }();

  POSENC_ALWAYS_INLINE static Packs split_even_odd(P low, P high) noexcept {
    Packs a;
    split_pairs(low, high, a[0], a[1]);
    return {natural_order(a[0]), natural_order(a[1])};
  }
  POSENC_ALWAYS_INLINE static Packs load_channels(const In* p) noexcept {
    Packs x;
    if constexpr (uses_even_odd) {
      P::load_bfloat16_pairs(p, x[0], x[1]);
    } else {
      x[0] = pin_in_register(load_as<P>(p));
    }
    return x;
  }
  POSENC_ALWAYS_INLINE static void store_channels(const Packs& x, Out* p) noexcept {
    if constexpr (uses_even_odd) {
      P::store_bfloat16_pairs(p, x[0], x[1]);
    } else {
      store_as(x[0], p);
    }
  }
};

}  // namespace detail
POSENC_END
