// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/rotary/pairing.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <utility>

// The rotation kernel. Its limit is one load and one store of x: cos and sin of a position stay in
// registers over all heads where they fit, and are loaded once for four heads where they do not.
POSENC_BEGIN
namespace detail {

/// g++ 12 loads a value again for each use as an operand, and a kernel that lives by its loads is a
/// third slower for it.
template <class P>
POSENC_ALWAYS_INLINE P loaded_once(P a) noexcept {
#if defined(__GNUC__) && !defined(__clang__) && (POSENC_HAS_SSE2 || POSENC_HAS_AVX2)
  if constexpr (P::width > 1) asm("" : "+v"(a.v));
#endif
  return a;
}

/// As many pairs as one set of vectors holds: how they are loaded, turned and stored.
///
///   y0 = c x0 - s x1,   y1 = c x1 + s x0
///
/// The product with s is rounded, the one with c fused: the same bits on every tier with fma.
template <class Pairing, Scalar T, class Tier>
struct RotationStep {
  using C = Compute<T>;
  using P = Pack<C, Tier>;
  using Narrower = RotationStep<Pairing, T, typename tier::Narrower<Tier>::Type>;
  static constexpr bool interleaved = std::same_as<Pairing, Interleaved>;
  /// bfloat16 is widened and narrowed most cheaply as even and odd channels.
  static constexpr bool even_odd = storage_format<T> == StorageFormat::Bfloat16 && P::width > 1;
  /// A vector of neighbouring channels is turned as it lies, each beside its partner.
  static constexpr bool in_place = interleaved && !even_odd && P::width > 1;
  static constexpr std::size_t packs = even_odd && !interleaved ? 2 : 1;
  static constexpr Index pairs = static_cast<Index>(packs) * P::width;
  static constexpr Index channels = interleaved ? 2 * pairs : pairs;  ///< from step to step
  static constexpr Index vectors = in_place ? 4 : 2 * packs;          ///< of cos and sin

  using Packs = std::array<P, in_place ? 2 : packs>;
  struct Angles {
    Packs cos, sin;
  };

  /// cos and sin of the next `pairs` pairs, in the lanes where their channels are loaded.
  POSENC_ALWAYS_INLINE static Angles angles(const C* cos, const C* sin) noexcept {
    if constexpr (in_place) {
      const P c = pair_order(P::load(cos)), s = pair_order(P::load(sin));
      Angles a;
      join_pairs(c, c, a.cos[0], a.cos[1]);
      join_pairs(-s, s, a.sin[0], a.sin[1]);
      return a;
    } else {
      return {arranged(cos), arranged(sin)};
    }
  }
  /// in points to the first channel of the first pair; `half` is the distance to the second half.
  POSENC_ALWAYS_INLINE static void rotate(const T* in, T* out, Index half,
                                          const Angles& angles) noexcept {
    if constexpr (in_place) {
      for (std::size_t k = 0; k < 2; ++k) {
        const Index at = static_cast<Index>(k) * P::width;
        const P x = loaded_once(load_as<P>(in + at));
        store_as(mul_add(angles.cos[k], x, angles.sin[k] * swap_pairs(x)), out + at);
      }
    } else if constexpr (interleaved) {
      Packs x0, x1;
      if constexpr (even_odd) {
        P::load_bfloat16_pairs(in, x0[0], x1[0]);
      } else {
        split_pairs(load_as<P>(in), load_as<P>(in + P::width), x0[0], x1[0]);
      }
      turn(x0, x1, angles);
      if constexpr (even_odd) {
        P::store_bfloat16_pairs(out, x0[0], x1[0]);
      } else {
        join_pairs(x0[0], x1[0], x0[0], x1[0]);
        store_as(x0[0], out);
        store_as(x1[0], out + P::width);
      }
    } else {
      Packs x0 = load_half_of(in), x1 = load_half_of(in + half);
      turn(x0, x1, angles);
      store_half_of(x0, out);
      store_half_of(x1, out + half);
    }
  }

