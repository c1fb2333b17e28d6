// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/refusal.hpp>
#include <posenc/rotary/detail/check_rotation.hpp>
#include <posenc/rotary/detail/rotation_plan.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

#define POSENC_DETAIL_ROTATION_RULE                                                                \
  "posenc: rotations take (x, positions), tensors being HeadsViews (from bshd(tensor) and its "    \
  "like), all of one element type, positions a posenc::Positions; an Eigen device may come last; " \
  "rotate_all takes ({q, k}, positions)"

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

template <Scalar T, std::size_t Count>
constexpr std::array<RotationOperand<T>, Count> in_place_operands(
    const HeadsView<T> (&tensors)[Count]) noexcept {
  std::array<RotationOperand<T>, Count> operands;
  for (std::size_t i = 0; i < Count; ++i) operands[i] = {tensors[i], tensors[i]};
  return operands;
}

}  // namespace detail

/// The calls of an encoding that treats queries and keys alike. With an Eigen device the work is split over batch
/// and positions among its threads, with the same bits. Self has one function that does them all,
///   apply(call, device, tensors, positions), tensors an array of RotationOperand.
template <class Self>
class RotaryCalls {
 public:
  /// x <- m R x in place.
  template <detail::Written T, Device D = detail::CallingThread>
  void rotate(HeadsView<T> x, const Positions& positions, const D& device = {}) const {
    self().template apply<T, 1>(detail::RotaryCall::Rotate, device, {{{x, x}}}, positions);
  }

  /// Rotates several tensors of the same batch and sequence in place with one set of angles:
  /// rope.rotate_all({bshd(q), bshd(k)}, positions).
  template <detail::Written T, std::size_t Count, Device D = detail::CallingThread>
  void rotate_all(const HeadsView<T> (&tensors)[Count], const Positions& positions,
                  const D& device = {}) const {
    self().template apply<T, Count>(detail::RotaryCall::RotateAll, device,
                                    detail::in_place_operands(tensors), positions);
  }

  /// out <- m R x; out is x itself or shares no memory with it. Channels outside the rotary slice
  /// are copied.
  template <detail::Written T, Device D = detail::CallingThread>
  void rotate_into(HeadsView<const std::type_identity_t<T>> x, HeadsView<T> out,
                   const Positions& positions, const D& device = {}) const {
    self().template apply<T, 1>(detail::RotaryCall::RotateInto, device, {{{x, out}}}, positions);
  }

  /// x <- m R^T x: the backward pass, gradient of the output in, gradient of the input out. Keeps
  /// m.
  template <detail::Written T, Device D = detail::CallingThread>
  void adjoint(HeadsView<T> x, const Positions& positions, const D& device = {}) const {
    self().template apply<T, 1>(detail::RotaryCall::Adjoint, device, {{{x, x}}}, positions);
  }

  /// x <- R^T x / m: undoes rotate(). Also DeepSeek-V4's last step, where one tensor of turned keys is the
  /// values, too: attention's output, at the positions of its queries, so that each value is turned by its
  /// distance alone. There m is 1, and rotate() is the backward pass.
  ///   Source: huggingface/transformers, deepseek_v4/modeling_deepseek_v4.py (02356fe)
  template <detail::Written T, Device D = detail::CallingThread>
  void inverse(HeadsView<T> x, const Positions& positions, const D& device = {}) const {
    self().template apply<T, 1>(detail::RotaryCall::Inverse, device, {{{x, x}}}, positions);
  }

  // The concepts RotaryEncoding and DifferentiableRotary; queries and keys are treated alike.
  template <detail::Written T, Device D = detail::CallingThread>
  void rotate_queries(HeadsView<T> q, const Positions& positions, const D& device = {}) const {
    rotate(q, positions, device);
  }
  template <detail::Written T, Device D = detail::CallingThread>
  void rotate_keys(HeadsView<T> k, const Positions& positions, const D& device = {}) const {
    rotate(k, positions, device);
  }
  template <detail::Written T, Device D = detail::CallingThread>
  void adjoint_queries(HeadsView<T> grad_q, const Positions& positions,
                       const D& device = {}) const {
    adjoint(grad_q, positions, device);
  }
  template <detail::Written T, Device D = detail::CallingThread>
  void adjoint_keys(HeadsView<T> grad_k, const Positions& positions, const D& device = {}) const {
    adjoint(grad_k, positions, device);
  }

