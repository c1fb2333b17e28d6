// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/boxed.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/frequency/angle_policy.hpp>
#include <posenc/frequency/detail/oscillator.hpp>
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

#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

POSENC_BEGIN
/// cos and sin as AnyRope::table() makes them: a RotationTable whose pairing is known at run time only.
/// Everything is as RotationTable says; one branch per call is all that it costs.
template <std::floating_point Real>
class AnyRotationTable : public TableCalls<AnyRotationTable<Real>, Real> {
 public:
  using Variant = std::variant<RotationTable<Interleaved, Real>, RotationTable<HalfRotate, Real>,
                               ChatGlmRotationTable<Real>>;

  template <class Pairing>
  AnyRotationTable(RotationTable<Pairing, Real> table)  // NOLINT: every table is one
      : table_(std::move(table)) {}

  /// Calls f with the table that is held.
  template <class F>
  decltype(auto) visit(F&& f) const {
    if (const auto* const table = std::get_if<0>(&table_)) return f(*table);
    if (const auto* const table = std::get_if<1>(&table_)) return f(*table);
    return f(std::get<2>(table_));
  }

  /// Batch rows; 1 serves every batch.
  Index batch() const noexcept {
    return visit([](const auto& table) { return table.batch(); });
  }
  Index seq() const noexcept {
    return visit([](const auto& table) { return table.seq(); });
  }
  Index rotary_dim() const noexcept {
    return visit([](const auto& table) { return table.rotary_dim(); });
  }
  Index rotary_offset() const noexcept {
    return visit([](const auto& table) { return table.rotary_offset(); });
  }
  double attention_factor() const noexcept {
    return visit([](const auto& table) { return table.attention_factor(); });
  }
  /// m cos, [B or 1, S, rotary_dim / 2].
  EmbeddingsView<const Real> cos() const noexcept {
    return visit([](const auto& table) { return table.cos(); });
  }
  /// m sin, [B or 1, S, rotary_dim / 2].
  EmbeddingsView<const Real> sin() const noexcept {
    return visit([](const auto& table) { return table.sin(); });
  }

 private:
  template <class, std::floating_point>
  friend class TableCalls;

  template <detail::Written T, std::size_t Count, Device D>
  void apply(detail::RotaryCall call, const D& device,
             const std::array<detail::RotationOperand<T>, Count>& tensors) const {
    visit([&](const auto& table) {
      TableCalls<AnyRotationTable, Real>::template apply_to<T, Count>(table, call, device, tensors);
    });
  }

  Variant table_;
};

/// A rope whose pairing is known at run time only, as where a model file tells it: holds a
/// Rope<Interleaved>, a Rope<HalfRotate> or a ChatGlmRope, gives its bits, and is a RotaryEncoding.
/// Everything is as Rope says, whose every call works here; one branch per call is all that it costs. Of
/// ChatGLM's rope, frequencies() are those of one half.
class AnyRope : public RotaryCalls<AnyRope> {
 public:
  /// As the constructor of Rope<...> for that pairing.
  ///   Throws: ConfigError.
  AnyRope(PairingKind pairing, Frequencies frequencies, Index rotary_offset = 0, PairAxes axes = {},
          AnglePolicy policy = AnglePolicy::Exact)
      : AnyRope(pairing == PairingKind::Interleaved
                    ? AnyRope(Rope<Interleaved>(std::move(frequencies), rotary_offset,
                                                std::move(axes), policy))
                    : AnyRope(Rope<HalfRotate>(std::move(frequencies), rotary_offset,
                                               std::move(axes), policy))) {}
  AnyRope(PairingKind pairing, AxialFrequencies axial, Index rotary_offset = 0,
          AnglePolicy policy = AnglePolicy::Exact)
      : AnyRope(pairing, std::move(axial.frequencies), rotary_offset, std::move(axial.axes),
                policy) {}

  template <FrequencyRule Rule>
  AnyRope(PairingKind pairing, const Rule& rule, Index rotary_offset = 0, PairAxes axes = {},
          AnglePolicy policy = AnglePolicy::Exact)
      : AnyRope(pairing, detail::evaluate(rule), rotary_offset, std::move(axes), policy) {}