 private:
  POSENC_ALWAYS_INLINE static Packs arranged(const C* p) noexcept {
    if constexpr (packs == 2) {
      Packs a;
      split_pairs(P::load(p), P::load(p + P::width), a[0], a[1]);
      return {natural_order(a[0]), natural_order(a[1])};
    } else {
      return {P::load(p)};
    }
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
  POSENC_ALWAYS_INLINE static void turn(Packs& x0, Packs& x1, const Angles& angles) noexcept {
    for (std::size_t k = 0; k < packs; ++k) {
      const P c = angles.cos[k], s = angles.sin[k];
      const P y0 = mul_sub(c, x0[k], s * x1[k]);
      x1[k] = mul_add(c, x1[k], s * x0[k]);
      x0[k] = y0;
    }
  }
};

/// What is left of a head when a step is too wide: narrower tiers, which give the same bits.
template <class Step, Scalar T>
void rotate_rest(const T* in, T* out, Index half, Index pairs, const typename Step::C* cos,
                 const typename Step::C* sin) noexcept {
  for (; pairs >= Step::pairs; pairs -= Step::pairs) {
    Step::rotate(in, out, half, Step::angles(cos, sin));
    in += Step::channels;
    out += Step::channels;
    cos += Step::pairs;
    sin += Step::pairs;
  }
  if constexpr (Step::pairs > 1) {
    if (pairs > 0) rotate_rest<typename Step::Narrower>(in, out, half, pairs, cos, sin);
  }
}

/// Some positions of a tensor, all heads or one, and the angles of those positions.
template <Scalar T>
struct RotationBlock {
  const T* in;  ///< the first channel of the first pair
  T* out;
  Index in_seq_stride, in_head_stride, out_seq_stride, out_head_stride;
  Index seq, heads;
  Index half;   ///< from a pair's first channel to its second where the pairing is HalfRotate
  Index pairs;  ///< to be turned
  const Compute<T>* cos;  ///< [seq, pairs]
  const Compute<T>* sin;
  Index angle_stride;
};

/// cos and sin in registers: I... counts whole steps; the slice is the whole of `Pairs` pairs.
template <class Step, Index Pairs, Scalar T, Index... I>
void rotate_in_registers(const RotationBlock<T>& block,
                         std::integer_sequence<Index, I...>) noexcept {
  constexpr Index whole = Index{sizeof...(I)} * Step::pairs;
  constexpr Index rest_at = Index{sizeof...(I)} * Step::channels;
  // Copies, which no store to x can reach; one by one, because a copy of the whole would wait for
  // the stores that have just filled it.
  const T* in_row = block.in;
  T* out_row = block.out;
  const auto *cos = block.cos, *sin = block.sin;
  const Index heads = block.heads, in_stride = block.in_head_stride;
  const Index out_stride = block.out_head_stride;
  for (Index s = block.seq; s > 0; --s) {
    const typename Step::Angles angles[] = {
        Step::angles(cos + I * Step::pairs, sin + I * Step::pairs)...};
    const T* in = in_row;
    T* out = out_row;
    for (Index h = heads; h > 0; --h) {
      (Step::rotate(in + I * Step::channels, out + I * Step::channels, Pairs, angles[I]), ...);
      if constexpr (whole < Pairs) {
        rotate_rest<typename Step::Narrower>(in + rest_at, out + rest_at, Pairs, Pairs - whole,
                                             cos + whole, sin + whole);
      }
      in += in_stride;
      out += out_stride;
    }
    in_row += block.in_seq_stride;
    out_row += block.out_seq_stride;
    cos += block.angle_stride;
    sin += block.angle_stride;
  }
}

/// cos and sin are loaded once for a group of heads, which I... counts.
template <class Step, Scalar T, Index... I>
POSENC_ALWAYS_INLINE void rotate_group(const T* in, Index in_stride, T* out, Index out_stride,
                                       Index half, Index pairs, const typename Step::C* cos,
                                       const typename Step::C* sin,
                                       std::integer_sequence<Index, I...>) noexcept {
  Index i = 0, at = 0;
  for (; i + Step::pairs <= pairs; i += Step::pairs, at += Step::channels) {
    const auto angles = Step::angles(cos + i, sin + i);
    (Step::rotate(in + I * in_stride + at, out + I * out_stride + at, half, angles), ...);
  }
  if (i < pairs && Step::pairs > 1) {
    (rotate_rest<typename Step::Narrower>(in + I * in_stride + at, out + I * out_stride + at, half,
                                          pairs - i, cos + i, sin + i),
     ...);
  }
}

/// Any number of pairs, of a slice or a part of it.
template <class Step, Scalar T>
void rotate_in_groups(const RotationBlock<T>& block) noexcept {
  constexpr Index group = 4;
  const Index pairs = block.pairs, half = block.half;
  const Index heads = block.heads, in_stride = block.in_head_stride;
  const Index out_stride = block.out_head_stride;
  for (Index s = 0; s < block.seq; ++s) {
    const auto* cos = block.cos + s * block.angle_stride;
    const auto* sin = block.sin + s * block.angle_stride;
    const T* in = block.in + s * block.in_seq_stride;
    T* out = block.out + s * block.out_seq_stride;
    Index h = 0;
    for (; h + group <= heads; h += group) {
      rotate_group<Step>(in, in_stride, out, out_stride, half, pairs, cos, sin,
                         std::make_integer_sequence<Index, group>());
      in += group * in_stride;
      out += group * out_stride;
    }
    for (; h < heads; ++h) {
      rotate_group<Step>(in, in_stride, out, out_stride, half, pairs, cos, sin,
                         std::make_integer_sequence<Index, 1>());
      in += in_stride;
      out += out_stride;
    }
  }
}

template <class Step, Index Pairs, Scalar T>
void rotate_known(const RotationBlock<T>& block) noexcept {
  constexpr Index vectors = Step::vectors * ((Pairs + Step::pairs - 1) / Step::pairs);
  constexpr Index registers = 8 * Step::P::width * Index{sizeof(typename Step::C)} >= 512 ? 32 : 16;
  if constexpr (Pairs < Step::pairs) {
    rotate_known<typename Step::Narrower, Pairs>(block);
  } else if constexpr (2 * vectors <= registers) {
    rotate_in_registers<Step, Pairs>(block,
                                     std::make_integer_sequence<Index, Pairs / Step::pairs>());
  } else {
    rotate_in_groups<Step>(block);
  }
}

/// Turns every pair of the block by its position's angle. block.in may be block.out.
template <class Pairing, class Tier = tier::Best, Scalar T>
void rotate_heads(const RotationBlock<T>& block) noexcept {
  using Step = RotationStep<Pairing, T, Tier>;
  // A part of a wider slice has its second halves further away.
  if (block.half != block.pairs) return rotate_in_groups<Step>(block);
  switch (block.pairs) {  // head_dim 64, 80, 96, 128, 192, 256; partial 24
    case 12:
      return rotate_known<Step, 12>(block);
    case 32:
      return rotate_known<Step, 32>(block);
    case 40:
      return rotate_known<Step, 40>(block);
    case 48:
      return rotate_known<Step, 48>(block);
    case 64:
      return rotate_known<Step, 64>(block);
    case 96:
      return rotate_known<Step, 96>(block);
    case 128:
      return rotate_known<Step, 128>(block);
    default:
      return rotate_in_groups<Step>(block);
  }
}

}  // namespace detail
POSENC_END
