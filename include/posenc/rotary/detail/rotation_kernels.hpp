// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/compiled.hpp>
#include <posenc/rotary/detail/rotation_step.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/simd/detail/unrolled.hpp>
#include <posenc/tensor/scalar.hpp>

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

// The rotation kernels: loops over positions, heads and the steps of rotation_step.hpp. Their bound
// is one load and one store of x. cos and sin of a position stay in registers over all heads if
// they fit (ResidentAngles). Otherwise they are loaded once for four heads (GroupedHeads).
//
// The last step of a head, the tail, ends with the last pair. It may overlap the step before it: it
// loads the shared pairs before that step stores them, and stores the same bits. Memory is read in
// ascending order, which takes a Zen 5 a third less time if x is in its caches.
POSENC_BEGIN
namespace detail {

/// Pointers to m cos and m sin of some pairs at consecutive positions.
template <class C>
struct CosSinRows {
  const C* cos;
  const C* sin;
  Index stride;  ///< distance from position to position
};

/// Some heads at some consecutive positions of a tensor, and the angles of those positions.
template <Scalar In, Scalar Out = In>
struct RotationBlock {
  const In* in;  ///< the first channel of the first pair
  Out* out;      ///< may be `in`
  Index in_seq_stride, in_head_stride, out_seq_stride, out_head_stride;
  Index seq, heads;
  Index pair_stride;  ///< HalfRotate: distance from a pair's first channel to its second
  Index pairs;        ///< number of pairs to rotate
  CosSinRows<Compute<In>> angles;  ///< [seq, pairs]
  Index prefetch_distance = 0;     ///< in channels; 0: no prefetch
};

/// Calls rotate(in, out, cos, sin) for each position of a block. rotate() must advance `in` and
/// `out` to one head stride after the last head.
template <Scalar In, Scalar Out, class Rotate>
POSENC_ALWAYS_INLINE void for_each_position(const RotationBlock<In, Out>& block,
                                            const Rotate& rotate) noexcept {
  // Local copies, which no store to x can alias; a member would be reloaded after each store and
  // could stall on it. Members are copied one by one, because a copy of the struct would stall on
  // the stores that have just written it.
  const In* in = block.in;
  Out* out = block.out;
  const Compute<In>*cos = block.angles.cos, *sin = block.angles.sin;
  const Index in_increment = block.in_seq_stride - block.heads * block.in_head_stride;
  const Index out_increment = block.out_seq_stride - block.heads * block.out_head_stride;
  const Index angles_increment = block.angles.stride;
  for (Index s = block.seq; s > 0; --s) {
    rotate(in, out, cos, sin);
    in += in_increment;
    out += out_increment;
    cos += angles_increment;
    sin += angles_increment;
  }
}

/// Returns the block of one token, whose heads have all pairs of the slice.
template <Scalar In, Scalar Out>
POSENC_ALWAYS_INLINE RotationBlock<In, Out> token_block(const In* in, Out* out, Index pairs,
                                                        Index heads, const Compute<In>* cos,
                                                        const Compute<In>* sin, Index in_stride,
                                                        Index out_stride) noexcept {
  return {.in = in,
          .out = out,
          .in_seq_stride = 0,
          .in_head_stride = in_stride,
          .out_seq_stride = 0,
          .out_head_stride = out_stride,
          .seq = 1,
          .heads = heads,
          .pair_stride = pairs,
          .pairs = pairs,
          .angles = {cos, sin, 0}};
}

/// A kernel that keeps cos and sin of one position in registers over all heads. A head is rotated
/// by FullSteps steps of type Step and a last one of type Tail.
template <class Step, class Tail, Index FullSteps>
struct ResidentAngles {
  using In = typename Step::Input;
  using Out = typename Step::Output;
  using C = Compute<In>;

  POSENC_NOINLINE static void rotate(const RotationBlock<In, Out>& block) noexcept {
    rotate_inline(block);
  }

  /// Rotates the heads of one position, with all pairs of the slice. The arguments are passed in
  /// registers, and there is no prefetch. A block adds a fifth to a token's time.
  POSENC_NOINLINE static void rotate_token(const In* in, Out* out, Index pairs, Index heads,
                                           const C* cos, const C* sin, Index in_stride,
                                           Index out_stride) noexcept {
    rotate_inline(token_block(in, out, pairs, heads, cos, sin, in_stride, out_stride));
  }

