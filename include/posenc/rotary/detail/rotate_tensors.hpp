// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/double_double.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/kernels/convert_row.hpp>
#include <posenc/rotary/detail/check_rotation.hpp>
#include <posenc/rotary/detail/rotation_kernels.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <type_traits>

// The loops over tensors that all rotations share: rotate_tensors(), and rotate_token() for a
// single token. For each block of positions rotate_tensors() computes the angles once. It then
// calls a kernel for the heads of each tensor, in the order and with the prefetches of
// plan_rotation(). The channels that are not rotated are copied last, if the output is another
// tensor.
POSENC_BEGIN
namespace detail {

/// The map that a call applies, with m the attention factor and R the rotation: m R, its transpose
/// m R^T, or its inverse R^T / m.
enum class Direction { Forward, Adjoint, Inverse };

/// ChatGLM's pairing: half pairing within each half of the channels.
struct HalfRotatePerHalf {
  static constexpr const char* name = "half, twice";
  static constexpr Index first(Index pair, Index pairs) noexcept {
    return pair < pairs / 2 ? pair : pair + pairs / 2;
  }
  static constexpr Index second(Index pair, Index pairs) noexcept {
    return first(pair, pairs) + pairs / 2;
  }
};

/// The pairing with which the kernels are called.
template <class Pairing>
using KernelPairing =
    std::conditional_t<std::same_as<Pairing, Interleaved>, Interleaved, HalfRotate>;

/// Maximum number of pairs whose angles are computed at a time, so that they stay in L1.
inline constexpr Index max_pairs_per_block = 128;

/// Returns the number of pairs that one kernel call can rotate: pairs whose channels are
/// consecutive.
template <class Pairing>
constexpr Index pairs_per_call(Index pairs) noexcept {
  return std::same_as<Pairing, HalfRotatePerHalf> ? pairs / 2 : pairs;
}

/// Calls visit(first, count) for chunks of the pairs, of at most max_count pairs each.
template <class Pairing, class Visit>
POSENC_ALWAYS_INLINE void for_pair_chunks(Index pairs, Index max_count, const Visit& visit) {
  const Index per_call = pairs_per_call<Pairing>(pairs);
  for (Index first = 0, count = 0; first < pairs; first += count) {
    count = (std::min)(max_count, (first < per_call ? per_call : pairs) - first);
    visit(first, count);
  }
}

/// Converts m cos and m sin of `seq` positions to the factors of the adjoint or of the inverse.
/// Writes them to cos and sin [seq, count]; `rows` may point to that memory.
template <class C>
POSENC_NOINLINE CosSinRows<C> apply_direction(const CosSinRows<C>& rows, Direction direction,
                                              double attention_factor, Index seq, Index count,
                                              C* cos, C* sin) noexcept {
  for (Index i = 0; i < seq; ++i) {
    std::copy_n(rows.cos + i * rows.stride, count, cos + i * count);
    std::copy_n(rows.sin + i * rows.stride, count, sin + i * count);
  }
  for (Index n = 0; n < seq * count; ++n) sin[n] = -sin[n];
  if (direction == Direction::Inverse && attention_factor != 1) {
    // Scaling by a double-double 1 / m^2 rounds once, and does not overflow if 1 / m^2 exceeds
    // float.
    const DoubleDouble scale = DoubleDouble(1.0) / two_product(attention_factor, attention_factor);
    for (Index n = 0; n < seq * count; ++n) {
      cos[n] = static_cast<C>((scale * static_cast<double>(cos[n])).hi);
      sin[n] = static_cast<C>((scale * static_cast<double>(sin[n])).hi);
    }
  }
  return {cos, sin, count};
}

/// Copies channels bit by bit, or rounds them to another element type.
template <class In, class Out>
void copy_channels(const In* in, Index count, Out* out) noexcept {
  if constexpr (std::same_as<In, Out>) {
    std::copy(in, in + count, out);
  } else {
    convert_row<tier::Best>(in, count, out);
  }
}

/// Copies the channels outside the slice, which the rotation does not change.
template <Scalar In, Scalar Out>
void copy_unrotated(const RotationOperand<In, Out>& x, Index b, Index rows, Index s, Index seq,
                    RotarySlice slice) noexcept {
  if (x.in.empty() || 2 * slice.pairs == x.in.dim) return;
  for (Index row = b; row < b + rows; ++row) {
    for (Index i = s; i < s + seq; ++i) {
      for (Index h = 0; h < x.in.heads; ++h) {
        const In* in = x.in.row(row, i, h);
        Out* out = x.out.row(row, i, h);
        copy_channels(in, slice.offset, out);
        copy_channels(in + slice.end(), x.in.dim - slice.end(), out + slice.end());
      }
    }
  }
}

/// Plan of a tensor's rotation: the order of heads and positions, and the prefetch distance.
struct RotationPlan {
  Index heads_per_pass = 1;     ///< heads that one pass over the positions of a block rotates
  Index prefetch_distance = 0;  ///< in channels; 0: no prefetch
};

/// Returns the plan of a tensor that is read. Hardware prefetchers follow contiguous heads in
/// ascending order, so their plan has no prefetches. The two other cases have some:
///   - gaps between the rotary slices of heads in ascending order, from 4 MiB on
///   - the layout [B, H, S, D], from 32 MiB on
/// The distance is the largest multiple of the distance from slice to slice that is within a limit
/// of one or two pages, or that limit itself.
template <Scalar In>
RotationPlan plan_rotation(const HeadsView<const In>& x, RotarySlice slice) noexcept {
  if (x.empty()) return {};
  // In [B, H, S, D] the positions of a head are consecutive and the heads are far apart. A pass
  // then has few heads. If positions are few it has more heads, because each pass takes some 5 ns
  // to start.
  const bool is_head_major = x.seq > 1 && x.heads > 1 && x.seq_stride < x.head_stride;
  const bool has_gaps = slice.pairs * 2 < x.dim;
  RotationPlan plan{is_head_major ? (std::max)(Index{2}, 64 / x.seq) : Index{x.heads}, 0};
  if (!is_head_major && !has_gaps) return plan;
  constexpr Index size = sizeof(In), page = 4096;
  if (x.batch * x.seq * x.heads * x.dim * size < (Index{is_head_major ? 32 : 4} << 20)) return plan;
  const Index stride = x.heads == 1 || is_head_major ? x.seq_stride : x.head_stride;
  const Index max_distance = (has_gaps ? 2 * page : page) / size;
  plan.prefetch_distance =
      stride > 0 && stride < max_distance ? max_distance - max_distance % stride : max_distance;
  return plan;
}

/// Returns the kernel's argument for heads [h, h + heads) at positions [s, s + seq) of batch row b,
/// with pairs first .. first + count - 1.
template <class Pairing, Scalar In, Scalar Out>
POSENC_ALWAYS_INLINE RotationBlock<In, Out> rotation_block(const RotationOperand<In, Out>& x,
                                                           RotarySlice slice, Index b, Index s,
                                                           Index seq, Index h, Index heads,
                                                           Index first, Index count,
                                                           const CosSinRows<Compute<In>>& angles,
                                                           Index prefetch_distance) noexcept {
  const auto& [in, out] = x;
  const Index at = slice.offset + Pairing::first(first, slice.pairs);
  // Kernels advance once past the last row, and the stride of an axis with one element may be any
  // number.
  const auto kernel_stride = [](Index extent, Index stride) { return extent > 1 ? stride : 0; };
  return {.in = in.row(b, s, h) + at,
          .out = out.row(b, s, h) + at,
          .in_seq_stride = kernel_stride(seq, in.seq_stride),
          .in_head_stride = kernel_stride(heads, in.head_stride),
          .out_seq_stride = kernel_stride(seq, out.seq_stride),
          .out_head_stride = kernel_stride(heads, out.head_stride),
          .seq = seq,
          .heads = heads,
          .pair_stride = pairs_per_call<Pairing>(slice.pairs),
          .pairs = count,
          .angles = angles,
          .prefetch_distance = prefetch_distance};
}

/// Rotates tensors of one token by given angles, as rotate_tensors() does. A decoder rotates one
/// token in every layer, and the loop over blocks would take a tenth of the time.
///   cos, sin: m cos and m sin of all pairs of the slice
template <class Pairing, Scalar In, Scalar Out>
POSENC_ALWAYS_INLINE void rotate_token(ListView<RotationOperand<In, Out>> tensors,
                                       RotarySlice slice, const Compute<In>* cos,
                                       const Compute<In>* sin) noexcept {
  for_pair_chunks<Pairing>(slice.pairs, slice.pairs, [&](Index first, Index count) {
    const auto kernel = block_kernel<KernelPairing<Pairing>, In, tier::Best, Out>(count);
    const Index at = slice.offset + Pairing::first(first, slice.pairs);
    for (const auto& [in, out] : tensors) {
      if (in.heads == 0) continue;          // its data may be null
      const bool has_heads = in.heads > 1;  // the stride of a single head may be any number
      kernel.rotate_token(in.data + at, out.data + at, count, in.heads, cos + first, sin + first,
                          has_heads ? Index{in.head_stride} : 0,
                          has_heads ? Index{out.head_stride} : 0);
    }
  });
  for (const RotationOperand<In, Out>& x : tensors) {
    if (!share_data(x.in, x.out)) copy_unrotated(x, 0, 1, 0, 1, slice);
  }
}

/// Rotates tensors of the same batch, sequence and slice by the same angles, in blocks of at most
/// 16 positions and 128 pairs.
///   angles: angles(b, s, seq, first, count, cos, sin) returns m cos and m sin of a block as
///           CosSinRows: pointers to existing rows, or to those that it writes to cos and sin
///           [seq, count]. A block's angles serve all heads and tensors
///   shares_angles: the angles do not depend on the batch row, so they may be computed once for all
template <class Pairing, Device D, Scalar In, Scalar Out, class Angles>
POSENC_NOINLINE void rotate_tensors(const D& device, ListView<RotationOperand<In, Out>> tensors,
                                    RotarySlice slice, Direction direction, double attention_factor,
                                    bool shares_angles, const Angles& angles) {
  using C = Compute<In>;
  constexpr Index max_positions = 16;  // per block, so that its angles stay in L1
  constexpr auto capacity = static_cast<std::size_t>(max_positions * max_pairs_per_block);
  // Tensors differ only in heads. Empty tensors return at once, however long the other axes are.
  if (std::all_of(tensors.begin(), tensors.end(),
                  [](const RotationOperand<In, Out>& x) { return x.in.empty(); })) {
    return;
  }
  const HeadsView<const In>& shape = tensors[0].in;
  const double bytes = static_cast<double>(shape.heads * slice.pairs * 2) * sizeof(In);
  // Splitting batch rows as well recomputes shared angles for each thread, which pays only for
  // short sequences.
  const auto threads = static_cast<Index>(device.numThreads());
  const bool share =
      shares_angles && (threads == 1 || shape.batch == 1 || shape.seq >= max_positions * threads);
  const Index rows = share ? Index{shape.batch} : 1;  // batch rows that share one set of angles
  parallel_for(
      device, share ? Index{shape.seq} : shape.batch * shape.seq, bytes * static_cast<double>(rows),
      bytes / 16, [&](Index unit, Index unit_end) {
        alignas(64) C cos[capacity], sin[capacity];
        while (unit < unit_end) {
          const Index b = share ? 0 : unit / shape.seq, s = share ? unit : unit % shape.seq;
          const Index seq = (std::min)({max_positions, unit_end - unit, shape.seq - s});
          for_pair_chunks<Pairing>(slice.pairs, max_pairs_per_block, [&](Index first, Index count) {
            const auto rotate =
                block_kernel<KernelPairing<Pairing>, In, tier::Best, Out>(count).rotate;
            CosSinRows<C> block_angles = angles(b, s, seq, first, count, cos, sin);
            if (direction != Direction::Forward) {
              block_angles =
                  apply_direction(block_angles, direction, attention_factor, seq, count, cos, sin);
            }
            for (const RotationOperand<In, Out>& x : tensors) {
              const RotationPlan plan = plan_rotation(x.in, slice);
              for (Index row = b; row < b + rows; ++row) {
                for (Index h = 0; h < x.in.heads; h += plan.heads_per_pass) {
                  rotate(rotation_block<Pairing>(
                      x, slice, row, s, seq, h, (std::min)(plan.heads_per_pass, x.in.heads - h),
                      first, count, block_angles, plan.prefetch_distance));
                }
              }
            }
          });
          for (const RotationOperand<In, Out>& x : tensors) {
            if (!share_data(x.in, x.out)) copy_unrotated(x, b, rows, s, seq, slice);
          }
          unit += seq;
        }
      });
}

}  // namespace detail
POSENC_END
