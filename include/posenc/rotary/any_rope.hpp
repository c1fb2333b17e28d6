// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/frequency/angle_policy.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/rotary/chatglm_rope.hpp>
#include <posenc/rotary/pair_axes.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/rotary_calls.hpp>
#include <posenc/rotary/rotation_table.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <concepts>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Calls f with the value that a variant of three pairings holds. std::visit() compiles slower.
template <class Variant, class F>
decltype(auto) visit_pairing(const Variant& variant, F&& f) {
  if (const auto* const value = std::get_if<0>(&variant)) return f(*value);
  if (const auto* const value = std::get_if<1>(&variant)) return f(*value);
  return f(*std::get_if<2>(&variant));
}

}  // namespace detail

/// A table of cos and sin whose pairing is known only at run time; AnyRope::table() returns one.
/// Its calls are those of RotationTable, at the cost of one branch per call.
template <std::floating_point Real>
class AnyRotationTable : public TableCalls<AnyRotationTable<Real>, Real> {
 public:
  /// A table of any of the pairings.
  using Variant = std::variant<RotationTable<Interleaved, Real>, RotationTable<HalfRotate, Real>,
                               ChatGlmRotationTable<Real>>;

  /// Holds a table whose pairing is known.
  template <class Pairing>
  AnyRotationTable(RotationTable<Pairing, Real> table)  // NOLINT: every table is one
      : table_(std::move(table)) {}

  /// Calls f with the table that is held.
  template <class F>
  decltype(auto) visit(F&& f) const {
    return detail::visit_pairing(table_, f);
  }

  /// Returns the number of batch rows; 1 serves every batch.
  Index batch() const noexcept {
    return visit([](const auto& table) { return table.batch(); });
  }
  /// Returns the number of positions S.
  Index seq() const noexcept {
    return visit([](const auto& table) { return table.seq(); });
  }
  /// Returns the number of rotated channels of a head.
  Index rotary_dim() const noexcept {
    return visit([](const auto& table) { return table.rotary_dim(); });
  }
  /// Returns the first rotated channel of a head.
  Index rotary_offset() const noexcept {
    return visit([](const auto& table) { return table.rotary_offset(); });
  }
  /// Returns m, the factor that cos() and sin() include.
  double attention_factor() const noexcept {
    return visit([](const auto& table) { return table.attention_factor(); });
  }
  /// Returns m cos, [B or 1, S, rotary_dim / 2].
  EmbeddingsView<const Real> cos() const noexcept {
    return visit([](const auto& table) { return table.cos(); });
  }
  /// Returns m sin, [B or 1, S, rotary_dim / 2].
  EmbeddingsView<const Real> sin() const noexcept {
    return visit([](const auto& table) { return table.sin(); });
  }

 private:
  template <class, std::floating_point>
  friend class TableCalls;

  static constexpr detail::RotaryCallNames names = detail::table_call_names;

  template <Scalar In, Scalar Out, Device D>
  void apply(const char* function, detail::Direction direction, const D& device,
             ListView<detail::RotationOperand<In, Out>> tensors) const {
    visit([&](const auto& table) {
      table.template apply<In, Out>(function, direction, device, tensors);
    });
  }

  Variant table_;
};

/// A rope whose pairing is known only at run time, for example from a model file. It holds a
/// Rope<Interleaved>, a Rope<HalfRotate> or a ChatGlmRope, and is a RotaryEncoding.
/// It has every call of Rope, with bit-identical results, at the cost of one branch per call. For
/// ChatGLM's rope, frequencies() are those of one half.
class AnyRope : public RotaryCalls<AnyRope> {
 public:
  /// Constructs a Rope of that pairing; the arguments are those of Rope.
  ///   Throws: ConfigError
  AnyRope(PairingKind pairing, Frequencies frequencies, Index rotary_offset = 0, PairAxes axes = {},
          AnglePolicy policy = AnglePolicy::Exact)
      : AnyRope(pairing == PairingKind::Interleaved
                    ? AnyRope(Rope<Interleaved>(std::move(frequencies), rotary_offset,
                                                std::move(axes), policy))
                    : AnyRope(Rope<HalfRotate>(std::move(frequencies), rotary_offset,
                                               std::move(axes), policy))) {}
  /// Constructs a Rope from frequencies with a table of their axes, as for vision encodings.
  ///   Throws: ConfigError, also if they are of a model whose weights have another pairing
  AnyRope(PairingKind pairing, AxialFrequencies axial, Index rotary_offset = 0,
          AnglePolicy policy = AnglePolicy::Exact)
      : AnyRope(pairing, std::move(axial.frequencies), rotary_offset, std::move(axial.axes),
                policy) {
    detail::check_pairing_of_model("AnyRope", axial.pairing, pairing);
  }

  /// Constructs a Rope from a scaling rule that does not depend on the length.
  ///   Throws: ConfigError
  template <FrequencyRule Rule>
  AnyRope(PairingKind pairing, const Rule& rule, Index rotary_offset = 0, PairAxes axes = {},
          AnglePolicy policy = AnglePolicy::Exact)
      : AnyRope(pairing, detail::evaluate(rule), rotary_offset, std::move(axes), policy) {}

