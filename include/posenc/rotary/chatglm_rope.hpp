// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/frequency/angle_policy.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/pair_axes.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <initializer_list>
#include <type_traits>
#include <utility>

POSENC_BEGIN

/// ChatGLM-6B's rotary encoding in two dimensions: each half of the head is a rope of its own with
/// half pairing, the first half turned by the position id (axis 0), the second by the block id
/// (axis 1). chatglm_positions() makes both. ChatGLM2 and later are Rope<Interleaved> over the first
/// half of the head.
///   Shapes: x [B, S, H, D]; the first 4 * frequencies.pairs() channels are turned
///   The rest as Rope says, for which it can stand as a RotaryEncoding.
///   Source: THUDM's modeling_chatglm.py, position_encoding_2d
class ChatGlmRope {
 public:
  /// From the frequencies of one half; those of the checkpoint are rounded to half precision.
  explicit ChatGlmRope(const Frequencies& half, AnglePolicy policy = AnglePolicy::Exact)
      : position_(half, 0, PairAxes::only(0, 2, half.pairs()), policy),
        block_(half, half.rotary_dim(), PairAxes::only(1, 2, half.pairs()), policy) {}

  /// base^(-2i / (head_dim / 2)) in both halves.
  ///   Throws: ConfigError.
  ChatGlmRope(Index head_dim, double base) : ChatGlmRope(half_of(head_dim, base)) {}

  /// x <- m R x in place.
  template <detail::Written T>
  void rotate(HeadsView<T> x, const Positions& positions) const {
    // The second half first: whatever is wrong with x or positions is wrong with this half, so that
    // nothing is written before the checks are done. The same below.
    block_.rotate(x, positions);
    position_.rotate(x, positions);
  }

  /// out <- m R x; out is x itself or shares no memory with it.
  template <detail::Written T>
  void rotate_into(HeadsView<const std::type_identity_t<T>> x, HeadsView<T> out,
                   const Positions& positions) const {
    block_.template rotate_into<T>(x, out, positions);
    position_.rotate(out, positions);
  }

  /// x <- m R^T x.
  template <detail::Written T>
  void adjoint(HeadsView<T> x, const Positions& positions) const {
    block_.adjoint(x, positions);
    position_.adjoint(x, positions);
  }

  /// x <- R^T x / m.
  template <detail::Written T>
  void inverse(HeadsView<T> x, const Positions& positions) const {
    block_.inverse(x, positions);
    position_.inverse(x, positions);
  }

  // The RotaryEncoding concept; queries and keys are treated alike.
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
  double softmax_scale_multiplier() const noexcept { return position_.softmax_scale_multiplier(); }

  /// The frequencies of one half.
  const Frequencies& frequencies() const noexcept { return position_.frequencies(); }
  Index rotary_dim() const noexcept { return 2 * position_.rotary_dim(); }
  Index rotary_offset() const noexcept { return 0; }
  Index axis_count() const noexcept { return 2; }
  /// The halves, to make tables with.
  const Rope<HalfRotate>& position_half() const noexcept { return position_; }
  const Rope<HalfRotate>& block_half() const noexcept { return block_; }

 private:
  static Frequencies half_of(Index head_dim, double base) {
    constexpr auto function = "ChatGlmRope";
    if (head_dim < 4 || head_dim % 4 != 0) {
      detail::fail<ConfigError>(function, "head_dim must be divisible by 4 and at least 4 but is ",
                                head_dim);
    }
    detail::check_base(function, base);
    return detail::evaluate(Unscaled{.rotary_dim = head_dim / 2, .base = base});
  }

  Rope<HalfRotate> position_, block_;
};

/// shift_keys() for both halves; deltas are Positions or one number an axis.
template <detail::Written T, class Deltas = std::initializer_list<Index>>
void shift_keys(HeadsView<T> k, const ChatGlmRope& rope, const Deltas& deltas) {
  shift_keys(k, rope.block_half(), deltas);
  shift_keys(k, rope.position_half(), deltas);
}

/// rerotate() for both halves.
template <detail::Written T>
void rerotate(HeadsView<T> k, const ChatGlmRope& from, const Positions& from_positions,
              const ChatGlmRope& to, const Positions& to_positions) {
  rerotate(k, from.block_half(), from_positions, to.block_half(), to_positions);
  rerotate(k, from.position_half(), from_positions, to.position_half(), to_positions);
}

POSENC_END
