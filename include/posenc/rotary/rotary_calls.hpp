// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/call_diagnostics.hpp>
#include <posenc/rotary/detail/check_rotation.hpp>
#include <posenc/rotary/detail/rotate_tensors.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>

// The calls that rotary encodings and their tables share.
POSENC_BEGIN
namespace detail {

POSENC_DETAIL_CALL_RULE(
    RotationRule,
    "posenc: rotations take (x, positions), tensors being HeadsViews (from bshd(tensor) and its "
    "like), all of one element type, or in rotate_into of float and 16-bit types, positions a "
    "posenc::Positions; an Eigen device may come last; rotate_all takes ({q, k}, positions)");

/// The names of the calls of an encoding in error messages.
struct RotaryCallNames {
  const char *rotate, *rotate_all, *rotate_into, *adjoint, *inverse;
};
/// Names of the calls of a Rope; those of an AnyRope, which calls one, are the same.
inline constexpr RotaryCallNames rope_call_names{.rotate = "Rope::rotate",
                                                 .rotate_all = "Rope::rotate_all",
                                                 .rotate_into = "Rope::rotate_into",
                                                 .adjoint = "Rope::adjoint",
                                                 .inverse = "Rope::inverse"};
/// Names of the calls of a RotationTable and of an AnyRotationTable.
inline constexpr RotaryCallNames table_call_names{.rotate = "RotationTable::rotate",
                                                  .rotate_all = "RotationTable::rotate_all",
                                                  .rotate_into = "RotationTable::rotate_into",
                                                  .adjoint = "RotationTable::adjoint",
                                                  .inverse = "RotationTable::inverse"};

template <Scalar T, std::size_t Count>
constexpr std::array<RotationOperand<T>, Count> in_place_operands(
    const HeadsView<T> (&tensors)[Count]) noexcept {
  std::array<RotationOperand<T>, Count> operands;
  for (std::size_t i = 0; i < Count; ++i) operands[i] = in_place_operand(tensors[i]);
  return operands;
}

}  // namespace detail

/// The calls of an encoding that treats queries and keys alike. With an Eigen device, batch rows
/// and positions are distributed over its threads, with bit-identical results. Self must have
/// `names`, a RotaryCallNames, and one function that implements all calls,
///   apply<In, Out>(name, direction, device, tensors, positions),
/// where tensors are RotationOperand<In, Out>.
template <class Self>
class RotaryCalls {
 public:
  /// Computes x <- m R x in place.
  template <detail::Writable T, Device D = detail::CallingThread>
  void rotate(HeadsView<T> x, const Positions& positions, const D& device = {}) const {
    self().template apply<T, T>(Self::names.rotate, detail::Direction::Forward, device,
                                {detail::in_place_operand(x)}, positions);
  }

  /// Rotates several tensors of the same batch and sequence in place with one set of angles:
  /// rope.rotate_all({bshd(q), bshd(k)}, positions).
  template <detail::Writable T, std::size_t Count, Device D = detail::CallingThread>
  void rotate_all(const HeadsView<T> (&tensors)[Count], const Positions& positions,
                  const D& device = {}) const {
    self().template apply<T, T>(Self::names.rotate_all, detail::Direction::Forward, device,
                                detail::in_place_operands(tensors), positions);
  }

  /// Computes out <- m R x. `out` must be x itself or share no memory with it. Channels outside the
  /// rotary slice are copied.
  template <detail::Writable T, Device D = detail::CallingThread>
  void rotate_into(HeadsView<const std::type_identity_t<T>> x, HeadsView<T> out,
                   const Positions& positions, const D& device = {}) const {
    self().template apply<T, T>(Self::names.rotate_into, detail::Direction::Forward, device,
                                {{x, out}}, positions);
  }

