// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/refusal.hpp>
#include <posenc/rotary/rotate.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>

// The calls that rotary encodings and their tables have in common, written once.
POSENC_BEGIN
namespace detail {

enum class RotaryCall { Rotate, RotateAll, RotateInto, Adjoint, Inverse };

constexpr Direction direction_of(RotaryCall call) noexcept {
  if (call == RotaryCall::Adjoint) return Direction::Adjoint;
  return call == RotaryCall::Inverse ? Direction::Inverse : Direction::Forward;
}

/// What messages call the five, in their order.
using RotaryCallNames = std::array<const char*, 5>;
constexpr const char* name_of(const RotaryCallNames& names, RotaryCall call) noexcept {
  return names[static_cast<std::size_t>(call)];
}

/// The calls of an encoding that treats queries and keys alike, each with a device and without. Self
/// has one function that does them all,
///   apply(call, device, tensors, positions), tensors an array of Rotated.
template <class Self>
class RotaryCalls {
 public:
  /// x <- m R x in place.
  template <Written T>
  void rotate(HeadsView<T> x, const Positions& positions) const {
    rotate(CallingThread(), x, positions);
  }
  /// The same on the threads of an Eigen device, split over batch and positions; the same bits. So
  /// everywhere below.
  template <class Device, Written T>
  void rotate(const Device& device, HeadsView<T> x, const Positions& positions) const {
    apply_to<T, 1>(self(), RotaryCall::Rotate, device, {{{x, x}}}, positions);
  }

  /// Rotates several tensors of the same batch and sequence in place, q and k say, with one set of
  /// angles.
  template <Written T, std::same_as<HeadsView<T>>... Views>
  void rotate_all(const Positions& positions, HeadsView<T> x, Views... others) const {
    rotate_all(CallingThread(), positions, x, others...);
  }
  template <class Device, Written T, std::same_as<HeadsView<T>>... Views>
  requires(!std::same_as<Device, Positions>) void rotate_all(const Device& device,
                                                             const Positions& positions,
                                                             HeadsView<T> x,
                                                             Views... others) const {
    apply_to<T, 1 + sizeof...(Views)>(self(), RotaryCall::RotateAll, device,
                                      {{{x, x}, {others, others}...}}, positions);
  }

  /// out <- m R x; out is x itself or shares no memory with it. Channels outside the rotary slice
  /// are copied.
  template <Written T>
  void rotate_into(HeadsView<const std::type_identity_t<T>> x, HeadsView<T> out,
                   const Positions& positions) const {
    rotate_into(CallingThread(), x, out, positions);
  }
  template <class Device, Written T>
  void rotate_into(const Device& device, HeadsView<const std::type_identity_t<T>> x,
                   HeadsView<T> out, const Positions& positions) const {
    apply_to<T, 1>(self(), RotaryCall::RotateInto, device, {{{x, out}}}, positions);
  }

  /// x <- m R^T x: the backward pass, gradient of the output in, gradient of the input out. Keeps
  /// m.
  template <Written T>
  void adjoint(HeadsView<T> x, const Positions& positions) const {
    adjoint(CallingThread(), x, positions);
  }
  template <class Device, Written T>
  void adjoint(const Device& device, HeadsView<T> x, const Positions& positions) const {
    apply_to<T, 1>(self(), RotaryCall::Adjoint, device, {{{x, x}}}, positions);
  }

  /// x <- R^T x / m: undoes rotate().
  template <Written T>
  void inverse(HeadsView<T> x, const Positions& positions) const {
    inverse(CallingThread(), x, positions);
  }
  template <class Device, Written T>
  void inverse(const Device& device, HeadsView<T> x, const Positions& positions) const {
    apply_to<T, 1>(self(), RotaryCall::Inverse, device, {{{x, x}}}, positions);
  }

  // The RotaryEncoding concept; queries and keys are treated alike.
  template <Written T>
  void rotate_queries(HeadsView<T> q, const Positions& positions) const {
    rotate(q, positions);
  }
  template <class Device, Written T>
  void rotate_queries(const Device& device, HeadsView<T> q, const Positions& positions) const {
    rotate(device, q, positions);
  }
  template <Written T>
  void rotate_keys(HeadsView<T> k, const Positions& positions) const {
    rotate(k, positions);
  }
  template <class Device, Written T>
  void rotate_keys(const Device& device, HeadsView<T> k, const Positions& positions) const {
    rotate(device, k, positions);
  }
  template <Written T>
  void adjoint_queries(HeadsView<T> grad_q, const Positions& positions) const {
    adjoint(grad_q, positions);
  }
  template <class Device, Written T>
  void adjoint_queries(const Device& device, HeadsView<T> grad_q,
                       const Positions& positions) const {
    adjoint(device, grad_q, positions);
  }
  template <Written T>
  void adjoint_keys(HeadsView<T> grad_k, const Positions& positions) const {
    adjoint(grad_k, positions);
  }
  template <class Device, Written T>
  void adjoint_keys(const Device& device, HeadsView<T> grad_k, const Positions& positions) const {
    adjoint(device, grad_k, positions);
  }

