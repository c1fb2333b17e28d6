// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/detail/double_double.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/rotary/detail/angle_gradient.hpp>
#include <posenc/rotary/detail/check_rotation.hpp>
#include <posenc/rotary/detail/mixed_angles.hpp>
#include <posenc/rotary/detail/rotate_tensors.hpp>
#include <posenc/rotary/detail/rotation_kernels.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/rotary/rotary_calls.hpp>
#include <posenc/simd/detail/prefetch.hpp>
#include <posenc/tensor/detail/check_positions.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

POSENC_STABLE_BEGIN

/// Settings of MixedRope: the shape of its frequencies.
struct MixedRopeConfig {
  Index axes = 2;           ///< number of axes of the positions, at most 64
  Index heads = 0;          ///< required
  Index rotary_dim = 0;     ///< required; even
  Index rotary_offset = 0;  ///< first rotary channel of a head
};

static_assert(std::is_trivially_copyable_v<MixedRopeConfig>);

POSENC_STABLE_END

POSENC_BEGIN

/// A rope whose pairs are each rotated by all axes at once, with different frequencies in every
/// head: the learned, mixed form of RoPE-ViT (arXiv 2403.13298; interleaved there).
///
///   angle of pair i of head h = sum over axes a of positions[a] * inv_freq[a, h, i]
///
/// Calls, types and errors are those of Rope. The attention factor is 1, so the inverse is the
/// adjoint. If all but one of a pair's frequencies are 0, its results are bit-identical to those of
/// a Rope on that axis.
///   Shapes:   x [B, S, heads, D], positions [B or 1, S] on `axes` axes, at most 64
///   Accuracy: the errors of cos and sin of AnglePolicy::Exact, one per axis, add up; each axis
///             after the first adds 2e-16
///   Cost:     angles once per head and coordinate of an axis, so coordinates that many tokens
///             share, as in a grid, cost little. 80 KB of stack, no allocation
template <class Pairing = detail::NoPairing>
class MixedRope : public RotaryCalls<MixedRope<Pairing>> {
  static_assert(detail::is_pairing<Pairing>, POSENC_DETAIL_PAIRING_RULE);

 public:
  /// Copies the rope. Moving copies, too, as for Rope.
  MixedRope(const MixedRope&) = default;
  /// Copies the rope.
  MixedRope& operator=(const MixedRope&) = default;

  /// Constructs the rope from inv_freq [axes, heads, rotary_dim / 2], taken as exact.
  ///   Throws: ConfigError
  MixedRope(ListView<double> inv_freq, const MixedRopeConfig& config)
      : config_(checked(inv_freq, config)),
        oscillator_(detail::exact_inv_freq(Frequencies::from_inv_freq(inv_freq)),
                    AnglePolicy::Exact, "MixedRope"),
        slice_{config.rotary_offset, config.rotary_dim / 2} {}

  /// Returns 1: the softmax scale is unchanged.
  double softmax_scale_multiplier() const noexcept { return 1; }

  /// Returns the settings.
  const MixedRopeConfig& config() const noexcept { return config_; }

  /// Returns zeros of the size that accumulate_frequency_gradient() adds to: [axes, heads,
  /// rotary_dim / 2].
  std::vector<double> zero_frequency_gradient() const {
    return std::vector<double>(
        static_cast<std::size_t>(config_.axes * config_.heads * slice_.pairs));
  }

 private:
  static MixedRopeConfig checked(ListView<double> inv_freq, const MixedRopeConfig& config) {
    constexpr auto function = "MixedRope";
    if (config.axes < 1 || config.heads < 1) {
      detail::fail<ConfigError>(function, "axes and heads must be set and positive but are ",
                                config.axes, " and ", config.heads);
    }
    if (config.axes > detail::MixedAngles::max_axes) {
      detail::fail<ConfigError>(function, "axes must be at most ", detail::MixedAngles::max_axes,
                                " but are ", config.axes);
    }
    detail::check_rotary_dim(function, config.rotary_dim);
    detail::check_slice_and_factor(function, {config.rotary_offset, config.rotary_dim / 2}, 1);
    const auto count = detail::checked_mul({config.axes, config.heads, config.rotary_dim / 2});
    if (count != static_cast<Index>(inv_freq.size())) {
      detail::fail<ConfigError>(function, "inv_freq must have axes * heads * rotary_dim / 2 = ",
                                count ? detail::to_text(*count) : "more than 2^63 - 1",
                                " values but has ", inv_freq.size());
    }
    for (const double w : inv_freq) {
      if (!std::isfinite(w)) {
        detail::fail<ConfigError>(function, "every inv_freq must be finite but one is ", w);
      }
    }
    return config;
  }

