// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/rotary/detail/rotation_step.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/simd/cos_sin.hpp>
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

  /// Those of pairs i, i + 1, ..., one per lane.
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
  /// These are all positions, at most positions_in_order, of heads that lie one after the other, in caches: memory may
  /// be read in ascending order, where the kernel can (turns_head_after_head).
  bool head_after_head = false;
};

// Where the pairs are no multiple of a step's, the last step is the narrowest that has what is left, and ends
// with the last pair. It may share some with the step before it: it loads them before that one stores, and
// stores the same bits. Memory is read in ascending order all the same, which comes sooner: out of its
// caches Zen 5 takes a third less time.

/// Where a kernel is in x.
template <Scalar T>
struct HeadPointers {
  const T* in;
  T* out;
};

/// All heads of one position with cos and sin in registers: Before... counts the steps before the last. Gives
/// what lies behind the last head. Apart: no step shares pairs with another.
template <class Step, class Last, Scalar T, bool Apart = false, class Row, Index... Before>
POSENC_ALWAYS_INLINE HeadPointers<T> rotate_position(
    HeadPointers<T> x, Index in_stride, Index out_stride, Index heads, Index half, Index pairs,
    const Row& row, Index ahead, std::integer_sequence<Index, Before...>) noexcept {
  constexpr std::size_t before = sizeof...(Before);
  const Index last = pairs - Last::pairs;
  const Index last_at = last * (Step::channels / Step::pairs);
  const T* in = x.in;
  T* out = x.out;
  const std::array<typename Step::Angles, before> angles = {
      Step::angles(row, Before * Step::pairs)...};
  // An array, because g++ 12 keeps a struct in memory.
  const std::array<typename Last::Angles, 1> last_angles = {Last::angles(row, last)};
  for (Index h = heads; h > 0; --h) {
    // Unlikely puts it behind the loop: heads in caches, which ask for nothing, would else jump over its instructions,
    // which takes up to 5 % of their time.
    if (ahead > 0) [[unlikely]] {
      Step::prefetch(in + ahead, half, pairs);
    }
    // Inlined by force: g++ 12 calls it where a step is long, and keeps the angles in memory for it.
    [[maybe_unused]] const auto step =
        [&]<std::size_t N>(std::integral_constant<std::size_t, N>) POSENC_INLINE_LAMBDA {
          constexpr Index at = static_cast<Index>(N) * Step::channels;
          if constexpr (Apart || N + 1 < before) {
            Step::rotate(in + at, out + at, half, angles[N]);
          } else {
            const auto x0 = Step::load(in + at, half);
            const auto y = Last::load(in + last_at, half);
            Step::store(Step::turned(x0, angles[N]), out + at, half);
            Last::store(Last::turned(y, last_angles[0]), out + last_at, half);
          }
        };
    (step(std::integral_constant<std::size_t, static_cast<std::size_t>(Before)>()), ...);
    if constexpr (Apart || before == 0) {
      Last::store(Last::turned(Last::load(in + last_at, half), last_angles[0]), out + last_at,
                  half);
    }
    in += in_stride;
    out += out_stride;
  }
  return {in, out};
}

/// All positions of a block. Known: as many pairs, which are the whole slice; 0 where that is known to the block alone.
template <class Step, class Last, Scalar T, class Before, Index Known = 0, class Angles>
void rotate_in_registers(const RotationBlock<T, Angles>* given) noexcept {
  const RotationBlock<T, Angles>& block = *given;
  const Index pairs = Known > 0 ? Known : block.pairs, half = Known > 0 ? Known : block.half;
  // Copies, which no store to x can reach: what is loaded again behind those may wait for all of them. One
  // by one, because a copy of the whole would wait for the stores that have just filled it.
  HeadPointers<T> x = {block.in, block.out};
  Angles rows = block.angles;
  const Index heads = block.heads, ahead = block.ahead;
  const Index in_stride = block.in_head_stride, out_stride = block.out_head_stride;
  const Index to_next_in = block.in_seq_stride - heads * in_stride;
  const Index to_next_out = block.out_seq_stride - heads * out_stride;
  for (Index s = block.seq; s > 0; --s) {
    x = rotate_position<Step, Last, T, (Known > 0)>(x, in_stride, out_stride, heads, half, pairs,
                                                    rows.next(), ahead, Before());
    x.in += to_next_in;
    x.out += to_next_out;
  }
}