  /// Overload that stores another element type: float queries or keys into 16-bit memory, or back.
  /// Results are rounded once to nearest even, with the bits of rotate() in Compute<T> and a
  /// conversion. x and out must share no memory. Channels outside the rotary slice are converted.
  ///   Types: x and out both of float and 16-bit types
  template <class T, class In, Device D = detail::CallingThread>
  requires detail::Converts<In, T>
  void rotate_into(HeadsView<In> x, HeadsView<T> out, const Positions& positions,
                   const D& device = {}) const {
    self().template apply<std::remove_const_t<In>, T>(
        Self::names.rotate_into, detail::Direction::Forward, device, {{x, out}}, positions);
  }

  /// Computes x <- m R^T x in place, the backward pass: the gradient of the output becomes the
  /// gradient of the input. The factor m is kept.
  template <detail::Writable T, Device D = detail::CallingThread>
  void adjoint(HeadsView<T> x, const Positions& positions, const D& device = {}) const {
    self().template apply<T, T>(Self::names.adjoint, detail::Direction::Adjoint, device,
                                {detail::in_place_operand(x)}, positions);
  }

  /// Computes x <- R^T x / m in place, which undoes rotate().
  /// It is also the last step of DeepSeek-V4's attention, in which one tensor of rotated keys also
  /// serves as the values. The step is applied to attention's output at the positions of its
  /// queries, so that each value is rotated only by its distance. There m is 1, and rotate() is the
  /// backward pass.
  ///   Source: huggingface/transformers, deepseek_v4/modeling_deepseek_v4.py (02356fe)
  template <detail::Writable T, Device D = detail::CallingThread>
  void inverse(HeadsView<T> x, const Positions& positions, const D& device = {}) const {
    self().template apply<T, T>(Self::names.inverse, detail::Direction::Inverse, device,
                                {detail::in_place_operand(x)}, positions);
  }

  /// Computes q <- m R q in place, as rotate() does. RotaryEncoding requires it.
  template <detail::Writable T, Device D = detail::CallingThread>
  void rotate_queries(HeadsView<T> q, const Positions& positions, const D& device = {}) const {
    rotate(q, positions, device);
  }
  /// Computes k <- m R k in place, as rotate() does. RotaryEncoding requires it.
  template <detail::Writable T, Device D = detail::CallingThread>
  void rotate_keys(HeadsView<T> k, const Positions& positions, const D& device = {}) const {
    rotate(k, positions, device);
  }
  /// Computes grad_q <- m R^T grad_q in place, as adjoint() does. DifferentiableRotary requires it.
  template <detail::Writable T, Device D = detail::CallingThread>
  void adjoint_queries(HeadsView<T> grad_q, const Positions& positions,
                       const D& device = {}) const {
    adjoint(grad_q, positions, device);
  }
  /// Computes grad_k <- m R^T grad_k in place, as adjoint() does. DifferentiableRotary requires it.
  template <detail::Writable T, Device D = detail::CallingThread>
  void adjoint_keys(HeadsView<T> grad_k, const Positions& positions, const D& device = {}) const {
    adjoint(grad_k, positions, device);
  }

  /// Rejects other arguments at compile time, with a message that states the rule.
  template <class...>
  void rotate(detail::RefusedCall<detail::RotationRule>, ...) const;
  /// Rejects other arguments at compile time, with a message that states the rule.
  template <class...>
  void rotate_all(detail::RefusedCall<detail::RotationRule>, ...) const;
  /// Rejects other arguments at compile time, with a message that states the rule.
  template <class...>
  void rotate_into(detail::RefusedCall<detail::RotationRule>, ...) const;
  /// Rejects other arguments at compile time, with a message that states the rule.
  template <class...>
  void adjoint(detail::RefusedCall<detail::RotationRule>, ...) const;
  /// Rejects other arguments at compile time, with a message that states the rule.
  template <class...>
  void inverse(detail::RefusedCall<detail::RotationRule>, ...) const;

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

/// True if a table of Real rotates tensors of T. If not, a static_assert of CheckTable says so.
template <class T, class Real>
concept FitsTable = CheckTable<T, Real>::value;

template <class Real>
inline constexpr bool is_table_real = std::is_same_v<Real, float> || std::is_same_v<Real, double>;

template <class Real>
struct CheckTableReal {
  static_assert(
      is_table_real<Real>,
      "posenc: a RotationTable stores float, for tensors of float and 16-bit types, or double: "
      "rope.table<float>(positions)");
  static constexpr bool value = true;
  using Type = std::conditional_t<is_table_real<Real>, Real, float>;
};

template <class Real>
concept TableReal = CheckTableReal<Real>::value && is_table_real<Real>;

}  // namespace detail

