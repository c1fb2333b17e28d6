// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/oscillator.hpp>
#include <posenc/rotary/pair_axes.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/rotary/rotate.hpp>
#include <posenc/rotary/rotation_table.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

POSENC_BEGIN

/// Rotary position embedding (RoFormer, arXiv 2104.09864, equations 14 and 34): pair i of a query
/// or key at position p is turned by p * inv_freq[i].
///
///   y0 = m (cos x0 - sin x1),   y1 = m (sin x0 + cos x1)
///
/// A small immutable value: its frequencies and where its channels lie. It remembers no earlier
/// call; scaling rules that depend on the length give a new Rope. All calls may run on any number
/// of threads at once.
///   Pairing:  Interleaved or HalfRotate
///   Shapes:   x [B, S, H, D]; channels [rotary_offset, rotary_offset + rotary_dim) are turned, the
///             others keep their bits; positions [B or 1, S] on as many axes as axes() has, one
///             if it is not given
///   Types:    float, double, half, bfloat16; arithmetic in float (double for double), rounded once
///   Throws:   ShapeError; PositionError where |position * inv_freq| exceeds 2^50, with the
///             farthest position of all axes. Nothing is written then
///   Accuracy: cos and sin as Oscillator says, at any position; then at most 2 ulp of the pair's norm
///             (inverse() without fma, where m is not 1: 3)
///   Cost:     one pass over x; angles once a position for all heads and tensors. No allocation
template <class Pairing>
class Rope {
 public:
  /// From frequencies; rotary_offset is the first rotary channel of a head (DeepSeek puts its
  /// rotary part last), axes tells which axis of the positions turns each pair, policy how angles
  /// are rounded.
  ///   Throws: ConfigError.
  explicit Rope(Frequencies frequencies, Index rotary_offset = 0, PairAxes axes = {},
                AnglePolicy policy = AnglePolicy::Exact)
      : frequencies_(std::move(frequencies)),
        oscillator_(frequencies_.exact_inv_freq(), policy),
        axes_(std::move(axes)),
        slice_{rotary_offset, frequencies_.pairs()} {
    detail::check_slice_and_factor("Rope", slice_, frequencies_.attention_factor());
    detail::check_pair_axes("Rope", axes_, slice_.pairs);
  }

  /// From a scaling rule: Unscaled, YarnScaling, Llama3Scaling, ... or a user's own. Rules that
  /// depend on the length are evaluated first: Rope(frequencies(rule, length)).
  template <FrequencyRule Rule>
  explicit Rope(const Rule& rule, Index rotary_offset = 0, PairAxes axes = {},
                AnglePolicy policy = AnglePolicy::Exact)
      : Rope(detail::evaluate(rule), rotary_offset, std::move(axes), policy) {}

  /// From frequencies that belong to their axes, as makers of vision encodings give them.
  explicit Rope(AxialFrequencies axial, Index rotary_offset = 0,
                AnglePolicy policy = AnglePolicy::Exact)
      : Rope(std::move(axial.frequencies), rotary_offset, std::move(axial.axes), policy) {}

  /// x <- m R x in place.
  template <Scalar T>
  void rotate(HeadsView<T> x, const Positions& positions) const {
    rotate(detail::CallingThread(), x, positions);
  }
  /// The same on the threads of an Eigen device, split over batch and positions; the same bits.
  template <class Device, Scalar T>
  void rotate(const Device& device, HeadsView<T> x, const Positions& positions) const {
    apply<T>("Rope::rotate", device, detail::Direction::Forward, {{{x, x}}}, positions);
  }

  /// Rotates several tensors of the same batch and sequence in place, q and k say, with one set of
  /// angles.
  template <Scalar T, std::same_as<HeadsView<T>>... Views>
  void rotate_all(const Positions& positions, HeadsView<T> x, Views... others) const {
    rotate_all(detail::CallingThread(), positions, x, others...);
  }
  template <class Device, Scalar T, std::same_as<HeadsView<T>>... Views>
  requires(!std::same_as<Device, Positions>) void rotate_all(const Device& device,
                                                             const Positions& positions,
                                                             HeadsView<T> x,
                                                             Views... others) const {
    apply<T, 1 + sizeof...(Views)>("Rope::rotate_all", device, detail::Direction::Forward,
                                   {{{x, x}, {others, others}...}}, positions);
  }

  /// out <- m R x; out is x itself or shares no memory with it. Channels outside the rotary slice
  /// are copied.
  template <Scalar T>
  void rotate_into(HeadsView<const std::type_identity_t<T>> x, HeadsView<T> out,
                   const Positions& positions) const {
    rotate_into(detail::CallingThread(), x, out, positions);
  }
  template <class Device, Scalar T>
  void rotate_into(const Device& device, HeadsView<const std::type_identity_t<T>> x,
                   HeadsView<T> out, const Positions& positions) const {
    apply<T>("Rope::rotate_into", device, detail::Direction::Forward, {{{x, out}}}, positions);
  }

