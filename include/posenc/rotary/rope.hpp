// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/compiled.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/rotary/detail/angle_gradient.hpp>
#include <posenc/rotary/detail/check_rotation.hpp>
#include <posenc/rotary/detail/rotate_tensors.hpp>
#include <posenc/rotary/detail/rotation_kernels.hpp>
#include <posenc/rotary/pair_axes.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/rotary/rotary_calls.hpp>
#include <posenc/rotary/rotation_table.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/check_positions.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

POSENC_BEGIN

class AnyRope;
template <class Pairing>
class Rope;

namespace detail {

/// Returns the oscillator of a rope, which computes cos and sin without the attention factor.
template <class Pairing>
const Oscillator& oscillator_of(const Rope<Pairing>& rope) noexcept {
  return rope.oscillator_;
}

/// Checks a view that receives cos or sin of `pairs` pairs at each position.
///   Throws: ShapeError
template <class Real>
void check_table_output(const char* function, const char* name, const EmbeddingsView<Real>& x,
                        const Positions& positions, Index pairs) {
  check_extents(function, name, x);
  if (x.batch != positions.batch() || x.seq != positions.count() || x.dim != pairs) {
    fail<ShapeError>(function, name, " ", x.extents(), " must be [", positions.batch(), ", ",
                     positions.count(), ", ", pairs,
                     "]: batch rows and count of the positions, "
                     "and the rope's pairs");
  }
  check_output(function, name, x);
}

/// In checked builds, throws ShapeError if the views that receive cos and sin share memory.
template <class Real>
void check_tables_are_disjoint([[maybe_unused]] const char* function,
                               [[maybe_unused]] const EmbeddingsView<Real>& cos,
                               [[maybe_unused]] const EmbeddingsView<Real>& sin) {
#if POSENC_CHECKED
  if (!cos.empty() &&
      rows_overlap(split_heads<const Real>(cos, 1), split_heads<const Real>(sin, 1))) {
    fail<ShapeError>(function, "cos and sin must not share memory; cos is ", cos.extents());
  }
#endif
}

}  // namespace detail

/// Rotary position embedding (RoFormer, arXiv 2104.09864, equations 14 and 34): rotates pair i of a
/// query or key at position p by the angle p * inv_freq[i].
///
///   y0 = m (cos x0 - sin x1),   y1 = m (sin x0 + cos x1)
///
/// A small immutable value: its frequencies and the location of its channels. It has no cache. A
/// scaling rule that depends on the length gives a new Rope for each length. All calls may run on
/// any number of threads at once.
///
/// Pairing is Interleaved or HalfRotate. The calls are those of RotaryCalls: rotate, rotate_all,
/// rotate_into, adjoint, inverse and those of RotaryEncoding. An Eigen device may be their last
/// argument.
///   Shapes:   x [B, S, H, D]; channels [rotary_offset, rotary_offset + rotary_dim) are rotated,
///             the others are unchanged; positions [B or 1, S] on as many axes as axes() has, by
///             default one
///   Types:    float, double, half, bfloat16; arithmetic in float (double for double), rounded once
///   Throws:   ShapeError; PositionError if |position * inv_freq| exceeds 2^50 for the largest
///             |position| of all axes, or for positions of a kind that axes() does not accept.
///             Nothing is written then
///   Accuracy: cos and sin have the errors that AnglePolicy states, at every position up to that
///             limit. The rotation adds at most 2 ulp of the pair's norm (inverse()
///             without fma, if m is not 1: 3)
///   Cost:     one pass over x; angles once per position for all heads and tensors. No allocation
template <class Pairing = detail::NoPairing>
class Rope : public RotaryCalls<Rope<Pairing>> {
  static_assert(detail::is_pairing<Pairing>, POSENC_DETAIL_PAIRING_RULE);

 public:
  /// Copies the rope. Moving copies, too, because a rope that was moved from would report pairs
  /// that it does not have.
  Rope(const Rope&) = default;
  /// Copies the rope.
  Rope& operator=(const Rope&) = default;

  /// Constructs a rope from frequencies. rotary_offset is the first rotary channel of a head
  /// (DeepSeek's rotary channels are the last ones). axes names the axis of the positions that
  /// rotates each pair. policy is the precision of angles.
  ///   Throws: ConfigError
  explicit Rope(Frequencies frequencies, Index rotary_offset = 0, PairAxes axes = {},
                AnglePolicy policy = AnglePolicy::Exact)
      : frequencies_(std::move(frequencies)),
        oscillator_(detail::exact_inv_freq(frequencies_), policy, "Rope"),
        axes_(std::move(axes)),
        slice_{rotary_offset, frequencies_.pairs()} {
    detail::check_slice_and_factor("Rope", slice_, frequencies_.attention_factor());
    detail::check_pair_axes("Rope", axes_, slice_.pairs);
  }

