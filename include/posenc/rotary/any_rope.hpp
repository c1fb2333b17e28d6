// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/frequency/angle_policy.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/rotary/chatglm_rope.hpp>
#include <posenc/rotary/pair_axes.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <initializer_list>
#include <type_traits>
#include <utility>
#include <variant>

POSENC_BEGIN

/// A rope whose pairing is known at run time only, as where a model file tells it: holds a
/// Rope<Interleaved>, a Rope<HalfRotate> or a ChatGlmRope, gives its bits, and is a RotaryEncoding.
/// Everything is as Rope says; one branch a call is all that it costs.
class AnyRope {
 public:
  using Variant = std::variant<Rope<Interleaved>, Rope<HalfRotate>, ChatGlmRope>;

  /// As the constructor of Rope<...> for that pairing.
  ///   Throws: ConfigError.
  AnyRope(PairingKind pairing, Frequencies frequencies, Index rotary_offset = 0, PairAxes axes = {},
          AnglePolicy policy = AnglePolicy::Exact)
      : rope_(make(pairing, std::move(frequencies), rotary_offset, std::move(axes), policy)) {}
  AnyRope(PairingKind pairing, AxialFrequencies axial, Index rotary_offset = 0,
          AnglePolicy policy = AnglePolicy::Exact)
      : AnyRope(pairing, std::move(axial.frequencies), rotary_offset, std::move(axial.axes),
                policy) {}

  template <class Pairing>
  AnyRope(Rope<Pairing> rope) : rope_(std::move(rope)) {}  // NOLINT: every Rope is an AnyRope
  AnyRope(ChatGlmRope rope) : rope_(std::move(rope)) {}    // NOLINT: and so is this

  /// Calls f with the rope that is held, to make a RotationTable or to call what is not here.
  template <class F>
  decltype(auto) visit(F&& f) const {
    return std::visit(std::forward<F>(f), rope_);
  }

  /// x <- m R x in place.
  template <detail::Written T>
  void rotate(HeadsView<T> x, const Positions& positions) const {
    visit([&](const auto& rope) { rope.rotate(x, positions); });
  }

  /// out <- m R x; out is x itself or shares no memory with it.
  template <detail::Written T>
  void rotate_into(HeadsView<const std::type_identity_t<T>> x, HeadsView<T> out,
                   const Positions& positions) const {
    visit([&](const auto& rope) { rope.rotate_into(x, out, positions); });
  }

  /// x <- m R^T x.
  template <detail::Written T>
  void adjoint(HeadsView<T> x, const Positions& positions) const {
    visit([&](const auto& rope) { rope.adjoint(x, positions); });
  }

  /// x <- R^T x / m.
  template <detail::Written T>
  void inverse(HeadsView<T> x, const Positions& positions) const {
    visit([&](const auto& rope) { rope.inverse(x, positions); });
  }

  // The RotaryEncoding concept.
  template <detail::Written T>
  void rotate_queries(HeadsView<T> q, const Positions& positions) const {
    rotate(q, positions);
  }
  template <detail::Written T>
  void rotate_keys(HeadsView<T> k, const Positions& positions) const {
    rotate(k, positions);
  }
  template <detail::Written T>
  void adjoint_queries(HeadsView<T> grad_q, const Positions& positions) const {
    adjoint(grad_q, positions);
  }
  template <detail::Written T>
  void adjoint_keys(HeadsView<T> grad_k, const Positions& positions) const {
    adjoint(grad_k, positions);
  }
  double softmax_scale_multiplier() const noexcept {
    return visit([](const auto& rope) { return rope.softmax_scale_multiplier(); });
  }

  const Frequencies& frequencies() const noexcept {
    return visit([](const auto& rope) -> const Frequencies& { return rope.frequencies(); });
  }
  Index rotary_dim() const noexcept {
    return visit([](const auto& rope) { return rope.rotary_dim(); });
  }
  Index rotary_offset() const noexcept {
    return visit([](const auto& rope) { return rope.rotary_offset(); });
  }
  /// How many axes the positions must have.
  Index axis_count() const noexcept {
    return visit([](const auto& rope) { return rope.axis_count(); });
  }

 private:
  static Variant make(PairingKind pairing, Frequencies frequencies, Index rotary_offset,
                      PairAxes axes, AnglePolicy policy) {
    if (pairing == PairingKind::Interleaved) {
      return Rope<Interleaved>(std::move(frequencies), rotary_offset, std::move(axes), policy);
    }
    return Rope<HalfRotate>(std::move(frequencies), rotary_offset, std::move(axes), policy);
  }

  Variant rope_;
};

/// shift_keys() of the rope that is held; deltas are Positions or one number an axis.
template <detail::Written T, class Deltas = std::initializer_list<Index>>
void shift_keys(HeadsView<T> k, const AnyRope& rope, const Deltas& deltas) {
  rope.visit([&](const auto& typed) { shift_keys(k, typed, deltas); });
}

/// rerotate() of the ropes that are held.
///   Throws: as there; ConfigError where they are of two kinds
template <detail::Written T>
void rerotate(HeadsView<T> k, const AnyRope& from, const Positions& from_positions,
              const AnyRope& to, const Positions& to_positions) {
  from.visit([&]<class From>(const From& old) {
    to.visit([&]<class To>(const To& now) {
      if constexpr (std::is_same_v<From, To>) {
        rerotate(k, old, from_positions, now, to_positions);
      } else {
        detail::fail<ConfigError>("rerotate", "both ropes must have the same pairing");
      }
    });
  });
}

POSENC_END