  template <class>
  friend class RotaryCalls;

  static constexpr detail::RotaryCallNames names{.rotate = "MixedRope::rotate",
                                                 .rotate_all = "MixedRope::rotate_all",
                                                 .rotate_into = "MixedRope::rotate_into",
                                                 .adjoint = "MixedRope::adjoint",
                                                 .inverse = "MixedRope::inverse"};

  static constexpr Index tokens_per_block = 16;

  template <Scalar In, Scalar Out, Device D>
  void apply(const char* function, detail::Direction direction, const D& device,
             ListView<detail::RotationOperand<In, Out>> tensors, const Positions& positions) const {
    for (const detail::RotationOperand<In, Out>& x : tensors) {
      detail::check_rotation(function, x, slice_);
      if (x.in.heads != config_.heads) {
        detail::fail<ShapeError>(function, "there are frequencies for ", config_.heads,
                                 " heads; x is ", x.in.extents());
      }
      detail::check_positions(function, positions, x.in.batch, x.in.seq, config_.axes,
                              x.in.extents());
    }
    detail::check_same_tokens(function, tensors);
    detail::check_max_angle(function, oscillator_, positions);

    const HeadsView<const In>& x = tensors[0].in;
    if (x.empty())
      return;  // the other tensors are empty too: they differ only in dim, which includes the slice
    const bool shared = positions.batch() == 1;
    const Index rows = shared ? Index{x.batch} : 1;  // batch rows that share one set of angles
    const double bytes = static_cast<double>(x.heads * slice_.pairs * 2) * sizeof(In);
    detail::parallel_for(device, shared ? Index{x.seq} : x.batch * x.seq,
                         bytes * static_cast<double>(rows), bytes / 2,
                         [&](Index unit, Index unit_end) {
                           detail::MixedAngles angles(config_.axes, slice_.pairs);
                           while (unit < unit_end) {
                             const Index b = shared ? 0 : unit / x.seq, s = unit - b * x.seq;
                             const Index seq = angles.register_tokens(
                                 positions, b, s, (std::min)(Index{x.seq}, s + unit_end - unit));
                             rotate_tokens(tensors, direction, angles, b, rows, s, seq);
                             for (const detail::RotationOperand<In, Out>& operand : tensors) {
                               if (!detail::share_data(operand.in, operand.out))
                                 detail::copy_unrotated(operand, b, rows, s, seq, slice_);
                             }
                             unit += seq;
                           }
                         });
  }

  /// Rotates the tokens registered in `angles`, in batch rows [b, b + rows).
  template <Scalar In, Scalar Out>
  void rotate_tokens(ListView<detail::RotationOperand<In, Out>> tensors,
                     detail::Direction direction, detail::MixedAngles& angles, Index b, Index rows,
                     Index s, Index seq) const noexcept {
    using C = Compute<In>;
    constexpr auto capacity =
        static_cast<std::size_t>(tokens_per_block * detail::MixedAngles::max_pairs);
    alignas(64) C cos[capacity], sin[capacity];
    for (Index head = 0; head < config_.heads; ++head) {
      for (Index first = 0; first < slice_.pairs; first += angles.pairs()) {
        const Index count = (std::min)(angles.pairs(), slice_.pairs - first);
        const auto rotate =
            detail::block_kernel<detail::KernelPairing<Pairing>, In, tier::Best, Out>(count).rotate;
        angles.compute(oscillator_, first, count, [&](Index axis, Index pair) {
          return (axis * config_.heads + head) * slice_.pairs + pair;
        });
        prefetch_heads(tensors, b, rows, s, (std::min)(tokens_per_block, seq), head);
        for (Index token = 0; token < seq; token += tokens_per_block) {
          const Index tokens = (std::min)(tokens_per_block, seq - token);
          prefetch_heads(tensors, b, rows, s + token + tokens_per_block,
                         (std::min)(tokens_per_block, seq - token - tokens_per_block), head);
          angles.write(token, tokens, count, cos, sin);
          detail::CosSinRows<C> block_angles{cos, sin, count};
          if (direction != detail::Direction::Forward) {
            block_angles =
                detail::apply_direction(block_angles, direction, 1.0, tokens, count, cos, sin);
          }
          for (const detail::RotationOperand<In, Out>& x : tensors) {
            HeadsView<const In> one_head = x.in;  // because every head has different angles
            one_head.heads = 1;
            const Index distance = detail::plan_rotation(one_head, slice_).prefetch_distance;
            for (Index row = b; row < b + rows; ++row) {
              rotate(detail::rotation_block<Pairing>(x, slice_, row, s + token, tokens, head, 1,
                                                     first, count, block_angles, distance));
            }
          }
        }
      }
    }
  }