  /// Constructs a rope from a scaling rule: Unscaled, YarnScaling, Llama3Scaling, ... or a
  /// user-defined one. A rule that depends on the length must be evaluated first:
  /// Rope(frequencies(rule, length)).
  ///   Throws: ConfigError
  template <class Rule>
  explicit Rope(const Rule& rule, Index rotary_offset = 0, PairAxes axes = {},
                AnglePolicy policy = AnglePolicy::Exact)
      : Rope(detail::evaluate(rule), rotary_offset, std::move(axes), policy) {}

  /// Constructs a rope from frequencies with a table of their axes, as for vision encodings.
  ///   Throws: ConfigError, also if they are of a model whose weights have another pairing
  explicit Rope(AxialFrequencies axial, Index rotary_offset = 0,
                AnglePolicy policy = AnglePolicy::Exact)
      : Rope(std::move(axial.frequencies), rotary_offset, std::move(axial.axes), policy) {
    if constexpr (std::is_same_v<Pairing, Interleaved>) {
      detail::check_pairing_of_model("Rope", axial.pairing, PairingKind::Interleaved);
    } else if constexpr (std::is_same_v<Pairing, HalfRotate>) {
      detail::check_pairing_of_model("Rope", axial.pairing, PairingKind::HalfRotate);
    }
  }

  /// Returns the factor for the softmax scale of attention.
  double softmax_scale_multiplier() const noexcept {
    return frequencies_.softmax_scale_multiplier();
  }

  /// Returns cos and sin for these positions, to be shared by q, k, all layers and all threads of a
  /// forward pass.
  template <detail::TableReal Real, Device D = detail::CallingThread>
  RotationTable<Pairing, typename detail::CheckTableReal<Real>::Type> table(
      const Positions& positions, const D& device = {}) const {
    constexpr auto function = "Rope::table";
    check_table_positions(function, positions);
    RotationTable<Pairing, Real> table(function, positions.batch(), positions.count(), slice_,
                                       frequencies_.attention_factor());
    table.fill(device, [&](Index b, Index row, Index count, Real* cos, Real* sin) {
      compute_cos_sin(positions, b, row, count, 0, slice_.pairs, cos, sin);
    });
    return table;
  }

  /// Writes cos and sin for these positions, the numbers of table(), to memory of the caller. If
  /// many positions are computed again and again, this saves the allocation of a table and its page
  /// faults.
  ///   Shapes:   cos, sin [positions.batch(), positions.count(), rotary_dim / 2]
  ///   Types:    float or double; m cos and m sin, rounded once
  ///   Aliasing: cos and sin must not share memory; rows of one may lie between those of the other
  ///   Throws:   ShapeError, PositionError, before anything is written
  template <detail::TableReal Real, Device D = detail::CallingThread>
  void table_into(const Positions& positions, EmbeddingsView<Real> cos,
                  EmbeddingsView<std::type_identity_t<Real>> sin, const D& device = {}) const {
    constexpr auto function = "Rope::table_into";
    check_table_positions(function, positions);
    detail::check_table_output(function, "cos", cos, positions, slice_.pairs);
    detail::check_table_output(function, "sin", sin, positions, slice_.pairs);
    detail::check_tables_are_disjoint<Real>(function, cos, sin);
    if (cos.empty()) return;  // positions may be any number then
    const Index seq = positions.count();
    const double bytes = static_cast<double>(slice_.pairs * Index{2 * sizeof(Real)});
    detail::parallel_for(
        device, positions.batch() * seq, bytes, 2 * bytes, [&](Index unit, Index unit_end) {
          for (; unit < unit_end; ++unit) {
            const Index b = unit / seq, s = unit % seq;
            compute_cos_sin(positions, b, s, 1, 0, slice_.pairs, cos.row(b, s), sin.row(b, s));
          }
        });
  }

  /// Returns the frequencies of the pairs.
  const Frequencies& frequencies() const noexcept { return frequencies_; }
  /// Returns the number of rotated channels of a head.
  Index rotary_dim() const noexcept { return frequencies_.rotary_dim(); }
  /// Returns the first rotated channel of a head.
  Index rotary_offset() const noexcept { return slice_.offset; }
  /// Returns the precision of the angles.
  AnglePolicy angle_policy() const noexcept { return oscillator_.policy(); }
  /// Returns the table that names the axis of each pair.
  const PairAxes& axes() const noexcept { return axes_; }
  /// Returns the number of axes that the positions must have.
  Index axis_count() const noexcept { return axes_.axis_count(); }

  /// Returns zeros of the size that accumulate_frequency_gradient() adds to: [rotary_dim / 2].
  std::vector<double> zero_frequency_gradient() const {
    return std::vector<double>(static_cast<std::size_t>(slice_.pairs));
  }

 private:
  template <class>
  friend class RotaryCalls;
  friend class AnyRope;
  friend const detail::Oscillator& detail::oscillator_of<Pairing>(const Rope& rope) noexcept;

  static constexpr detail::RotaryCallNames names = detail::rope_call_names;

  void check_table_positions(const char* function, const Positions& positions) const {
    detail::check_axes(function, positions, axes_.axis_count());
    detail::check_kind(function, positions, axes_.kind());
    detail::check_max_angle(function, oscillator_, positions);
  }