  // NOLINTBEGIN: every Rope is an AnyRope
  /// Holds a copy of a Rope<Interleaved>.
  AnyRope(const Rope<Interleaved>& rope) : rope_(std::make_shared<const Variant>(rope)) {}
  /// Holds a copy of a Rope<HalfRotate>.
  AnyRope(const Rope<HalfRotate>& rope) : rope_(std::make_shared<const Variant>(rope)) {}
  /// Holds a copy of a ChatGlmRope.
  AnyRope(const ChatGlmRope& rope) : rope_(std::make_shared<const Variant>(rope)) {}
  // NOLINTEND

  /// Copies the rope. Copies share its frequencies, which do not change. Moving copies, too, as for
  /// Rope.
  AnyRope(const AnyRope&) = default;
  /// Copies the rope.
  AnyRope& operator=(const AnyRope&) = default;

  /// Calls f with the rope that is held; its type names the pairing.
  template <class F>
  decltype(auto) visit(F&& f) const {
    return detail::visit_pairing(*rope_, f);
  }

  /// Returns the factor for the softmax scale of attention.
  double softmax_scale_multiplier() const noexcept {
    return visit([](const auto& rope) { return rope.softmax_scale_multiplier(); });
  }

  /// Returns cos and sin for these positions, to be shared by q, k, all layers and all threads of a
  /// forward pass.
  template <std::floating_point Real, Device D = detail::CallingThread>
  AnyRotationTable<Real> table(const Positions& positions, const D& device = {}) const {
    return visit([&](const auto& rope) -> AnyRotationTable<Real> {
      return rope.template table<Real>(positions, device);
    });
  }

  /// Returns the frequencies of the rope that is held; for ChatGLM's rope, those of one half.
  const Frequencies& frequencies() const noexcept {
    return visit([](const auto& rope) -> const Frequencies& { return rope.frequencies(); });
  }
  /// Returns the number of rotated channels of a head.
  Index rotary_dim() const noexcept {
    return visit([](const auto& rope) { return rope.rotary_dim(); });
  }
  /// Returns the first rotated channel of a head.
  Index rotary_offset() const noexcept {
    return visit([](const auto& rope) { return rope.rotary_offset(); });
  }
  /// Returns the precision of the angles.
  AnglePolicy angle_policy() const noexcept {
    return visit([](const auto& rope) { return rope.angle_policy(); });
  }
  /// Returns the table that names the axis of each pair.
  const PairAxes& axes() const noexcept {
    return visit([](const auto& rope) -> const PairAxes& { return rope.axes(); });
  }
  /// Returns the number of axes that the positions must have.
  Index axis_count() const noexcept {
    return visit([](const auto& rope) { return rope.axis_count(); });
  }
  /// Returns zeros of the size that accumulate_frequency_gradient() adds to, for the rope that is
  /// held.
  std::vector<double> zero_frequency_gradient() const {
    return visit([](const auto& rope) { return rope.zero_frequency_gradient(); });
  }

 private:
  template <class>
  friend class RotaryCalls;

  using Variant = std::variant<Rope<Interleaved>, Rope<HalfRotate>, ChatGlmRope>;

  static constexpr detail::RotaryCallNames names = detail::rope_call_names;

  template <Scalar In, Scalar Out, Device D>
  void apply(const char* function, detail::Direction direction, const D& device,
             ListView<detail::RotationOperand<In, Out>> tensors, const Positions& positions) const {
    visit([&](const auto& rope) {
      rope.template apply<In, Out>(function, direction, device, tensors, positions);
    });
  }

  std::shared_ptr<const Variant> rope_;
};

/// Calls shift_keys() for the rope that is held.
template <detail::Writable T, Device D = detail::CallingThread>
void shift_keys(HeadsView<T> k, const AnyRope& rope, const Positions& deltas,
                const D& device = {}) {
  rope.visit([&](const auto& typed) { shift_keys(k, typed, deltas, device); });
}
/// Overload with one delta per axis for all keys.
template <detail::Writable T, Device D = detail::CallingThread>
void shift_keys(HeadsView<T> k, const AnyRope& rope, ListView<Index> delta_of_axis,
                const D& device = {}) {
  rope.visit([&](const auto& typed) { shift_keys(k, typed, delta_of_axis, device); });
}

/// Calls rerotate() for the ropes that are held.
///   Throws: as for rerotate() of Rope; ConfigError if the two ropes have different pairings
template <detail::Writable T, Device D = detail::CallingThread>
void rerotate(HeadsView<T> k, const AnyRope& from, const Positions& from_positions,
              const AnyRope& to, const Positions& to_positions, const D& device = {}) {
  from.visit([&]<class From>(const From& from_rope) {
    to.visit([&]<class To>(const To& to_rope) {
      if constexpr (std::is_same_v<From, To>) {
        rerotate(k, from_rope, from_positions, to_rope, to_positions, device);
      } else {
        detail::fail<ConfigError>("rerotate", "both ropes must have the same pairing");
      }
    });
  });
}

/// Calls accumulate_frequency_gradient() for the rope that is held, with respect to its
/// frequencies().
template <class T, Device D = detail::CallingThread>
requires Scalar<std::remove_const_t<T>>
void accumulate_frequency_gradient(const AnyRope& rope, HeadsView<const std::remove_const_t<T>> y,
                                   HeadsView<T> grad_y, const Positions& positions,
                                   std::span<double> grad_inv_freq, const D& device = {}) {
  rope.visit([&](const auto& typed) {
    accumulate_frequency_gradient(typed, y, grad_y, positions, grad_inv_freq, device);
  });
}

POSENC_END
