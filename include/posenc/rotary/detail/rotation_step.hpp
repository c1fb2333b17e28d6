// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/rotary/pairing.hpp>
#include <posenc/simd/cos_sin.hpp>
#include <posenc/simd/detail/halves.hpp>
#include <posenc/simd/detail/loaded_once.hpp>
#include <posenc/simd/detail/prefetch.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>

// What the rotation kernel does with a few pairs at a time: one set of vectors of cos and sin, and the channels.
POSENC_BEGIN
namespace detail {

/// Whether two vectors of bfloat16 are stored faster together than one after the other.
template <class P>
inline constexpr bool stores_twice = requires(void* p, P a) {
  P::store_bfloat16_pairs(p, a, a, p, a, a);
};

/// A vector holds both channels of half as many pairs of HalfRotate as it has lanes, turned as neighbours are in
/// place. So few pairs take half of a whole step's products, which are what bounds heads of 72 or 112 channels
/// in the first cache.
template <Scalar T, class Tier>
struct FoldedStep {
  using C = Compute<T>;
  using P = Pack<C, Tier>;
  using NarrowTier = typename tier::Narrower<Tier>::Type;
  using Narrow = Pack<C, NarrowTier>;
  using NarrowerLast = FoldedStep<T, NarrowTier>;
  static constexpr bool exists = storage_format<T> == StorageFormat::Native && HasHalves<P>;
  static constexpr Index pairs = exists ? P::width / 2 : 1;  ///< 1 ends a search for a narrower one

  using Angles = CosSinOf<P>;
  using Channels = P;

  template <class Row>
  POSENC_ALWAYS_INLINE static Angles angles(const Row& row, Index i) noexcept {
    const CosSinOf<Narrow> a = row.template lanes<NarrowTier>(i);
    return {joined(a.cos, a.cos), joined(-a.sin, a.sin)};
  }
  POSENC_ALWAYS_INLINE static P load(const T* in, Index half) noexcept {
    return loaded_once(joined(Narrow::load(in), Narrow::load(in + half)));
  }
  POSENC_ALWAYS_INLINE static P turned(P x, const Angles& angles) noexcept {
    return mul_add(angles.cos, x, angles.sin * swap_halves(x));
  }
  POSENC_ALWAYS_INLINE static void store(P y, T* out, Index half) noexcept {
    low_half(y).store(out);
    high_half(y).store(out + half);
  }
};

/// As many pairs as one set of vectors holds: how they are loaded, turned and stored.
///
///   y0 = c x0 - s x1,   y1 = c x1 + s x0
///
/// The product with s is rounded, the one with c fused: the same bits on every tier with fma. Split: neighbours are
/// parted into one vector of first and one of second channels, which takes half as many loads of angles, for kernels
/// that load them with every head; else bfloat16, which is parted anyway, has two of each where one branch is enough
/// for both.
template <class Pairing, Scalar T, class Tier, bool Split = false>
struct RotationStep {
  using C = Compute<T>;
  using P = Pack<C, Tier>;
  static constexpr bool interleaved = std::same_as<Pairing, Interleaved>;
  /// bfloat16 is widened and narrowed most cheaply as even and odd channels.
  static constexpr bool even_odd = storage_format<T> == StorageFormat::Bfloat16 && P::width > 1;
  static constexpr bool twice_interleaved = interleaved && even_odd && stores_twice<P> && !Split;
  using Narrower =
      std::conditional_t<twice_interleaved, RotationStep<Pairing, T, Tier, true>,
                         RotationStep<Pairing, T, typename tier::Narrower<Tier>::Type, Split>>;
  /// Behind steps of 512 bits; behind those of 256 it takes longer than one of 128.
  static constexpr bool folds = !interleaved && sizeof(P) == 64 && FoldedStep<T, Tier>::exists;
  using NarrowerLast = std::conditional_t<folds, FoldedStep<T, Tier>, Narrower>;
  /// A vector of neighbouring channels is turned as it lies, each beside its partner.
  static constexpr bool in_place = !Split && interleaved && !even_odd && P::width > 1;
  /// Whether angles are loaded in the tier's pair order.
  static constexpr bool in_pair_order = Split && !even_odd && P::width > 1;
  static constexpr std::size_t packs = twice_interleaved || (even_odd && !interleaved) ? 2 : 1;
  static constexpr Index pairs = in_place ? P::width / 2 : static_cast<Index>(packs) * P::width;
  static constexpr Index channels = interleaved ? 2 * pairs : pairs;  ///< from step to step
  static constexpr Index vectors = 2 * packs;                         ///< of cos and sin
  /// Whether cos and sin are ready as they are loaded, by loads that 512 bits at a time have to spare.
  static constexpr bool loads_angles = !in_place && packs == 1 && sizeof(P) == 64;
  static constexpr Index registers = Tier::registers;
  /// So many steps leave half of the registers for channels, a quarter where those are turned in place.
  static constexpr Index most_in_registers = (in_place ? 3 : 2) * registers / 4 / vectors;

  using Packs = std::array<P, packs>;
  struct Angles {
    Packs cos, sin;
  };
  struct Channels {
    Packs x0;  ///< first channels of the pairs; all channels as they lie where turned in place
    std::array<P, in_place ? 0 : packs> x1;
  };