  /// Computes m cos and m sin [seq, count] of pairs first .. first + count - 1 at positions s .. s
  /// + seq - 1.
  template <std::floating_point Real>
  void compute_cos_sin(const Positions& positions, Index b, Index s, Index seq, Index first,
                       Index count, Real* cos, Real* sin) const noexcept {
    detail::compute_cos_sin_rows(oscillator_, axes_, positions, b, s, seq, first, count,
                                 frequencies_.attention_factor(), cos, sin);
  }

  template <Scalar In, Scalar Out, Device D>
  void apply(const char* function, detail::Direction direction, const D& device,
             ListView<detail::RotationOperand<In, Out>> tensors, const Positions& positions) const;

  Frequencies frequencies_;
  detail::Oscillator oscillator_;
  PairAxes axes_;
  detail::RotarySlice slice_;
};

// Defined outside of the class, so that `extern template` can stop compilers from compiling it:
// they compile functions that are defined in a class, because these are inline.
template <class Pairing>
template <Scalar In, Scalar Out, Device D>
void Rope<Pairing>::apply(const char* function, detail::Direction direction, const D& device,
                          ListView<detail::RotationOperand<In, Out>> tensors,
                          const Positions& positions) const {
  const HeadsView<const In>& shape = tensors[0].in;
  for (const detail::RotationOperand<In, Out>& x : tensors) {
    detail::check_rotation(function, x, slice_);
    detail::check_positions(function, positions, x.in.batch, x.in.seq, axes_.axis_count(),
                            x.in.extents());
  }
  detail::check_same_tokens(function, tensors);
  detail::check_kind(function, positions, axes_.kind());
  detail::check_max_angle(function, oscillator_, positions);
  using C = Compute<In>;
  constexpr Index max_pairs = detail::max_pairs_per_block;
  if (shape.batch == 1 && shape.seq == 1 && direction == detail::Direction::Forward &&
      slice_.pairs <= max_pairs) {
    alignas(64) C cos[static_cast<std::size_t>(max_pairs)];
    alignas(64) C sin[static_cast<std::size_t>(max_pairs)];
    compute_cos_sin(positions, 0, 0, 1, 0, slice_.pairs, &cos[0], &sin[0]);
    detail::rotate_token<Pairing>(tensors, slice_, &cos[0], &sin[0]);
    return;
  }
  detail::rotate_tensors<Pairing>(
      device, tensors, slice_, direction, frequencies_.attention_factor(), positions.batch() == 1,
      [&](Index b, Index s, Index seq, Index first, Index count, C* cos, C* sin) {
        compute_cos_sin(positions, b, s, seq, first, count, cos, sin);
        return detail::CosSinRows<C>{cos, sin, count};
      });
}

/// Adds the gradient of the frequencies: grad_inv_freq[i] += sum of p (dy1 y0 - dy0 y1) over batch
/// rows, positions and heads. y is the result of rope.rotate(), and grad_y is the gradient of the
/// loss with respect to y. p is the position on the pair's axis. Call it for queries and for keys.
///   Shapes: y, grad_y [B, S, H, D]; positions [B or 1, S]; grad_inv_freq [rotary_dim / 2]
///   Types:  sums in double, in the order b, s, h, also on the threads of a device
///   Throws: ShapeError, before anything is added
template <class Pairing, class T, Device D = detail::CallingThread>
requires Scalar<std::remove_const_t<T>>
void accumulate_frequency_gradient(const Rope<Pairing>& rope,
                                   HeadsView<const std::remove_const_t<T>> y, HeadsView<T> grad_y,
                                   const Positions& positions, std::span<double> grad_inv_freq,
                                   const D& device = {}) {
  using Element = std::remove_const_t<T>;
  const detail::RotarySlice slice{rope.rotary_offset(), rope.rotary_dim() / 2};
  detail::check_frequency_gradient<Element>(
      "accumulate_frequency_gradient", y, grad_y, slice, positions, rope.axis_count(),
      static_cast<std::size_t>(slice.pairs), grad_inv_freq.size());
  detail::check_kind("accumulate_frequency_gradient", positions, rope.axes().kind());
  detail::for_each_angle_gradient<Pairing, Element>(
      device, y, grad_y, slice, [&](Index b, Index s, Index, Index i, double gradient) {
        double& sum = grad_inv_freq[static_cast<std::size_t>(i)];
        sum = mul_add(positions.at(b, s, rope.axes().axis(i)), gradient, sum);
      });
}

#define POSENC_DETAIL_ROPE(EXTERN, PAIRING, T)                      \
  EXTERN template void Rope<PAIRING>::apply<T, T>(                  \
      const char*, detail::Direction, const detail::CallingThread&, \
      ListView<detail::RotationOperand<T, T>>, const Positions&) const;
#define POSENC_DETAIL_ROPES(EXTERN, T)       \
  POSENC_DETAIL_ROPE(EXTERN, Interleaved, T) \
  POSENC_DETAIL_ROPE(EXTERN, HalfRotate, T)
POSENC_DETAIL_DECLARE_COMPILED(POSENC_DETAIL_ROPES)

POSENC_END