  // What no call above takes.
  template <class T = void>
  void rotate(detail::Anything, detail::Anything, detail::Anything = 0) const {
    static_assert(detail::never<T>, POSENC_DETAIL_ROTATION_RULE);
  }
  template <class T = void>
  void rotate_all(detail::AnythingBraced, detail::Anything, detail::Anything = 0) const {
    static_assert(detail::never<T>, POSENC_DETAIL_ROTATION_RULE);
  }
  template <class T = void>
  void rotate_all(detail::Anything, detail::Anything, detail::Anything = 0, detail::Anything = 0,
                  detail::Anything = 0, detail::Anything = 0) const {
    static_assert(detail::never<T>, POSENC_DETAIL_ROTATION_RULE);
  }
  template <class T = void>
  void rotate_into(detail::Anything, detail::Anything, detail::Anything,
                   detail::Anything = 0) const {
    static_assert(detail::never<T>, POSENC_DETAIL_ROTATION_RULE);
  }
  template <class T = void>
  void adjoint(detail::Anything, detail::Anything, detail::Anything = 0) const {
    static_assert(detail::never<T>, POSENC_DETAIL_ROTATION_RULE);
  }
  template <class T = void>
  void inverse(detail::Anything, detail::Anything, detail::Anything = 0) const {
    static_assert(detail::never<T>, POSENC_DETAIL_ROTATION_RULE);
  }

 protected:
  /// apply() of an encoding that this one holds.
  template <detail::Written T, std::size_t Count, class Encoding, Device D>
  static void apply_to(const Encoding& encoding, detail::RotaryCall call, const D& device,
                       const std::array<detail::RotationOperand<T>, Count>& tensors,
                       const Positions& positions) {
    encoding.template apply<T, Count>(call, device, tensors, positions);
  }

 private:
  const Self& self() const noexcept { return static_cast<const Self&>(*this); }
};

namespace detail {

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
inline constexpr bool is_table_real = std::is_same_v<Real, float> || std::is_same_v<Real, double>;

template <class Real>
struct CheckTableReal {
  static_assert(
      is_table_real<Real>,
      "posenc: a RotationTable holds float, for tensors of float and 16-bit types, or double: "
      "rope.table<float>(positions)");
  static constexpr bool value = true;
  using Type = std::conditional_t<is_table_real<Real>, Real, float>;
};

template <class Real>
concept TableReal = CheckTableReal<Real>::value && is_table_real<Real>;

}  // namespace detail

/// The calls of a table of cos and sin in Real: as RotaryCalls, without positions. Self has
///   apply(call, device, tensors).
template <class Self, std::floating_point Real>
class TableCalls {
 public:
  /// x <- m R x in place.
  ///   Shape:  x [B, S, H, D], B the table's or any where it has one row,
  ///           D >= rotary_offset + rotary_dim
  ///   Throws: ShapeError
  template <detail::Written T, Device D = detail::CallingThread>
  requires detail::FitsTable<T, Real>
  void rotate(HeadsView<T> x, const D& device = {}) const {
    self().template apply<T, 1>(detail::RotaryCall::Rotate, device, {{{x, x}}});
  }

  /// Rotates several tensors of the same batch and sequence in place:
  /// table.rotate_all({bshd(q), bshd(k)}).
  template <detail::Written T, std::size_t Count, Device D = detail::CallingThread>
  requires detail::FitsTable<T, Real>
  void rotate_all(const HeadsView<T> (&tensors)[Count], const D& device = {}) const {
    self().template apply<T, Count>(detail::RotaryCall::RotateAll, device,
                                    detail::in_place_operands(tensors));
  }

  /// out <- m R x; out is x itself or shares no memory with it. Channels outside the rotary slice
  /// are copied.
  template <detail::Written T, Device D = detail::CallingThread>
  requires detail::FitsTable<T, Real>
  void rotate_into(HeadsView<const std::type_identity_t<T>> x, HeadsView<T> out,
                   const D& device = {}) const {
    self().template apply<T, 1>(detail::RotaryCall::RotateInto, device, {{{x, out}}});
  }

  /// x <- m R^T x: the backward pass, gradient of the output in, gradient of the input out. Keeps
  /// m.
  template <detail::Written T, Device D = detail::CallingThread>
  requires detail::FitsTable<T, Real>
  void adjoint(HeadsView<T> x, const D& device = {}) const {
    self().template apply<T, 1>(detail::RotaryCall::Adjoint, device, {{{x, x}}});
  }

  /// x <- R^T x / m: undoes rotate().
  template <detail::Written T, Device D = detail::CallingThread>
  requires detail::FitsTable<T, Real>
  void inverse(HeadsView<T> x, const D& device = {}) const {
    self().template apply<T, 1>(detail::RotaryCall::Inverse, device, {{{x, x}}});
  }

 protected:
  /// apply() of this table or of one that it holds.
  template <detail::Written T, std::size_t Count, class Table, Device D>
  static void apply_to(const Table& table, detail::RotaryCall call, const D& device,
                       const std::array<detail::RotationOperand<T>, Count>& tensors) {
    table.template apply<T, Count>(call, device, tensors);
  }

 private:
  const Self& self() const noexcept { return static_cast<const Self&>(*this); }
};

POSENC_END