  /// Prefetches rows of one head, which are far apart, while the angles of earlier tokens are
  /// computed.
  template <Scalar In, Scalar Out>
  void prefetch_heads(ListView<detail::RotationOperand<In, Out>> tensors, Index b, Index rows,
                      Index s, Index tokens, Index head) const noexcept {
    const auto bytes = static_cast<Index>(sizeof(Out)) * 2 * slice_.pairs;
    for (const detail::RotationOperand<In, Out>& x : tensors) {
      for (Index row = b; row < b + rows; ++row) {
        for (Index token = s; token < s + tokens; ++token) {
          detail::prefetch_for_write(x.out.row(row, token, head) + slice_.offset, bytes);
        }
      }
    }
  }

  MixedRopeConfig config_;
  detail::Oscillator oscillator_;
  detail::RotarySlice slice_;
};

/// Overload for MixedRope, with frequencies [axes, heads, rotary_dim / 2]; see rotary/rope.hpp.
template <class Pairing, class T, Device D = detail::CallingThread>
requires Scalar<std::remove_const_t<T>>
void accumulate_frequency_gradient(const MixedRope<Pairing>& rope,
                                   HeadsView<const std::remove_const_t<T>> y, HeadsView<T> grad_y,
                                   const Positions& positions, std::span<double> grad_inv_freq,
                                   const D& device = {}) {
  using Element = std::remove_const_t<T>;
  constexpr auto function = "accumulate_frequency_gradient";
  const MixedRopeConfig& config = rope.config();
  const detail::RotarySlice slice{config.rotary_offset, config.rotary_dim / 2};
  detail::check_extents(function, "rotated", y);
  if (y.heads != config.heads) {
    detail::fail<ShapeError>(function, "there are frequencies for ", config.heads, " heads; x is ",
                             y.extents());
  }
  detail::check_frequency_gradient<Element>(
      function, y, grad_y, slice, positions, config.axes,
      static_cast<std::size_t>(config.axes * config.heads * slice.pairs), grad_inv_freq.size());
  detail::for_each_angle_gradient<Pairing, Element>(
      device, y, grad_y, slice, [&](Index b, Index s, Index h, Index i, double gradient) {
        for (Index axis = 0; axis < config.axes; ++axis) {
          const Index at = (axis * config.heads + h) * slice.pairs + i;
          double& sum = grad_inv_freq[static_cast<std::size_t>(at)];
          sum = mul_add(positions.at(b, s, axis), gradient, sum);
        }
      });
}

/// Returns RoPE-ViT's initial frequencies for two axes, [2, heads, head_dim / 2]. Head h has the
/// axial frequencies base^(-2j / (head_dim / 2)), rotated by angles[h] in the plane of the axes.
/// Angle 0 gives the axial encoding. The original draws the angles from [0, 2 pi) and uses base 10.
///   Throws: ConfigError
inline std::vector<double> rope_vit_mixed_inv_freq(Index head_dim, double base,
                                                   std::span<const double> angles) {
  constexpr auto function = "rope_vit_mixed_inv_freq";
  detail::check_head_of_two_halves(function, head_dim);
  detail::check_base(function, base);
  const auto magnitudes = detail::power_law(base, head_dim / 2, head_dim / 4);
  std::vector<double> x, y;
  for (const double angle : angles) {
    const double c = std::cos(angle), s = std::sin(angle);
    // The second half is rotated by a quarter turn relative to the first half.
    for (const detail::CosSin direction : {detail::CosSin{c, s}, detail::CosSin{-s, c}}) {
      for (const detail::DoubleDouble& w : magnitudes) {
        x.push_back(w.hi * direction.cos);
        y.push_back(w.hi * direction.sin);
      }
    }
  }
  for (const double of_y : y) x.push_back(of_y);
  return x;
}

POSENC_END
