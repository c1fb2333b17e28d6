// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/double_double.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/frequency/angle_policy.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/oscillator.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/detail/rotation_walk.hpp>
#include <posenc/rotary/pair_axes.hpp>
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
#include <vector>

POSENC_BEGIN

template <std::floating_point Real>
using ChatGlmRotationTable = RotationTable<detail::HalfRotateTwice, Real>;

/// ChatGLM-6B's rotary encoding in two dimensions: each half of the head is a rope of its own with
/// half pairing, the first half turned by the position id (axis 0), the second by the block id
/// (axis 1). chatglm_positions() makes both. ChatGLM2 and later are Rope<Interleaved> over the first
/// half of the head.
///   Shapes: x [B, S, H, D]; the first 4 * frequencies.pairs() channels are turned
///   Pairs:  those of the first half, then those of the second: in axes(), oscillator() and tables
///   The rest as Rope says, for which it can stand as a RotaryEncoding.
///   Source: THUDM's modeling_chatglm.py, position_encoding_2d. Gemma 4's vision tower does the same with
///           base 100, columns and rows (xy_grid): huggingface/transformers, gemma4/modular_gemma4.py
///           (033b1a8)
class ChatGlmRope : public RotaryCalls<ChatGlmRope> {
 public:
  /// From the frequencies of one half; those of the checkpoint are rounded to half precision.
  explicit ChatGlmRope(const Frequencies& half, AnglePolicy policy = AnglePolicy::Exact)
      : half_(half),
        rope_(twice(half), 0, PairAxes::sections({half.pairs(), half.pairs()}), policy) {}

  /// base^(-2i / (head_dim / 2)) in both halves.
  ///   Throws: ConfigError.
  ChatGlmRope(Index head_dim, double base) : ChatGlmRope(half_of(head_dim, base)) {}

  double softmax_scale_multiplier() const noexcept { return rope_.softmax_scale_multiplier(); }

  /// cos and sin for these positions, to be shared by q, k, all layers and all threads of a forward
  /// pass.
  template <std::floating_point Real>
  ChatGlmRotationTable<Real> table(const Positions& positions) const {
    return rope_.table<Real>(positions);
  }
  template <std::floating_point Real, Device D>
  ChatGlmRotationTable<Real> table(const D& device, const Positions& positions) const {
    return rope_.table<Real>(device, positions);
  }

  /// The frequencies of one half.
  const Frequencies& frequencies() const noexcept { return half_; }
  Index rotary_dim() const noexcept { return rope_.rotary_dim(); }
  Index rotary_offset() const noexcept { return 0; }
  AnglePolicy angle_policy() const noexcept { return rope_.angle_policy(); }
  const PairAxes& axes() const noexcept { return rope_.axes(); }
  Index axis_count() const noexcept { return 2; }
  const Oscillator& oscillator() const noexcept { return rope_.oscillator(); }

  /// What accumulate_frequency_gradient() adds to: zeros, for one half.
  std::vector<double> zero_frequency_gradient() const {
    return std::vector<double>(static_cast<std::size_t>(half_.pairs()));
  }
  /// The halves as ropes of their own.
  Rope<HalfRotate> position_half() const {
    return Rope<HalfRotate>(half_, 0, PairAxes::only(0, 2, half_.pairs()), angle_policy());
  }
  Rope<HalfRotate> block_half() const {
    return Rope<HalfRotate>(half_, half_.rotary_dim(), PairAxes::only(1, 2, half_.pairs()),
                            angle_policy());
  }
  /// Both as one rope, for what moves keys.
  const Rope<detail::HalfRotateTwice>& both_halves() const noexcept { return rope_; }

 private:
  template <class>
  friend class RotaryCalls;

  template <detail::Written T, std::size_t Count, Device D>
  void apply(detail::RotaryCall call, const D& device,
             const std::array<detail::Rotated<T>, Count>& tensors,
             const Positions& positions) const {
    apply_to<T, Count>(rope_, call, device, tensors, positions);
  }

  static Frequencies twice(const Frequencies& half) {
    const auto w = half.exact_inv_freq();
    std::vector<DoubleDouble> both(w.begin(), w.end());
    both.insert(both.end(), w.begin(), w.end());
    return Frequencies(std::move(both), half.attention_factor(), half.softmax_scale_multiplier());
  }
  static Frequencies half_of(Index head_dim, double base) {
    constexpr auto function = "ChatGlmRope";
    detail::check_head_of_two_halves(function, head_dim);
    detail::check_base(function, base);
    return detail::evaluate(Unscaled{.rotary_dim = head_dim / 2, .base = base});
  }

  Frequencies half_;
  Rope<detail::HalfRotateTwice> rope_;
};

/// shift_keys() for both halves.
template <Device D, detail::Written T>
void shift_keys(const D& device, HeadsView<T> k, const ChatGlmRope& rope, const Positions& deltas) {
  shift_keys(device, k, rope.both_halves(), deltas);
}
template <detail::Written T>
void shift_keys(HeadsView<T> k, const ChatGlmRope& rope, const Positions& deltas) {
  shift_keys(k, rope.both_halves(), deltas);
}
template <Device D, detail::Written T>
void shift_keys(const D& device, HeadsView<T> k, const ChatGlmRope& rope,
                ListView<Index> delta_of_axis) {
  shift_keys(device, k, rope.both_halves(), delta_of_axis);
}
template <detail::Written T>
void shift_keys(HeadsView<T> k, const ChatGlmRope& rope, ListView<Index> delta_of_axis) {
  shift_keys(k, rope.both_halves(), delta_of_axis);
}

/// rerotate() for both halves.
template <detail::Written T>
void rerotate(HeadsView<T> k, const ChatGlmRope& from, const Positions& from_positions,
              const ChatGlmRope& to, const Positions& to_positions) {
  rerotate(k, from.both_halves(), from_positions, to.both_halves(), to_positions);
}
template <Device D, detail::Written T>
void rerotate(const D& device, HeadsView<T> k, const ChatGlmRope& from,
              const Positions& from_positions, const ChatGlmRope& to,
              const Positions& to_positions) {
  rerotate(device, k, from.both_halves(), from_positions, to.both_halves(), to_positions);
}

/// As that of a Rope, for the frequencies of one half, which both halves share.
template <Device D, class T>
requires Scalar<std::remove_const_t<T>>
void accumulate_frequency_gradient(const D& device, const ChatGlmRope& rope,
                                   HeadsView<const std::remove_const_t<T>> y, HeadsView<T> grad_y,
                                   const Positions& positions, std::span<double> grad_inv_freq) {
  // The second half first: what is wrong with a tensor is wrong with this half.
  const auto block = rope.block_half(), position = rope.position_half();
  accumulate_frequency_gradient(device, block, y, grad_y, positions, grad_inv_freq);
  accumulate_frequency_gradient(device, position, y, grad_y, positions, grad_inv_freq);
}
template <class T>
requires Scalar<std::remove_const_t<T>>
void accumulate_frequency_gradient(const ChatGlmRope& rope,
                                   HeadsView<const std::remove_const_t<T>> y, HeadsView<T> grad_y,
                                   const Positions& positions, std::span<double> grad_inv_freq) {
  accumulate_frequency_gradient(detail::CallingThread(), rope, y, grad_y, positions, grad_inv_freq);
}

POSENC_END
