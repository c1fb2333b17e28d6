// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/double_double.hpp>
#include <posenc/core/error.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/oscillator.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/rotary/rotate.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cmath>
#include <span>
#include <type_traits>
#include <vector>

POSENC_STABLE_BEGIN

/// The shape of MixedRope's frequencies.
struct MixedRopeShape {
  Index axes = 2;
  Index heads = 0;       ///< required
  Index rotary_dim = 0;  ///< required; even
  Index rotary_offset = 0;
};

POSENC_STABLE_END

POSENC_BEGIN

/// Rope whose every pair is turned by all axes at once, with frequencies of its own in every head:
/// the learned, mixed form of RoPE-ViT (arXiv 2403.13298; interleaved there).
///
///   angle of pair i of head h = sum over axes a of positions[a] * inv_freq[a, h, i]
///
///   Shapes:   x [B, S, heads, D], positions [B or 1, S] on `axes` axes
///   Accuracy: Oscillator's errors of cos and sin, one an axis, add up, and 2e-16 more for each
///             axis after the first
///   The rest as Rope says. Where all but one of a pair's frequencies are 0, its bits are those of a
///   Rope on that axis.
template <class Pairing = detail::NoPairing>
class MixedRope {
  static_assert(detail::is_pairing<Pairing>, POSENC_DETAIL_PAIRING_RULE);

 public:
  /// inv_freq [axes, heads, rotary_dim / 2], taken as exact.
  ///   Throws: ConfigError
  MixedRope(std::span<const double> inv_freq, const MixedRopeShape& shape)
      : shape_(checked(inv_freq, shape)),
        oscillator_(std::vector<DoubleDouble>(inv_freq.begin(), inv_freq.end())),
        slice_{shape.rotary_offset, shape.rotary_dim / 2} {}

  /// x <- R x in place.
  template <detail::Written T>
  void rotate(HeadsView<T> x, const Positions& positions) const {
    apply<T>("MixedRope::rotate", detail::Direction::Forward, x, x, positions);
  }

  /// out <- R x; out is x itself or shares no memory with it. Channels outside the rotary slice are
  /// copied.
  template <detail::Written T>
  void rotate_into(HeadsView<const std::type_identity_t<T>> x, HeadsView<T> out,
                   const Positions& positions) const {
    apply<T>("MixedRope::rotate_into", detail::Direction::Forward, x, out, positions);
  }

  /// x <- R^T x: the backward pass, and the inverse.
  template <detail::Written T>
  void adjoint(HeadsView<T> x, const Positions& positions) const {
    apply<T>("MixedRope::adjoint", detail::Direction::Adjoint, x, x, positions);
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
  double softmax_scale_multiplier() const noexcept { return 1; }

  const MixedRopeShape& shape() const noexcept { return shape_; }

 private:
  static MixedRopeShape checked(std::span<const double> inv_freq, const MixedRopeShape& shape) {
    constexpr auto function = "MixedRope";
    if (shape.axes < 1 || shape.heads < 1) {
      detail::fail<ConfigError>(function, "axes and heads must be given and positive but are ",
                                shape.axes, " and ", shape.heads);
    }
    detail::check_rotary_dim(function, shape.rotary_dim);
    detail::check_slice_and_factor(function, {shape.rotary_offset, shape.rotary_dim / 2}, 1);
    if (static_cast<Index>(inv_freq.size()) != shape.axes * shape.heads * (shape.rotary_dim / 2)) {
      detail::fail<ConfigError>(function, "inv_freq must have axes * heads * rotary_dim / 2 = ",
                                shape.axes * shape.heads * (shape.rotary_dim / 2),
                                " values but has ", inv_freq.size());
    }
    for (const double w : inv_freq) {
      if (!std::isfinite(w)) {
        detail::fail<ConfigError>(function, "every inv_freq must be finite but one is ", w);
      }
    }
    return shape;
  }

  CosSin turn(const Positions& positions, Index b, Index s, Index head, Index pair) const noexcept {
    CosSin sum;
    for (Index axis = 0; axis < shape_.axes; ++axis) {
      const Index at = (axis * shape_.heads + head) * slice_.pairs + pair;
      const CosSin next = oscillator_.at(positions.at(b, s, axis), at);
      sum = {mul_add(sum.cos, next.cos, -(sum.sin * next.sin)),
             mul_add(sum.sin, next.cos, sum.cos * next.sin)};
    }
    return sum;
  }

  template <detail::Written T>
  void apply(const char* function, detail::Direction direction, HeadsView<const T> x,
             HeadsView<T> out, const Positions& positions) const {
    detail::check_rotation<T>(function, x, out, slice_);
    if (x.heads != shape_.heads) {
      detail::fail<ShapeError>(function, "there are frequencies for ", shape_.heads,
                               " heads; x is ", x.extents());
    }
    detail::check_positions(function, positions, x.batch, x.seq, shape_.axes, x.extents());
    detail::check_reach(function, oscillator_, positions);
    using Real = Compute<T>;
    for (Index head = 0; head < x.heads; ++head) {
      const auto angles = [&](Index b, Index s, Index first, Index count, Real* cos, Real* sin) {
        for (Index i = 0; i < count; ++i) {
          const CosSin t = turn(positions, b, s, head, first + i);
          cos[i] = static_cast<Real>(t.cos);
          sin[i] = static_cast<Real>(t.sin);
        }
      };
      detail::rotate_tensor<Pairing>(slice_heads(x, head, 1), slice_heads(out, head, 1), slice_,
                                     direction, 1.0, positions.batch() == 1, angles);
    }
  }

  MixedRopeShape shape_;
  Oscillator oscillator_;
  detail::RotarySlice slice_;
};

/// RoPE-ViT's first frequencies for two axes, [2, heads, head_dim / 2]: head h has the axial ones,
/// base^(-2j / (head_dim / 2)), turned by angles[h] in the plane of the axes; angle 0 is the axial
/// encoding. The original draws the angles from [0, 2 pi) and takes base 10.
///   Throws: ConfigError
inline std::vector<double> rope_vit_mixed_inv_freq(Index head_dim, double base,
                                                   std::span<const double> angles) {
  constexpr auto function = "rope_vit_mixed_inv_freq";
  if (head_dim < 4 || head_dim % 4 != 0) {
    detail::fail<ConfigError>(function, "head_dim must be divisible by 4 and at least 4 but is ",
                              head_dim);
  }
  detail::check_base(function, base);
  const auto magnitudes = detail::power_law(base, head_dim / 2, head_dim / 4);
  std::vector<double> x, y;
  for (const double angle : angles) {
    const double c = std::cos(angle), s = std::sin(angle);
    // The second half is a quarter turn ahead of the first.
    for (const CosSin direction : {CosSin{c, s}, CosSin{-s, c}}) {
      for (const DoubleDouble& w : magnitudes) {
        x.push_back(w.hi * direction.cos);
        y.push_back(w.hi * direction.sin);
      }
    }
  }
  x.insert(x.end(), y.begin(), y.end());
  return x;
}

POSENC_END
