// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/double_double.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/rotary/detail/check_rotation.hpp>
#include <posenc/rotary/detail/rotate_tensors.hpp>
#include <posenc/rotary/detail/rotation_kernels.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/simd/cos_sin.hpp>
#include <posenc/tensor/detail/check_positions.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cstddef>
#include <limits>
#include <vector>

// Re-rotation of rotated keys in a cache, without the original keys.
POSENC_BEGIN

namespace detail {

template <class Pairing, detail::Writable T>
void check_rerotation(const char* function, const Rope<Pairing>& rope, HeadsView<T> k) {
  check_rotation(function, RotationOperand<T>{k, k}, {rope.rotary_offset(), rope.rotary_dim() / 2});
}

/// Rotates each key by a delta per key, or all keys by the only position of `deltas`.
template <Device D, class Pairing, detail::Writable T>
void rotate_by_deltas(const D& device, HeadsView<T> k, const Rope<Pairing>& rope,
                      const Positions& deltas, bool is_delta_of_all) {
  using C = Compute<T>;
  const RotationOperand<T> keys{k, k};
  rotate_tensors<Pairing>(
      device, ListView(&keys, 1), {rope.rotary_offset(), rope.rotary_dim() / 2}, Direction::Forward,
      1.0, is_delta_of_all || deltas.batch() == 1,
      [&](Index b, Index s, Index seq, Index first, Index count, C* cos, C* sin) {
        compute_cos_sin_rows(oscillator_of(rope), rope.axes(), deltas, b, is_delta_of_all ? 0 : s,
                             is_delta_of_all ? 1 : seq, first, count, 1.0, cos, sin);
        return CosSinRows<C>{cos, sin, is_delta_of_all ? 0 : count};
      });
}

/// Returns cos and sin of to_position * w' - from_position * w for one pair.
template <class Pairing>
CosSin rotation_between(const Rope<Pairing>& from, double from_position, const Rope<Pairing>& to,
                        double to_position, Index pair) noexcept {
  if (from.angle_policy() == AnglePolicy::Exact && to.angle_policy() == AnglePolicy::Exact) {
    // The difference of the angles rounds once, a product of two rotations four times.
    const auto i = static_cast<std::size_t>(pair);
    const DoubleDouble angle = exact_inv_freq(to.frequencies())[i] * to_position -
                               exact_inv_freq(from.frequencies())[i] * from_position;
    return cos_sin(1.0, angle * two_over_pi);
  }
  const CosSin from_rotation = oscillator_of(from).at(from_position, pair);
  const CosSin to_rotation = oscillator_of(to).at(to_position, pair);
  return {mul_add(to_rotation.cos, from_rotation.cos, to_rotation.sin * from_rotation.sin),
          mul_add(to_rotation.sin, from_rotation.cos, -(to_rotation.cos * from_rotation.sin))};
}

}  // namespace detail

/// Shifts rotated keys by deltas: k <- R_delta k, without the attention factor. Keys contain that
/// factor already, and multiplying by it at each shift would make their norms grow. Pairs whose
/// axis has delta 0 keep their values.
///   Shapes:   k [B, S, H, D], deltas [B or 1, S] on the axes of the rope
///   Throws:   ShapeError; PositionError if |delta * inv_freq| exceeds 2^50
///   Device:   the threads of the device share batch rows and positions; results are bit-identical
///   Accuracy: that of Rope; over 1000 shifts in float a pair's norm drifts by less than 1e-4 of
///             itself. Angles under AnglePolicy::HfFloat32 do not add up; use rerotate() for them
template <class Pairing, detail::Writable T, Device D = detail::CallingThread>
void shift_keys(HeadsView<T> k, const Rope<Pairing>& rope, const Positions& deltas,
                const D& device = {}) {
  constexpr auto function = "shift_keys";
  detail::check_rerotation(function, rope, k);
  detail::check_positions(function, deltas, k.batch, k.seq, rope.axis_count(), k.extents());
  detail::check_max_angle(function, detail::oscillator_of(rope), deltas);
  detail::rotate_by_deltas(device, k, rope, deltas, false);
}