 private:
  POSENC_ALWAYS_INLINE static void rotate_inline(const RotationBlock<In, Out>& block) noexcept {
    const Index heads = block.heads, pair_stride = block.pair_stride;
    const Index in_stride = block.in_head_stride, out_stride = block.out_head_stride;
    const Index prefetch_distance = block.prefetch_distance;
    const Index tail = block.pairs - Tail::pairs;
    const Index tail_at = tail * (Step::channels / Step::pairs);
    for_each_position(
        block, [=](const In*& in, Out*& out, const C* cos, const C* sin) POSENC_INLINE_LAMBDA {
          [[maybe_unused]] const auto angles =
              full_step_angles(cos, sin, std::make_integer_sequence<Index, FullSteps>());
          // An array, because g++ 12 keeps a struct in memory.
          const std::array<typename Tail::Angles, 1> tail_angles = {Tail::angles(cos, sin, tail)};
          for (Index h = heads; h > 0; --h) {
            // [[unlikely]] moves the prefetch out of the loop. Otherwise heads in caches, which
            // need no prefetch, would jump over its instructions, for up to 5 % of their time.
            if (prefetch_distance > 0) [[unlikely]] {
              Step::template prefetch<FullSteps * Step::pairs + Tail::pairs>(in + prefetch_distance,
                                                                             pair_stride);
            }
            if constexpr (FullSteps > 0) {
              unrolled<FullSteps - 1>([&](Index n) POSENC_INLINE_LAMBDA {
                const Index at = n * Step::channels;
                const auto x = Step::load(in + at, pair_stride);
                Step::store(Step::rotated(x, angles[static_cast<std::size_t>(n)]), out + at,
                            pair_stride);
              });
              constexpr Index at = (FullSteps - 1) * Step::channels;
              const auto x = Step::load(in + at, pair_stride);
              const auto y = Tail::load(in + tail_at, pair_stride);
              Step::store(Step::rotated(x, angles.back()), out + at, pair_stride);
              Tail::store(Tail::rotated(y, tail_angles[0]), out + tail_at, pair_stride);
            } else {
              const auto y = Tail::load(in + tail_at, pair_stride);
              Tail::store(Tail::rotated(y, tail_angles[0]), out + tail_at, pair_stride);
            }
            in += in_stride;
            out += out_stride;
          }
        });
  }

  template <Index... N>
  POSENC_ALWAYS_INLINE static std::array<typename Step::Angles, sizeof...(N)> full_step_angles(
      [[maybe_unused]] const C* cos, [[maybe_unused]] const C* sin,
      std::integer_sequence<Index, N...>) noexcept {
    return {Step::angles(cos, sin, N * Step::pairs)...};
  }
};

/// A kernel that loads cos and sin once for a group of heads. It supports any number of pairs from
/// Step::pairs on.
template <class Step, Index Group = 4>
struct GroupedHeads {
  using In = typename Step::Input;
  using Out = typename Step::Output;
  using C = Compute<In>;

  POSENC_NOINLINE static void rotate(const RotationBlock<In, Out>& block) noexcept {
    const Index heads = block.heads, pairs = block.pairs, pair_stride = block.pair_stride;
    const Index in_stride = block.in_head_stride, out_stride = block.out_head_stride;
    for_each_position(
        block, [=](const In*& in, Out*& out, const C* cos, const C* sin) POSENC_INLINE_LAMBDA {
          Index h = 0;
          for (; h + Group <= heads; h += Group) {
            rotate_group<Group>(in, out, pairs, cos, sin, in_stride, out_stride, pair_stride);
            in += Group * in_stride;
            out += Group * out_stride;
          }
          if constexpr (Group > 1) {
            for (; h < heads; ++h) {
              rotate_group<1>(in, out, pairs, cos, sin, in_stride, out_stride, pair_stride);
              in += in_stride;
              out += out_stride;
            }
          }
        });
  }

  POSENC_NOINLINE static void rotate_token(const In* in, Out* out, Index pairs, Index heads,
                                           const C* cos, const C* sin, Index in_stride,
                                           Index out_stride) noexcept {
    rotate(token_block(in, out, pairs, heads, cos, sin, in_stride, out_stride));
  }

 private:
  template <Index Heads>
  POSENC_ALWAYS_INLINE static void rotate_group(const In* in, Out* out, Index pairs, const C* cos,
                                                const C* sin, Index in_stride, Index out_stride,
                                                Index pair_stride) noexcept {
    const Index tail = pairs - Step::pairs;
    const Index tail_at = tail * (Step::channels / Step::pairs);
    Index i = 0, at = 0;
    for (; i + Step::pairs < tail; i += Step::pairs, at += Step::channels) {
      const auto angles = Step::angles(cos, sin, i);
      unrolled<Heads>([&](Index h) POSENC_INLINE_LAMBDA {
        const auto x = Step::load(in + h * in_stride + at, pair_stride);
        Step::store(Step::rotated(x, angles), out + h * out_stride + at, pair_stride);
      });
    }
    // The last two steps overlap if the pairs do not fill them.
    const auto angles = Step::angles(cos, sin, i), tail_angles = Step::angles(cos, sin, tail);
    unrolled<Heads>([&](Index h) POSENC_INLINE_LAMBDA {
      const In* head_in = in + h * in_stride;
      Out* head_out = out + h * out_stride;
      const auto y = Step::load(head_in + tail_at, pair_stride);
      const auto x = Step::load(head_in + at, pair_stride);
      Step::store(Step::rotated(x, angles), head_out + at, pair_stride);
      Step::store(Step::rotated(y, tail_angles), head_out + tail_at, pair_stride);
    });
  }
};

/// A kernel that rotates a certain number of pairs: functions of ResidentAngles or GroupedHeads.
template <Scalar In, Scalar Out>
struct BlockKernel {
  using C = Compute<In>;