  /// cos and sin of pairs i .. i + pairs - 1 of a row, in the lanes where their channels are loaded.
  template <class Row>
  POSENC_ALWAYS_INLINE static Angles angles(const Row& row, Index i) noexcept {
    // Packs made anew, because g++ 12 copies those of a struct through memory.
    if constexpr (in_place) {
      const CosSinOf<P> a = row.template doubled<Tier>(i);
      return {{P{a.cos.v}}, {a.sin ^ P::load(sign_of_first.data())}};
    } else if constexpr (packs == 2) {
      const CosSinOf<P> low = row.template lanes<Tier>(i);
      const CosSinOf<P> high = row.template lanes<Tier>(i + P::width);
      if constexpr (interleaved) return {{low.cos, high.cos}, {low.sin, high.sin}};
      return {even_and_odd(low.cos, high.cos), even_and_odd(low.sin, high.sin)};
    } else {
      const CosSinOf<P> a = row.template lanes<Tier>(i);
      return {{loaded_once(a.cos)}, {loaded_once(a.sin)}};
    }
  }
  /// in points to the first channel of the first pair; `half` is the distance to the second half.
  POSENC_ALWAYS_INLINE static Channels load(const T* in, Index half) noexcept {
    Channels x;
    if constexpr (in_place) {
      x.x0[0] = loaded_once(load_as<P>(in));
    } else if constexpr (interleaved && even_odd) {
      for (std::size_t k = 0; k < packs; ++k) {
        P::load_bfloat16_pairs(in + static_cast<Index>(k) * 2 * P::width, x.x0[k], x.x1[k]);
      }
    } else if constexpr (interleaved) {
      split_pairs(loaded_once(load_as<P>(in)), loaded_once(load_as<P>(in + P::width)), x.x0[0],
                  x.x1[0]);
    } else {
      x.x0 = load_half_of(in);
      x.x1 = load_half_of(in + half);
    }
    return x;
  }
  POSENC_ALWAYS_INLINE static Channels turned(const Channels& x, const Angles& angles) noexcept {
    Channels y;
    for (std::size_t k = 0; k < x.x0.size(); ++k) {
      const P c = angles.cos[k], s = angles.sin[k];
      if constexpr (in_place) {
        y.x0[k] = mul_add(c, x.x0[k], s * swap_pairs(x.x0[k]));
      } else {
        y.x0[k] = mul_sub(c, x.x0[k], s * x.x1[k]);
        y.x1[k] = mul_add(c, x.x1[k], s * x.x0[k]);
      }
    }
    return y;
  }
  POSENC_ALWAYS_INLINE static void store(const Channels& y, T* out, Index half) noexcept {
    if constexpr (in_place) {
      store_as(y.x0[0], out);
    } else if constexpr (interleaved && even_odd) {
      if constexpr (packs == 2) {
        P::store_bfloat16_pairs(out, y.x0[0], y.x1[0], out + 2 * P::width, y.x0[1], y.x1[1]);
      } else {
        P::store_bfloat16_pairs(out, y.x0[0], y.x1[0]);
      }
    } else if constexpr (interleaved) {
      P low, high;
      join_pairs(y.x0[0], y.x1[0], low, high);
      store_as(low, out);
      store_as(high, out + P::width);
    } else if constexpr (even_odd && stores_twice<P>) {
      P::store_bfloat16_pairs(out, y.x0[0], y.x0[1], out + half, y.x1[0], y.x1[1]);
    } else {
      store_half_of(y.x0, out);
      store_half_of(y.x1, out + half);
    }
  }
  POSENC_ALWAYS_INLINE static void rotate(const T* in, T* out, Index half,
                                          const Angles& angles) noexcept {
    store(turned(load(in, half), angles), out, half);
  }
  /// Asks for the pairs of a head, which are soon read.
  POSENC_ALWAYS_INLINE static void prefetch(const T* in, Index half, Index count) noexcept {
    if (interleaved || half == count) {
      detail::prefetch(in, 2 * count * Index{sizeof(T)});
    } else {
      detail::prefetch(in, count * Index{sizeof(T)});
      detail::prefetch(in + half, count * Index{sizeof(T)});
    }
  }

 private:
  /// A pair's first channel gets -s x1.
  alignas(64) static constexpr auto sign_of_first = [] {
    std::array<C, P::width> signs = {};
    for (std::size_t i = 0; i < signs.size(); i += 2) signs[i] = C(-0.0);
    return signs;
  }();

  POSENC_ALWAYS_INLINE static Packs even_and_odd(P low, P high) noexcept {
    Packs a;
    split_pairs(low, high, a[0], a[1]);
    return {natural_order(a[0]), natural_order(a[1])};
  }
  POSENC_ALWAYS_INLINE static Packs load_half_of(const T* p) noexcept {
    Packs x;
    if constexpr (even_odd) {
      P::load_bfloat16_pairs(p, x[0], x[1]);
    } else {
      x[0] = loaded_once(load_as<P>(p));
    }
    return x;
  }
  POSENC_ALWAYS_INLINE static void store_half_of(const Packs& x, T* p) noexcept {
    if constexpr (even_odd) {
      P::store_bfloat16_pairs(p, x[0], x[1]);
    } else {
      store_as(x[0], p);
    }
  }
};

/// Where half a vector is left behind whole ones, second halves begin in the middle of a cache line: rows of 80 or 112
/// floats, say. What is stored there is parted: a store to two lines takes up to twice as long, one to two pages
/// longer.
template <class Step>
struct PartedStep : Step {
  template <class T>
  POSENC_ALWAYS_INLINE static void store(const typename Step::Channels& y, T* out,
                                         Index half) noexcept {
    y.x0[0].store(out);
    store_halves(y.x1[0], out + half);
  }
  template <class T>
  POSENC_ALWAYS_INLINE static void rotate(const T* in, T* out, Index half,
                                          const typename Step::Angles& angles) noexcept {
    store(Step::turned(Step::load(in, half), angles), out, half);
  }
};

}  // namespace detail
POSENC_END