/// The calls of a table of cos and sin in Real: those of RotaryCalls, without positions. Self must
/// have `names` and
///   apply<In, Out>(name, direction, device, tensors).
/// Tensors are passed by reference. By value, the caller stores a view and the call reads it again,
/// which takes 5 ns: a sixth of the time for four heads of a token.
template <class Self, std::floating_point Real>
class TableCalls {
 public:
  /// Computes x <- m R x in place.
  ///   Shapes: x [B, S, H, D], B that of the table, or any if the table has one batch row,
  ///           D >= rotary_offset + rotary_dim
  ///   Throws: ShapeError
  template <detail::Writable T, Device D = detail::CallingThread>
  requires detail::FitsTable<T, Real>
  void rotate(const HeadsView<T>& x, const D& device = {}) const {
    self().template apply<T, T>(Self::names.rotate, detail::Direction::Forward, device,
                                {detail::in_place_operand(x)});
  }

  /// Rotates several tensors of the same batch and sequence in place:
  /// table.rotate_all({bshd(q), bshd(k)}).
  template <detail::Writable T, std::size_t Count, Device D = detail::CallingThread>
  requires detail::FitsTable<T, Real>
  void rotate_all(const HeadsView<T> (&tensors)[Count], const D& device = {}) const {
    self().template apply<T, T>(Self::names.rotate_all, detail::Direction::Forward, device,
                                detail::in_place_operands(tensors));
  }

  /// Computes out <- m R x. `out` must be x itself or share no memory with it. Channels outside the
  /// rotary slice are copied.
  template <detail::Writable T, Device D = detail::CallingThread>
  requires detail::FitsTable<T, Real>
  void rotate_into(const HeadsView<const std::type_identity_t<T>>& x, const HeadsView<T>& out,
                   const D& device = {}) const {
    self().template apply<T, T>(Self::names.rotate_into, detail::Direction::Forward, device,
                                {{x, out}});
  }

  /// Overload that stores another element type, see RotaryCalls::rotate_into().
  template <class T, class In, Device D = detail::CallingThread>
  requires detail::Converts<In, T> && detail::FitsTable<T, Real>
  void rotate_into(const HeadsView<In>& x, const HeadsView<T>& out, const D& device = {}) const {
    self().template apply<std::remove_const_t<In>, T>(
        Self::names.rotate_into, detail::Direction::Forward, device, {{x, out}});
  }

  /// Computes x <- m R^T x in place, the backward pass: the gradient of the output becomes the
  /// gradient of the input. The factor m is kept.
  template <detail::Writable T, Device D = detail::CallingThread>
  requires detail::FitsTable<T, Real>
  void adjoint(const HeadsView<T>& x, const D& device = {}) const {
    self().template apply<T, T>(Self::names.adjoint, detail::Direction::Adjoint, device,
                                {detail::in_place_operand(x)});
  }

  /// Computes x <- R^T x / m in place, which undoes rotate().
  template <detail::Writable T, Device D = detail::CallingThread>
  requires detail::FitsTable<T, Real>
  void inverse(const HeadsView<T>& x, const D& device = {}) const {
    self().template apply<T, T>(Self::names.inverse, detail::Direction::Inverse, device,
                                {detail::in_place_operand(x)});
  }

 private:
  const Self& self() const noexcept { return static_cast<const Self&>(*this); }
};

POSENC_END