  void (*rotate)(const RotationBlock<In, Out>&) noexcept;
  void (*rotate_token)(const In*, Out*, Index pairs, Index heads, const C* cos, const C* sin,
                       Index in_stride, Index out_stride) noexcept;
};
template <class Loop>
constexpr BlockKernel<typename Loop::In, typename Loop::Out> kernel_of() noexcept {
  return {Loop::rotate, Loop::rotate_token};
}

/// Returns the kernel for at most sizeof...(FullSteps) steps. The tail is of half of a step's pairs
/// if that suffices and there is such a tail.
template <class Step, Index... FullSteps>
auto resident_kernel(Index pairs, std::integer_sequence<Index, FullSteps...>) noexcept {
  using Kernel = BlockKernel<typename Step::Input, typename Step::Output>;
  const Index full_steps = (pairs - 1) / Step::pairs;
  if constexpr (Step::has_half_tail) {
    using Half = typename Step::Narrower;
    // There are at least the pairs of a step, so that a tail without full steps has all of them.
    static constexpr Kernel kernels[] = {kernel_of<
        ResidentAngles<Step, std::conditional_t<FullSteps == 0, Step, Half>, FullSteps>>()...};
    if (pairs - full_steps * Step::pairs <= Half::pairs) return kernels[full_steps];
  }
  static constexpr Kernel kernels[] = {kernel_of<ResidentAngles<Step, Step, FullSteps>>()...};
  return kernels[full_steps];
}

/// Returns the kernel for fewer pairs than a step of type Wider has.
template <class Wider>
auto narrow_kernel(Index pairs) noexcept {
  using Step = typename Wider::Narrower;
  if constexpr (Step::pairs == 1) {
    return kernel_of<GroupedHeads<Step, 1>>();
  } else {
    if (pairs < Step::pairs) return narrow_kernel<Step>(pairs);
    constexpr Index max_full_steps = (Wider::pairs - 2) / Step::pairs;
    return resident_kernel<Step>(pairs, std::make_integer_sequence<Index, max_full_steps + 1>());
  }
}

/// Returns the kernel that rotates blocks of `pairs` pairs; pairs must be positive. It has the
/// largest number of full steps that leaves some pairs for the tail.
template <class Pairing, Scalar In, class Tier = tier::Best, Scalar Out = In>
BlockKernel<In, Out> block_kernel(Index pairs) noexcept {
  using Step = RotationStep<Pairing, In, Tier, Out>;
  if constexpr (Step::pairs == 1) {
    return kernel_of<GroupedHeads<Step>>();
  } else {
    if (pairs < Step::pairs) return narrow_kernel<Step>(pairs);
    if (pairs > Step::max_resident_steps * Step::pairs) return kernel_of<GroupedHeads<Step>>();
    return resident_kernel<Step>(pairs,
                                 std::make_integer_sequence<Index, Step::max_resident_steps>());
  }
}

#define POSENC_DETAIL_ROTATION_KERNELS(EXTERN, PAIRING, IN, OUT) \
  EXTERN template BlockKernel<IN, OUT> block_kernel<PAIRING, IN, tier::Best, OUT>(Index) noexcept;
#define POSENC_DETAIL_ROTATION_KERNELS_SAME(EXTERN, T)      \
  POSENC_DETAIL_ROTATION_KERNELS(EXTERN, Interleaved, T, T) \
  POSENC_DETAIL_ROTATION_KERNELS(EXTERN, HalfRotate, T, T)
#define POSENC_DETAIL_ROTATION_KERNELS_MIXED(EXTERN, T, S)  \
  POSENC_DETAIL_ROTATION_KERNELS(EXTERN, Interleaved, T, S) \
  POSENC_DETAIL_ROTATION_KERNELS(EXTERN, Interleaved, S, T) \
  POSENC_DETAIL_ROTATION_KERNELS(EXTERN, HalfRotate, T, S)  \
  POSENC_DETAIL_ROTATION_KERNELS(EXTERN, HalfRotate, S, T)
POSENC_DETAIL_DECLARE_COMPILED(POSENC_DETAIL_ROTATION_KERNELS_SAME)
POSENC_DETAIL_DECLARE_COMPILED_MIXED(POSENC_DETAIL_ROTATION_KERNELS_MIXED)

}  // namespace detail
POSENC_END