  // NOLINTBEGIN: every Rope is an AnyRope
  AnyRope(const Rope<Interleaved>& rope) : interleaved_(rope) {}
  AnyRope(const Rope<HalfRotate>& rope) : half_rotate_(rope) {}
  AnyRope(const ChatGlmRope& rope) : chatglm_(rope) {}
  // NOLINTEND

  // A moved one is a copy, as of Rope.
  AnyRope(const AnyRope&) = default;
  AnyRope& operator=(const AnyRope& other) {
    AnyRope copy(other);
    interleaved_.swap(copy.interleaved_);
    half_rotate_.swap(copy.half_rotate_);
    chatglm_.swap(copy.chatglm_);
    return *this;
  }

  /// Calls f with the rope that is held, whose type tells the pairing.
  template <class F>
  decltype(auto) visit(F&& f) const {
    if (interleaved_.get() != nullptr) return f(*interleaved_.get());
    if (half_rotate_.get() != nullptr) return f(*half_rotate_.get());
    return f(*chatglm_.get());
  }

  double softmax_scale_multiplier() const noexcept {
    return visit([](const auto& rope) { return rope.softmax_scale_multiplier(); });
  }

  /// cos and sin for these positions, to be shared by q, k, all layers and all threads of a forward
  /// pass.
  template <std::floating_point Real, Device D = detail::CallingThread>
  AnyRotationTable<Real> table(const Positions& positions, const D& device = {}) const {
    return visit([&](const auto& rope) -> AnyRotationTable<Real> {
      return rope.template table<Real>(positions, device);
    });
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
  AnglePolicy angle_policy() const noexcept {
    return visit([](const auto& rope) { return rope.angle_policy(); });
  }
  const PairAxes& axes() const noexcept {
    return visit([](const auto& rope) -> const PairAxes& { return rope.axes(); });
  }
  /// How many axes the positions must have.
  Index axis_count() const noexcept {
    return visit([](const auto& rope) { return rope.axis_count(); });
  }
  /// What accumulate_frequency_gradient() adds to: zeros, as the rope that is held has them.
  std::vector<double> zero_frequency_gradient() const {
    return visit([](const auto& rope) { return rope.zero_frequency_gradient(); });
  }

 private:
  template <class>
  friend class RotaryCalls;

  template <detail::Written T, std::size_t Count, Device D>
  void apply(detail::RotaryCall call, const D& device,
             const std::array<detail::RotationOperand<T>, Count>& tensors,
             const Positions& positions) const {
    visit([&](const auto& rope) {
      RotaryCalls<AnyRope>::apply_to<T, Count>(rope, call, device, tensors, positions);
    });
  }

  // One of them.
  detail::Boxed<Rope<Interleaved>> interleaved_;
  detail::Boxed<Rope<HalfRotate>> half_rotate_;
  detail::Boxed<ChatGlmRope> chatglm_;
};

/// shift_keys() of the rope that is held.
template <detail::Written T, Device D = detail::CallingThread>
void shift_keys(HeadsView<T> k, const AnyRope& rope, const Positions& deltas,
                const D& device = {}) {
  rope.visit([&](const auto& typed) { shift_keys(k, typed, deltas, device); });
}
template <detail::Written T, Device D = detail::CallingThread>
void shift_keys(HeadsView<T> k, const AnyRope& rope, ListView<Index> delta_of_axis,
                const D& device = {}) {
  rope.visit([&](const auto& typed) { shift_keys(k, typed, delta_of_axis, device); });
}

/// rerotate() of the ropes that are held.
///   Throws: as there; ConfigError where they are of two kinds
template <detail::Written T, Device D = detail::CallingThread>
void rerotate(HeadsView<T> k, const AnyRope& from, const Positions& from_positions,
              const AnyRope& to, const Positions& to_positions, const D& device = {}) {
  from.visit([&]<class From>(const From& old) {
    to.visit([&]<class To>(const To& now) {
      if constexpr (std::is_same_v<From, To>) {
        rerotate(k, old, from_positions, now, to_positions, device);
      } else {
        detail::fail<ConfigError>("rerotate", "both ropes must have the same pairing");
      }
    });
  });
}

/// accumulate_frequency_gradient() of the rope that is held, for its frequencies().
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
