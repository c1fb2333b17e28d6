// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/compiled.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/simd/detail/pin_in_register.hpp>
#include <posenc/simd/detail/prefetch.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/detail/unrolled.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

// The rotation kernels. Their bound is one load and one store of x. RotationStep rotates the pairs
// of a vector; its rotated() is the innermost arithmetic. The kernels are loops over positions,
// heads and steps. cos and sin of a position stay in registers over all heads if they fit
// (ResidentAngles). Otherwise they are loaded once for four heads (GroupedHeads).
//
// The last step of a head, the tail, ends with the last pair. It may overlap the step before it: it
// loads the shared pairs before that step stores them, and stores the same bits. Memory is read in
// ascending order, which takes a Zen 5 a third less time if x is in its caches.
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

/// A kernel that rotates a certain number of pairs.
template <Scalar In, Scalar Out = In>
class BlockKernel {
 public:
  using C = Compute<In>;

  /// Returns the kernel of ResidentAngles or GroupedHeads.
  template <class Loop>
  static constexpr BlockKernel of() noexcept {
    BlockKernel kernel;
    kernel.rotate_ = &Loop::rotate;
    kernel.rotate_token_ = &Loop::rotate_token;
    return kernel;
  }

  /// Rotates a block.
  void operator()(const RotationBlock<In, Out>& block) const noexcept { rotate_(block); }
  /// Rotates the heads of one position, with all pairs of the slice.
  void rotate_token(const In* in, Out* out, Index pairs, Index heads, const C* cos, const C* sin,
                    Index in_stride, Index out_stride) const noexcept {
    rotate_token_(in, out, pairs, heads, cos, sin, in_stride, out_stride);
  }

 private:
  void (*rotate_)(const RotationBlock<In, Out>&) noexcept = nullptr;
  void (*rotate_token_)(const In*, Out*, Index, Index, const C*, const C*, Index,
                        Index) noexcept = nullptr;
};

/// Returns the kernel for at most sizeof...(FullSteps) steps. The tail is of half of a step's pairs
/// if that suffices and there is such a tail.
template <class Step, Index... FullSteps>
auto resident_kernel(Index pairs, std::integer_sequence<Index, FullSteps...>) noexcept {
  using Kernel = BlockKernel<typename Step::Input, typename Step::Output>;
  const Index full_steps = (pairs - 1) / Step::pairs;
  if constexpr (Step::has_half_tail) {
    using Half = typename Step::Narrower;
    // There are at least the pairs of a step, so that a tail without full steps has all of them.
    static constexpr Kernel kernels[] = {Kernel::template of<
        ResidentAngles<Step, std::conditional_t<FullSteps == 0, Step, Half>, FullSteps>>()...};
    if (pairs - full_steps * Step::pairs <= Half::pairs) return kernels[full_steps];
  }
  static constexpr Kernel kernels[] = {
      Kernel::template of<ResidentAngles<Step, Step, FullSteps>>()...};
  return kernels[full_steps];
}

/// Returns the kernel for fewer pairs than a step of type Wider has.
template <class Wider>
auto narrow_kernel(Index pairs) noexcept {
  using Step = typename Wider::Narrower;
  using Kernel = BlockKernel<typename Step::Input, typename Step::Output>;
  if constexpr (Step::pairs == 1) {
    return Kernel::template of<GroupedHeads<Step, 1>>();
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
    return BlockKernel<In, Out>::template of<GroupedHeads<Step>>();
  } else {
    if (pairs < Step::pairs) return narrow_kernel<Step>(pairs);
    if (pairs > Step::max_resident_steps * Step::pairs) {
      return BlockKernel<In, Out>::template of<GroupedHeads<Step>>();
    }
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
