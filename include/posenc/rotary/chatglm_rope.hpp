// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/double_double.hpp>
#include <posenc/frequency/angle_policy.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/detail/rotate_tensors.hpp>
#include <posenc/rotary/pair_axes.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/rotation_table.hpp>
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

/// The table of cos and sin of a ChatGlmRope, over both halves of the head.
template <std::floating_point Real>
using ChatGlmRotationTable = RotationTable<detail::HalfRotatePerHalf, Real>;

/// ChatGLM-6B's two-dimensional rotary encoding. Each half of the head is a separate rope with half
/// pairing. The first half rotates by the position id (axis 0), the second by the block id (axis
/// 1). chatglm_positions() computes both ids.
/// ChatGLM2 and later models are Rope<Interleaved> over the first half of the head. All calls are
/// those of Rope, over both halves. Only frequencies() and their gradient are for one half. In
/// axes() and in tables, the pairs of the first half come first.
///   Shapes: x [B, S, H, D]; the first 4 * frequencies.pairs() channels are rotated
///   Source: THUDM's modeling_chatglm.py, position_encoding_2d. Gemma 4's vision tower has the same
///           encoding with base 100, columns and rows (xy_grid): huggingface/transformers,
///           gemma4/modular_gemma4.py (033b1a8)
class ChatGlmRope : public Rope<detail::HalfRotatePerHalf> {
 public:
  /// Constructs the rope from the frequencies of one half. In the ChatGLM-6B checkpoint they are
  /// rounded to half precision.
  explicit ChatGlmRope(const Frequencies& half, AnglePolicy policy = AnglePolicy::Exact)
      : Rope(duplicate_frequencies(half), 0, PairAxes::sections({half.pairs(), half.pairs()}),
             policy),
        half_frequencies_(half) {}

  /// Constructs the rope with base^(-2i / (head_dim / 2)) in both halves.
  ///   Throws: ConfigError
  ChatGlmRope(Index head_dim, double base) : ChatGlmRope(make_half_frequencies(head_dim, base)) {}

  /// Returns the frequencies of one half.
  const Frequencies& frequencies() const noexcept { return half_frequencies_; }
  /// Returns zeros of the size that accumulate_frequency_gradient() adds to: one half.
  std::vector<double> zero_frequency_gradient() const {
    return std::vector<double>(static_cast<std::size_t>(half_frequencies_.pairs()));
  }
  /// Returns the first half as a separate rope.
  Rope<HalfRotate> position_half() const {
    return Rope<HalfRotate>(half_frequencies_, 0, PairAxes::only(0, 2, half_frequencies_.pairs()),
                            angle_policy());
  }
  /// Returns the second half as a separate rope.
  Rope<HalfRotate> block_half() const {
    return Rope<HalfRotate>(half_frequencies_, half_frequencies_.rotary_dim(),
                            PairAxes::only(1, 2, half_frequencies_.pairs()), angle_policy());
  }

 private:
  static Frequencies duplicate_frequencies(const Frequencies& half) {
    const auto w = detail::exact_inv_freq(half);
    std::vector<detail::DoubleDouble> both;
    both.reserve(2 * w.size());
    for (int n = 0; n < 2; ++n) {
      for (const detail::DoubleDouble& frequency : w) both.push_back(frequency);
    }
    return detail::exact_frequencies(std::move(both), half.attention_factor(),
                                     half.softmax_scale_multiplier());
  }
  static Frequencies make_half_frequencies(Index head_dim, double base) {
    constexpr auto function = "ChatGlmRope";
    detail::check_head_of_two_halves(function, head_dim);
    detail::check_base(function, base);
    return detail::evaluate(Unscaled{.rotary_dim = head_dim / 2, .base = base});
  }

  Frequencies half_frequencies_;
};

/// Overload for ChatGlmRope: adds the gradient of the frequencies of one half, which both halves
/// share.
template <class T, Device D = detail::CallingThread>
requires Scalar<std::remove_const_t<T>>
void accumulate_frequency_gradient(const ChatGlmRope& rope,
                                   HeadsView<const std::remove_const_t<T>> y, HeadsView<T> grad_y,
                                   const Positions& positions, std::span<double> grad_inv_freq,
                                   const D& device = {}) {
  // The second half is first, because any error in a tensor is also an error for this half.
  const auto block = rope.block_half(), position = rope.position_half();
  accumulate_frequency_gradient(block, y, grad_y, positions, grad_inv_freq, device);
  accumulate_frequency_gradient(position, y, grad_y, positions, grad_inv_freq, device);
}

POSENC_END