  /// x <- m R^T x: the backward pass, gradient of the output in, gradient of the input out. Keeps
  /// m.
  template <Scalar T>
  void adjoint(HeadsView<T> x, const Positions& positions) const {
    adjoint(detail::CallingThread(), x, positions);
  }
  template <class Device, Scalar T>
  void adjoint(const Device& device, HeadsView<T> x, const Positions& positions) const {
    apply<T>("Rope::adjoint", device, detail::Direction::Adjoint, {{{x, x}}}, positions);
  }

  /// x <- R^T x / m: undoes rotate().
  template <Scalar T>
  void inverse(HeadsView<T> x, const Positions& positions) const {
    inverse(detail::CallingThread(), x, positions);
  }
  template <class Device, Scalar T>
  void inverse(const Device& device, HeadsView<T> x, const Positions& positions) const {
    apply<T>("Rope::inverse", device, detail::Direction::Inverse, {{{x, x}}}, positions);
  }

  // The RotaryEncoding concept; queries and keys are treated alike.
  template <Scalar T>
  void rotate_queries(HeadsView<T> q, const Positions& positions) const {
    rotate(q, positions);
  }
  template <class Device, Scalar T>
  void rotate_queries(const Device& device, HeadsView<T> q, const Positions& positions) const {
    rotate(device, q, positions);
  }
  template <Scalar T>
  void rotate_keys(HeadsView<T> k, const Positions& positions) const {
    rotate(k, positions);
  }
  template <class Device, Scalar T>
  void rotate_keys(const Device& device, HeadsView<T> k, const Positions& positions) const {
    rotate(device, k, positions);
  }
  template <Scalar T>
  void adjoint_queries(HeadsView<T> grad_q, const Positions& positions) const {
    adjoint(grad_q, positions);
  }
  template <Scalar T>
  void adjoint_keys(HeadsView<T> grad_k, const Positions& positions) const {
    adjoint(grad_k, positions);
  }
  double softmax_scale_multiplier() const noexcept {
    return frequencies_.softmax_scale_multiplier();
  }

  /// cos and sin for these positions, to be shared by q, k, all layers and all threads of a forward
  /// pass.
  template <std::floating_point Real>
  RotationTable<Pairing, Real> table(const Positions& positions) const {
    constexpr auto function = "Rope::table";
    detail::check_axes(function, positions, axes_.axis_count());
    detail::check_reach(function, oscillator_, positions);
    RotationTable<Pairing, Real> table(function, positions.batch(), positions.count(), slice_,
                                       frequencies_.attention_factor());
    table.fill([&](Index b, Index row, Index count, Real* cos, Real* sin) {
      fill(positions, b, row, count, 0, slice_.pairs, cos, sin);
    });
    return table;
  }

  const Frequencies& frequencies() const noexcept { return frequencies_; }
  Index rotary_dim() const noexcept { return frequencies_.rotary_dim(); }
  Index rotary_offset() const noexcept { return slice_.offset; }
  AnglePolicy angle_policy() const noexcept { return oscillator_.policy(); }
  const PairAxes& axes() const noexcept { return axes_; }
  /// How many axes the positions must have.
  Index axis_count() const noexcept { return axes_.axis_count(); }
  /// What turns positions into cos and sin, without the attention factor.
  const Oscillator& oscillator() const noexcept { return oscillator_; }

 private:
  /// cos and sin [seq, count] of pairs first .. first + count - 1 at positions s .. s + seq - 1.
  template <std::floating_point Real>
  void fill(const Positions& positions, Index b, Index s, Index seq, Index first, Index count,
            Real* cos, Real* sin) const noexcept {
    for (Index i = 0; i < seq; ++i) {
      detail::axial_row(
          oscillator_, axes_, [&](Index axis) { return positions.at(b, s + i, axis); }, first,
          count, frequencies_.attention_factor(), cos + i * count, sin + i * count);
    }
  }

  template <Scalar T, std::size_t Count = 1, class Device>
  void apply(const char* function, const Device& device, detail::Direction direction,
             const std::array<detail::Rotated<T>, Count>& tensors,
             const Positions& positions) const {
    for (const detail::Rotated<T>& x : tensors) {
      detail::check_rotation<T>(function, x.in, x.out, slice_);
      detail::check_positions(function, positions, x.in.batch, x.in.seq, axes_.axis_count(),
                              x.in.extents());
      detail::check_same_tokens(function, tensors[0].in, x.in);
    }
    detail::check_reach(function, oscillator_, positions);
    using C = Compute<T>;
    detail::rotate_tensors<Pairing, Device, T>(
        device, tensors, slice_, direction, frequencies_.attention_factor(), positions.batch() == 1,
        [&](Index b, Index s, Index seq, Index first, Index count, C* cos, C* sin) {
          fill(positions, b, s, seq, first, count, cos, sin);
          return detail::AngleRows<C>{cos, sin, count};
        });
  }

  Frequencies frequencies_;
  Oscillator oscillator_;
  PairAxes axes_;
  detail::RotarySlice slice_;
};

POSENC_END