  // What no call above takes.
  template <class T = void>
  void rotate(Anything, Anything, Anything = 0) const {
    static_assert(never<T>, POSENC_DETAIL_ROTATION_RULE);
  }
  template <class T = void>
  void rotate_all(Anything, Anything, Anything = 0, Anything = 0, Anything = 0,
                  Anything = 0) const {
    static_assert(never<T>, POSENC_DETAIL_ROTATION_RULE);
  }
  template <class T = void>
  void rotate_into(Anything, Anything, Anything, Anything = 0) const {
    static_assert(never<T>, POSENC_DETAIL_ROTATION_RULE);
  }
  template <class T = void>
  void adjoint(Anything, Anything, Anything = 0) const {
    static_assert(never<T>, POSENC_DETAIL_ROTATION_RULE);
  }
  template <class T = void>
  void inverse(Anything, Anything, Anything = 0) const {
    static_assert(never<T>, POSENC_DETAIL_ROTATION_RULE);
  }

 protected:
  /// apply() of this encoding or of one that it holds.
  template <Written T, std::size_t Count, class Encoding, class Device>
  static void apply_to(const Encoding& encoding, RotaryCall call, const Device& device,
                       const std::array<Rotated<T>, Count>& tensors, const Positions& positions) {
    encoding.template apply<T, Count>(call, device, tensors, positions);
  }

 private:
  const Self& self() const noexcept { return static_cast<const Self&>(*this); }
};

template <class T, class Real>
struct CheckTable {
  static_assert(
      std::is_same_v<Compute<T>, Real>,
      "posenc: a RotationTable of float rotates float and 16-bit types, one of double rotates "
      "double: rope.table<Real>(positions)");
  static constexpr bool value = true;
};

/// Whether a table of Real rotates tensors of T; an error that says so where not.
template <class T, class Real>
concept FitsTable = CheckTable<T, Real>::value;

template <class Real>
struct CheckTableReal {
  static_assert(
      std::is_floating_point_v<Real>,
      "posenc: a RotationTable holds float, for tensors of float and 16-bit types, or double: "
      "rope.table<float>(positions)");
  static constexpr bool value = true;
  using Type = std::conditional_t<std::is_floating_point_v<Real>, Real, float>;
};

template <class Real>
concept TableReal = CheckTableReal<Real>::value && std::floating_point<Real>;

/// The calls of a table of cos and sin in Real: as above, without positions. Self has
///   apply(call, device, tensors).
template <class Self, std::floating_point Real>
class TableCalls {
 public:
  /// x <- m R x in place.
  ///   Shape:  x [B, S, H, D], B the table's or any where it has one row,
  ///           D >= rotary_offset + rotary_dim
  ///   Throws: ShapeError
  template <Written T>
  requires FitsTable<T, Real>
  void rotate(HeadsView<T> x) const { rotate(CallingThread(), x); }
  /// The same on the threads of an Eigen device, split over batch and positions; the same bits. So
  /// everywhere below.
  template <class Device, Written T>
  requires FitsTable<T, Real>
  void rotate(const Device& device, HeadsView<T> x) const {
    apply_to<T, 1>(self(), RotaryCall::Rotate, device, {{{x, x}}});
  }

  /// Rotates several tensors of the same batch and sequence in place, q and k say.
  template <Written T, std::same_as<HeadsView<T>>... Views>
  requires FitsTable<T, Real>
  void rotate_all(HeadsView<T> x, Views... others) const {
    rotate_all(CallingThread(), x, others...);
  }
  template <class Device, Written T, std::same_as<HeadsView<T>>... Views>
  requires(FitsTable<T, Real> && !std::same_as<Device, HeadsView<T>>) void rotate_all(
      const Device& device, HeadsView<T> x, Views... others) const {
    apply_to<T, 1 + sizeof...(Views)>(self(), RotaryCall::RotateAll, device,
                                      {{{x, x}, {others, others}...}});
  }

  /// out <- m R x; out is x itself or shares no memory with it. Channels outside the rotary slice
  /// are copied.
  template <Written T>
  requires FitsTable<T, Real>
  void rotate_into(HeadsView<const std::type_identity_t<T>> x, HeadsView<T> out) const {
    rotate_into(CallingThread(), x, out);
  }
  template <class Device, Written T>
  requires FitsTable<T, Real>
  void rotate_into(const Device& device, HeadsView<const std::type_identity_t<T>> x,
                   HeadsView<T> out) const {
    apply_to<T, 1>(self(), RotaryCall::RotateInto, device, {{{x, out}}});
  }

  /// x <- m R^T x: the backward pass, gradient of the output in, gradient of the input out. Keeps
  /// m.
  template <Written T>
  requires FitsTable<T, Real>
  void adjoint(HeadsView<T> x) const { adjoint(CallingThread(), x); }
  template <class Device, Written T>
  requires FitsTable<T, Real>
  void adjoint(const Device& device, HeadsView<T> x) const {
    apply_to<T, 1>(self(), RotaryCall::Adjoint, device, {{{x, x}}});
  }

  /// x <- R^T x / m: undoes rotate().
  template <Written T>
  requires FitsTable<T, Real>
  void inverse(HeadsView<T> x) const { inverse(CallingThread(), x); }
  template <class Device, Written T>
  requires FitsTable<T, Real>
  void inverse(const Device& device, HeadsView<T> x) const {
    apply_to<T, 1>(self(), RotaryCall::Inverse, device, {{{x, x}}});
  }

 protected:
  /// apply() of this table or of one that it holds.
  template <Written T, std::size_t Count, class Table, class Device>
  static void apply_to(const Table& table, RotaryCall call, const Device& device,
                       const std::array<Rotated<T>, Count>& tensors) {
    table.template apply<T, Count>(call, device, tensors);
  }

 private:
  const Self& self() const noexcept { return static_cast<const Self&>(*this); }
};

}  // namespace detail
POSENC_END
