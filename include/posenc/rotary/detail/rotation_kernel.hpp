// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/rotary/pairing.hpp>
#include <posenc/simd/cos_sin.hpp>
#include <posenc/simd/detail/loaded_once.hpp>
#include <posenc/simd/detail/prefetch.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

// The rotation kernel. Its limit is one load and one store of x: cos and sin of a position stay in
// registers over all heads where they fit, and are loaded once for four heads where they do not.
POSENC_BEGIN
namespace detail {

/// Whether two vectors of bfloat16 are stored faster together than one after the other.
template <class P>
inline constexpr bool stores_twice = requires(void* p, P a) {
  P::store_bfloat16_pairs(p, a, a, p, a, a);
};

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
  static constexpr Index pairs = in_place ? P::width / 2 : static_cast<Index>(packs) * P::width;
  static constexpr Index channels = interleaved ? 2 * pairs : pairs;  ///< from step to step
  static constexpr Index vectors = 2 * packs;                         ///< of cos and sin
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
      return {even_and_odd(low.cos, high.cos), even_and_odd(low.sin, high.sin)};
    } else {
      const CosSinOf<P> a = row.template lanes<Tier>(i);
      return {{P{a.cos.v}}, {P{a.sin.v}}};
    }
  }
  /// in points to the first channel of the first pair; `half` is the distance to the second half.
  POSENC_ALWAYS_INLINE static Channels load(const T* in, Index half) noexcept {
    Channels x;
    if constexpr (in_place) {
      x.x0[0] = loaded_once(load_as<P>(in));
    } else if constexpr (interleaved && even_odd) {
      P::load_bfloat16_pairs(in, x.x0[0], x.x1[0]);
    } else if constexpr (interleaved) {
      split_pairs(load_as<P>(in), load_as<P>(in + P::width), x.x0[0], x.x1[0]);
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
      P::store_bfloat16_pairs(out, y.x0[0], y.x1[0]);
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
    if constexpr (interleaved) {
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

/// m cos and m sin of some pairs at consecutive positions.
template <class C>
struct AngleRows {
  const C* cos;
  const C* sin;
  Index stride;  ///< from position to position

  /// This position's row; the next call gives the next one's.
  POSENC_ALWAYS_INLINE AngleRows next() noexcept {
    const AngleRows row = *this;
    cos += stride;
    sin += stride;
    return row;
  }

  /// Those of pairs i, i + 1, ..., one a lane.
  template <class Tier>
  POSENC_ALWAYS_INLINE CosSinOf<Pack<C, Tier>> lanes(Index i) const noexcept {
    return {Pack<C, Tier>::load(cos + i), Pack<C, Tier>::load(sin + i)};
  }
  /// The same with each in two lanes.
  template <class Tier>
  POSENC_ALWAYS_INLINE CosSinOf<Pack<C, Tier>> doubled(Index i) const noexcept {
    return {Pack<C, Tier>::load_doubled(cos + i), Pack<C, Tier>::load_doubled(sin + i)};
  }
};

/// Some positions of a tensor, all heads or one, and the angles of those positions: AngleRows, or what
/// makes them when it is asked for them in the same way.
template <Scalar T, class Angles = AngleRows<Compute<T>>>
struct RotationBlock {
  const T* in;  ///< the first channel of the first pair
  T* out;
  Index in_seq_stride, in_head_stride, out_seq_stride, out_head_stride;
  Index seq, heads;
  Index half;     ///< from a pair's first channel to its second where the pairing is HalfRotate
  Index pairs;    ///< to be turned
  Angles angles;  ///< [seq, pairs]
  /// How many channels ahead of its use x is asked for where angles fit into registers; 0: it lies in caches.
  Index ahead = 0;
};

// Where the pairs are no multiple of a step's, the last step is the narrowest that has what is left, and ends
// with the last pair. It may share some with the step before it: it loads them before that one stores, and
// stores the same bits. Memory is read in ascending order all the same, which comes sooner: out of its
// caches Zen 5 takes a third less time.

/// cos and sin in registers: I... counts the steps before the last. Known: as many pairs, which are
/// the whole slice; 0 where that is known to the block alone.
template <class Step, class Last, Index Known, Scalar T, class Angles, Index... I>
void rotate_in_registers(const RotationBlock<T, Angles>& block,
                         std::integer_sequence<Index, I...>) noexcept {
  constexpr std::size_t before = sizeof...(I);
  const Index pairs = Known > 0 ? Known : block.pairs, half = Known > 0 ? Known : block.half;
  const Index last = pairs - Last::pairs;
  const Index last_at = last * (Step::channels / Step::pairs);
  // Copies, which no store to x can reach: what is loaded again behind those may wait for all of them. One
  // by one, because a copy of the whole would wait for the stores that have just filled it.
  const T* in = block.in;
  T* out = block.out;
  Angles rows = block.angles;
  const Index heads = block.heads, ahead = block.ahead;
  const Index in_stride = block.in_head_stride, out_stride = block.out_head_stride;
  const Index to_next_in = block.in_seq_stride - heads * in_stride;
  const Index to_next_out = block.out_seq_stride - heads * out_stride;
  for (Index s = block.seq; s > 0; --s) {
    const auto row = rows.next();
    const std::array<typename Step::Angles, before> angles = {
        Step::angles(row, I * Step::pairs)...};
    const auto last_angles = Last::angles(row, last);
    for (Index h = heads; h > 0; --h) {
      if (ahead > 0) Step::prefetch(in + ahead, half, pairs);
      [[maybe_unused]] const auto step =
          [&]<std::size_t N>(std::integral_constant<std::size_t, N>) {
            constexpr Index at = static_cast<Index>(N) * Step::channels;
            if constexpr (N + 1 < before) {
              Step::rotate(in + at, out + at, half, angles[N]);
            } else {
              const auto x = Step::load(in + at, half);
              const auto y = Last::load(in + last_at, half);
              Step::store(Step::turned(x, angles[N]), out + at, half);
              Last::store(Last::turned(y, last_angles), out + last_at, half);
            }
          };
      (step(std::integral_constant<std::size_t, static_cast<std::size_t>(I)>()), ...);
      if constexpr (before == 0) Last::rotate(in + last_at, out + last_at, half, last_angles);
      in += in_stride;
      out += out_stride;
    }
    in += to_next_in;
    out += to_next_out;
  }
}

/// cos and sin are loaded once for a group of heads, which I... counts.
template <class Step, Scalar T, class Row, Index... I>
POSENC_ALWAYS_INLINE void rotate_group(const T* in, Index in_stride, T* out, Index out_stride,
                                       Index half, Index pairs, const Row& row,
                                       std::integer_sequence<Index, I...>) noexcept {
  const Index last = pairs - Step::pairs;
  const Index last_at = last * (Step::channels / Step::pairs);
  Index i = 0, at = 0;
  for (; i + Step::pairs <= last; i += Step::pairs, at += Step::channels) {
    const auto angles = Step::angles(row, i);
    (Step::rotate(in + I * in_stride + at, out + I * out_stride + at, half, angles), ...);
  }
  const auto angles = Step::angles(row, last);
  if (i == last) {
    (Step::rotate(in + I * in_stride + at, out + I * out_stride + at, half, angles), ...);
    return;
  }
  const auto before = Step::angles(row, i);
  const auto rotate_both = [&](const T* from, T* to) {
    const auto x = Step::load(from + last_at, half);
    Step::rotate(from + at, to + at, half, before);
    Step::store(Step::turned(x, angles), to + last_at, half);
  };
  (rotate_both(in + I * in_stride, out + I * out_stride), ...);
}

/// Any number of pairs, of a slice or a part of it, but no fewer than a step has.
template <class Step, Scalar T, class Angles>
void rotate_in_groups(const RotationBlock<T, Angles>& block) noexcept {
  constexpr Index group = 4;
  const Index pairs = block.pairs, half = block.half;
  const T* in = block.in;
  T* out = block.out;
  Angles rows = block.angles;
  const Index heads = block.heads;
  const Index in_stride = block.in_head_stride, out_stride = block.out_head_stride;
  const Index to_next_in = block.in_seq_stride - heads * in_stride;
  const Index to_next_out = block.out_seq_stride - heads * out_stride;
  for (Index s = block.seq; s > 0; --s) {
    const auto row = rows.next();
    Index h = 0;
    for (; h + group <= heads; h += group) {
      rotate_group<Step>(in, in_stride, out, out_stride, half, pairs, row,
                         std::make_integer_sequence<Index, group>());
      in += group * in_stride;
      out += group * out_stride;
    }
    for (; h < heads; ++h) {
      rotate_group<Step>(in, in_stride, out, out_stride, half, pairs, row,
                         std::make_integer_sequence<Index, 1>());
      in += in_stride;
      out += out_stride;
    }
    in += to_next_in;
    out += to_next_out;
  }
}

/// Behind steps of `Step`, one of the narrowest kind that has what is left of the pairs.
template <class Step, class Last, class Block, class Before>
POSENC_ALWAYS_INLINE void rotate_with_last(const Block& block, Before before) noexcept {
  using Narrower = typename Last::Narrower;
  if constexpr (Last::pairs > 1 && Narrower::pairs > 1) {
    const Index left = block.pairs - static_cast<Index>(before.size()) * Step::pairs;
    if (left <= Narrower::pairs) return rotate_with_last<Step, Narrower>(block, before);
  }
  rotate_in_registers<Step, Last, 0>(block, before);
}

/// From `Steps` steps on: as many as the pairs need, in registers where they hold them.
template <class Step, Index Steps, Index MostSteps, class Block>
POSENC_ALWAYS_INLINE void rotate_steps(const Block& block) noexcept {
  if constexpr (Steps > MostSteps) {
    rotate_in_groups<Step>(block);
  } else if (block.pairs <= Steps * Step::pairs) {
    rotate_with_last<Step, Step>(block, std::make_integer_sequence<Index, Steps - 1>());
  } else {
    rotate_steps<Step, Steps + 1, MostSteps>(block);
  }
}

/// By steps of this tier, or of narrower ones where there are fewer pairs than a step has.
template <class Step, Index MostSteps, class Block>
void rotate_by(const Block& block) noexcept {
  if constexpr (Step::pairs > 1) {
    if (block.pairs < Step::pairs) return rotate_by<typename Step::Narrower, 2>(block);
    rotate_steps<Step, 1, MostSteps>(block);
  } else if (block.pairs > 0) {
    rotate_in_groups<Step>(block);
  }
}

/// Turns every pair of the block by its position's angle. block.in may be block.out.
template <class Pairing, class Tier = tier::Best, Scalar T, class Angles>
void rotate_heads(const RotationBlock<T, Angles>& block) noexcept {
  using Step = RotationStep<Pairing, T, Tier>;
  // head_dim 128 and 64, with addresses that are known to the compiler.
  const auto known = [&block]<Index Pairs>(std::integral_constant<Index, Pairs>) {
    constexpr Index steps = Pairs / Step::pairs;
    if constexpr (steps > 0 && steps <= Step::most_in_registers) {
      if (block.pairs != Pairs || block.half != Pairs) return false;
      rotate_in_registers<Step, Step, Pairs>(block, std::make_integer_sequence<Index, steps - 1>());
      return true;
    }
    return false;
  };
  if (known(std::integral_constant<Index, 64>()) || known(std::integral_constant<Index, 32>())) {
    return;
  }
  rotate_by<Step, Step::most_in_registers>(block);
}

}  // namespace detail
POSENC_END