/// Overload with one delta per axis for all keys; a context shift by -n is {-n}.
template <class Pairing, detail::Writable T, Device D = detail::CallingThread>
void shift_keys(HeadsView<T> k, const Rope<Pairing>& rope, ListView<Index> delta_of_axis,
                const D& device = {}) {
  constexpr auto function = "shift_keys";
  detail::check_rerotation(function, rope, k);
  if (static_cast<Index>(delta_of_axis.size()) != rope.axis_count()) {
    detail::fail<ShapeError>(function, "there must be one delta for each of the ",
                             rope.axis_count(), " axes but there are ", delta_of_axis.size());
  }
  std::vector<Positions> axes;
  for (const Index delta : delta_of_axis) axes.push_back(Positions::range(delta, 1));
  const Positions delta = Positions::axes(axes);
  detail::check_max_angle(function, detail::oscillator_of(rope), delta);
  detail::rotate_by_deltas(device, k, rope, delta, true);
}

/// Re-rotates cached keys in place from (from, from_positions) to (to, to_positions): rotates each
/// pair by p' w' - p w and scales it by m' / m. Use it if dynamic NTK, dynamic YaRN or LongRoPE
/// changes the frequencies with the length.
///   Shapes:   k [B, S, H, D], positions [B or 1, S] on the axes of their rope
///   Throws:   ShapeError; ConfigError if the ropes rotate different channels, or if m' / m is not
///             a normal number of the type of the arithmetic; PositionError
///   Device:   the threads of the device share batch rows and positions; results are bit-identical
///   Accuracy: for angles up to 2^40, that of three rotations: the earlier one of k, this one, and
///             the rotation by `to` of the original key, with which the result is compared. A
///             search over 100 million pairs found at most 4 ulp of the norm in float and 6 in
///             double, there under AnglePolicy::Exact. AnglePolicy::HfFloat32 rounds cos and sin to
///             float, so that tensors of double have errors of float
///   Cost:     one pass over k; one angle in double-double per pair and position. No allocation
template <class Pairing, detail::Writable T, Device D = detail::CallingThread>
void rerotate(HeadsView<T> k, const Rope<Pairing>& from, const Positions& from_positions,
              const Rope<Pairing>& to, const Positions& to_positions, const D& device = {}) {
  constexpr auto function = "rerotate";
  if (from.rotary_dim() != to.rotary_dim() || from.rotary_offset() != to.rotary_offset()) {
    detail::fail<ConfigError>(function, "both ropes must rotate the same channels but they are [",
                              from.rotary_offset(), ", ", from.rotary_offset() + from.rotary_dim(),
                              ") and [", to.rotary_offset(), ", ",
                              to.rotary_offset() + to.rotary_dim(), ")");
  }
  using Real = Compute<T>;
  const double from_factor = from.frequencies().attention_factor();
  const double to_factor = to.frequencies().attention_factor(), ratio = to_factor / from_factor;
  // A float does not hold the ratio of all factors that are allowed.
  if (!(ratio >= static_cast<double>((std::numeric_limits<Real>::min)()) &&
        ratio <= static_cast<double>((std::numeric_limits<Real>::max)()))) {
    detail::fail<ConfigError>(function,
                              "the ratio of the attention factors must be a normal number in the ",
                              "arithmetic of k, but they are ", to_factor, " and ", from_factor);
  }
  detail::check_rerotation(function, from, k);
  const auto check = [&](const Rope<Pairing>& rope, const Positions& positions) {
    detail::check_positions(function, positions, k.batch, k.seq, rope.axis_count(), k.extents());
    detail::check_kind(function, positions, rope.axes().kind());
    detail::check_max_angle(function, detail::oscillator_of(rope), positions);
  };
  check(from, from_positions);
  check(to, to_positions);

  const detail::RotationOperand<T> keys{k, k};
  detail::rotate_tensors<Pairing>(
      device, ListView(&keys, 1), {to.rotary_offset(), to.rotary_dim() / 2},
      detail::Direction::Forward, 1.0, from_positions.batch() == 1 && to_positions.batch() == 1,
      [&](Index b, Index s, Index seq, Index first, Index count, Real* cos, Real* sin) {
        for (Index n = 0; n < seq * count; ++n) {
          const Index token = s + n / count, pair = first + n % count;
          const detail::CosSin rotation =
              detail::rotation_between(from, from_positions.at(b, token, from.axes().axis(pair)),
                                       to, to_positions.at(b, token, to.axes().axis(pair)), pair);
          cos[n] = static_cast<Real>(ratio * rotation.cos);
          sin[n] = static_cast<Real>(ratio * rotation.sin);
        }
        return detail::CosSinRows<Real>{cos, sin, count};
      });
}

POSENC_END