/// cos and sin are loaded once for a group of heads, which Head... counts.
template <class Step, Scalar T, class Row, Index... Head>
POSENC_ALWAYS_INLINE void rotate_group(const T* in, Index in_stride, T* out, Index out_stride,
                                       Index half, Index pairs, const Row& row,
                                       std::integer_sequence<Index, Head...>) noexcept {
  const Index last = pairs - Step::pairs;
  const Index last_at = last * (Step::channels / Step::pairs);
  Index i = 0, at = 0;
  for (; i + Step::pairs <= last; i += Step::pairs, at += Step::channels) {
    const auto angles = Step::angles(row, i);
    (Step::rotate(in + Head * in_stride + at, out + Head * out_stride + at, half, angles), ...);
  }
  const auto angles = Step::angles(row, last);
  if (i == last) {
    (Step::rotate(in + Head * in_stride + at, out + Head * out_stride + at, half, angles), ...);
    return;
  }
  const auto before = Step::angles(row, i);
  const auto rotate_both = [&](const T* from, T* to) {
    const auto x = Step::load(from + last_at, half);
    Step::rotate(from + at, to + at, half, before);
    Step::store(Step::turned(x, angles), to + last_at, half);
  };
  (rotate_both(in + Head * in_stride, out + Head * out_stride), ...);
}

/// Any number of pairs, of a slice or a part of it, but no fewer than a step has.
template <class Step, Scalar T, class Angles>
POSENC_NOINLINE void rotate_in_groups(const RotationBlock<T, Angles>* given) noexcept {
  const RotationBlock<T, Angles>& block = *given;
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

/// Steps of so many pairs whose angles registers hold; 0: they do not, or pairs are left over.
template <class Step, Index Pairs>
inline constexpr Index steps_in_registers =
    Pairs % Step::pairs == 0 && Pairs / Step::pairs <= Step::most_in_registers ? Pairs / Step::pairs
                                                                               : 0;

/// The most positions of a block whose heads are turned one after the other.
inline constexpr Index positions_in_order = 16;

/// Angles of so many pairs in the pair order of P, written to `to` [seq, 2, Pairs].
template <class P, Index Pairs, class C>
AngleRows<C> in_pair_order(const AngleRows<C>& angles, Index seq, C* to) noexcept {
  AngleRows<C> rows = angles;
  for (Index s = 0; s < seq; ++s) {
    const AngleRows<C> row = rows.next();
    for (Index i = 0; i < Pairs; i += P::width) {
      pair_order(P::load(row.cos + i)).store(to + 2 * s * Pairs + i);
      pair_order(P::load(row.sin + i)).store(to + (2 * s + 1) * Pairs + i);
    }
  }
  return {to, to + Pairs, 2 * Pairs};
}

/// One head after the other: from the second cache, memory in ascending order comes in three quarters of the time of
/// any other. cos and sin are loaded with every row, from the first.
template <class Step, Index Known, Scalar T, class Angles>
void rotate_head_after_head(const RotationBlock<T, Angles>& block) noexcept {
  constexpr std::size_t room = Step::in_pair_order ? 2 * Known * positions_in_order : 1;
  [[maybe_unused]] alignas(64) std::array<Compute<T>, room> ordered;
  // Copies, as above.
  const T* in = block.in;
  T* out = block.out;
  Angles first = block.angles;
  const Index seq = block.seq;
  if constexpr (Step::in_pair_order) {
    first = in_pair_order<typename Step::P, Known>(first, seq, &ordered[0]);
  }
  const Index in_stride = block.in_seq_stride, out_stride = block.out_seq_stride;
  const Index to_next_in = block.in_head_stride - seq * in_stride;
  const Index to_next_out = block.out_head_stride - seq * out_stride;
  for (Index h = block.heads; h > 0; --h) {
    Angles rows = first;
    for (Index s = seq; s > 0; --s) {
      rotate_group<Step>(in, 0, out, 0, Known, Known, rows.next(),
                         std::make_integer_sequence<Index, 1>());
      in += in_stride;
      out += out_stride;
    }
    in += to_next_in;
    out += to_next_out;
  }
}

/// The heads of one position, whose pairs are all of a slice. What is told of them comes in registers, and the kernel
/// is one without positions: a token takes little longer than its stores, to which those of a block would add a fifth.
template <class Step, class Last, Scalar T, class Before>
POSENC_NOINLINE void rotate_in_registers(const T* in, T* out, Index pairs, Index heads,
                                         const Compute<T>* cos, const Compute<T>* sin,
                                         Index in_stride, Index out_stride) noexcept {
  rotate_position<Step, Last, T>({in, out}, in_stride, out_stride, heads, pairs, pairs,
                                 AngleRows<Compute<T>>{cos, sin, 0}, 0, Before());
}
template <class Step, Scalar T>
POSENC_NOINLINE void rotate_in_groups(const T* in, T* out, Index pairs, Index heads,
                                      const Compute<T>* cos, const Compute<T>* sin, Index in_stride,
                                      Index out_stride) noexcept {
  const RotationBlock<T> block{.in = in,
                               .out = out,
                               .in_seq_stride = 0,
                               .in_head_stride = in_stride,
                               .out_seq_stride = 0,
                               .out_head_stride = out_stride,
                               .seq = 1,
                               .heads = heads,
                               .half = pairs,
                               .pairs = pairs,
                               .angles = {cos, sin, 0}};
  rotate_in_groups<Step, T>(&block);
}

// Which kernel is called, for a block or for one position, depends on how many pairs there are.

/// Slices of so many pairs have kernels of their own: head_dim 128 and 64, and GPT-NeoX's 24 channels, of which g++ 12
/// adds an index to each address else, and stores from memory take up to a tenth longer.
template <Index Pairs>
inline constexpr bool has_known_addresses = Pairs == 64 || Pairs == 32 || Pairs == 12;

/// Behind steps of `Step`, one of the narrowest kind that has what is left of the pairs.
template <class Step, class Last, Scalar T, class Before, class... Args>
POSENC_ALWAYS_INLINE void rotate_with_last(Index pairs, Before before, Args... args) noexcept {
  using Narrower = typename Last::NarrowerLast;
  if constexpr (Last::pairs > 1 && Narrower::pairs > 1) {
    const Index left = pairs - static_cast<Index>(before.size()) * Step::pairs;
    // Of one position alone: sixteen, out of the second cache, gain nothing by it, and of 208 channels lose. One step
    // before the last stores faster whole.
    constexpr bool one_position = sizeof...(Args) > 1;
    if constexpr (Step::folds && std::same_as<Last, Step> && one_position && before.size() > 1) {
      if (left == Narrower::pairs) {
        return rotate_in_registers<PartedStep<Step>, Narrower, T, Before>(args...);
      }
    }
    if (left <= Narrower::pairs) return rotate_with_last<Step, Narrower, T>(pairs, before, args...);
  }
  constexpr Index whole = static_cast<Index>(Before::size()) * Step::pairs + Last::pairs;
  if constexpr (sizeof...(Args) == 1 && has_known_addresses<whole>) {
    if (((args->pairs == whole && args->half == whole) && ...)) {
      return rotate_in_registers<Step, Last, T, Before, whole>(args...);
    }
  }
  rotate_in_registers<Step, Last, T, Before>(args...);
}

/// From `Steps` steps on: as many as the pairs need, in registers where they hold them.
template <class Step, Index Steps, Index MostSteps, Scalar T, class... Args>
POSENC_ALWAYS_INLINE void rotate_steps(Index pairs, Args... args) noexcept {
  if constexpr (Steps > MostSteps) {
    rotate_in_groups<Step, T>(args...);
  } else if (pairs <= Steps * Step::pairs) {
    rotate_with_last<Step, Step, T>(pairs, std::make_integer_sequence<Index, Steps - 1>(), args...);
  } else {
    rotate_steps<Step, Steps + 1, MostSteps, T>(pairs, args...);
  }
}

/// By steps of this tier, or of narrower ones where there are fewer pairs than a step has.
template <class Step, Index MostSteps, Scalar T, class... Args>
POSENC_ALWAYS_INLINE void rotate_by(Index pairs, Args... args) noexcept {
  if constexpr (Step::pairs > 1) {
    if (pairs < Step::pairs) return rotate_by<typename Step::Narrower, 2, T>(pairs, args...);
    rotate_steps<Step, 1, MostSteps, T>(pairs, args...);
  } else if (pairs > 0) {
    rotate_in_groups<Step, T>(args...);
  }
}

/// What turns heads one after the other, with angles that are loaded for each.
template <class Pairing, Scalar T, class Tier>
using StepInOrder = RotationStep<Pairing, T, Tier, RotationStep<Pairing, T, Tier>::interleaved>;

/// Whether heads of so many pairs can be turned one after the other. Angles that are not in memory have no other order.
template <class Pairing, Scalar T, class Angles, class Tier = tier::Best>
constexpr bool turns_head_after_head(Index pairs) noexcept {
  using Step = StepInOrder<Pairing, T, Tier>;
  constexpr bool in_memory = std::same_as<Angles, AngleRows<Compute<T>>>;
  return Step::loads_angles && (in_memory || !Step::in_pair_order) &&
         ((pairs == 64 && steps_in_registers<Step, 64> > 0) ||
          (pairs == 32 && steps_in_registers<Step, 32> > 0));
}

/// Turns every pair of the block by its position's angle. block.in may be block.out.
template <class Pairing, class Tier = tier::Best, Scalar T, class Angles>
void rotate_heads(const RotationBlock<T, Angles>& block) noexcept {
  using Step = RotationStep<Pairing, T, Tier>;
  using InOrder = StepInOrder<Pairing, T, Tier>;
  if constexpr (InOrder::loads_angles) {
    const auto in_order = [&block]<Index Pairs>(std::integral_constant<Index, Pairs>) {
      if constexpr (turns_head_after_head<Pairing, T, Angles, Tier>(Pairs)) {
        if (block.pairs != Pairs || block.half != Pairs) return false;
        rotate_head_after_head<InOrder, Pairs>(block);
        return true;
      }
      return false;
    };
    if (block.head_after_head && (in_order(std::integral_constant<Index, 64>()) ||
                                  in_order(std::integral_constant<Index, 32>()))) {
      return;
    }
  }
  rotate_by<Step, Step::most_in_registers, T>(block.pairs, &block);
}

/// Turns the heads of one position, whose pairs are all of a slice.
template <class Pairing, class Tier = tier::Best, Scalar T>
POSENC_NOINLINE void rotate_token_heads(const T* in, T* out, Index pairs, Index heads,
                                        const Compute<T>* cos, const Compute<T>* sin,
                                        Index in_stride, Index out_stride) noexcept {
  using Step = RotationStep<Pairing, T, Tier>;
  rotate_by<Step, Step::most_in_registers, T>(pairs, in, out, pairs, heads, cos, sin, in_stride,
                                              out_stride);
}

}  // namespace detail
POSENC_END
