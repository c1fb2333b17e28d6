// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/core/detail/double_double.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/rotary/detail/check_rotation.hpp>
#include <posenc/rotary/detail/rotate_tensors.hpp>
#include <posenc/rotary/detail/rotation_kernels.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/simd/cos_sin.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/exp.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/detail/check_positions.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

POSENC_STABLE_BEGIN

/// The decay of the scores of XPos, and the position from which it is measured.
struct XPosConfig {
  double scale_base = 0;  ///< required; B, 512 in the paper; within 1e-100 and 1e100
  double centre = 0;      ///< position at which queries and keys are not scaled; see XPos
};

static_assert(std::is_trivially_copyable_v<XPosConfig>);

POSENC_STABLE_END

POSENC_BEGIN

namespace detail {

/// The product factor * (hi + lo), split into an integer and a fraction, |fraction| <= 1/2, if
/// |factor.hi * hi| < 2^51.
template <class P>
struct SplitProduct {
  P integer, fraction;
};
template <class P>
POSENC_ALWAYS_INLINE SplitProduct<P> split_product(const DoubleDouble& factor, P hi,
                                                   P lo) noexcept {
  const P t = P::broadcast(factor.hi);
  const P product = t * hi;
  const P integer = (product + P::broadcast(shifter)) - P::broadcast(shifter);
#if POSENC_HAS_FMA
  P error = mul_add(t, hi, P::zero() - product);
#else
  // Dekker's product, as in reduce_angle().
  const P upper = P::broadcast(std::bit_cast<double>(0xfffffffff8000000u));
  const P t_high = t & upper, hi_high = hi & upper;
  const P t_low = t - t_high, hi_low = hi - hi_high;
  P error = ((t_high * hi_high - product) + t_high * hi_low + t_low * hi_high) + t_low * hi_low;
#endif
  if (factor.lo != 0) error = mul_add(P::broadcast(factor.lo), hi, error);
  return {integer, (product - integer) + mul_add(t, lo, error)};
}

/// Returns 2^x for |x| <= 1/2.
///   Accuracy: relative error 2^-52.4
template <class P>
POSENC_ALWAYS_INLINE P exp2_fraction(P x) noexcept {
  const P r = x * P::broadcast(ln_2.hi);
  return mul_add(exp_polynomial(r), r * r, r) + P::broadcast(1.0);
}

/// Computes cos[i] and sin[i] as factor 2^(t (hi[i] + lo[i])) times the unscaled cos and sin, for
/// exponents within +-1022. The low part of t matters if the centre is not an integer.
template <class Tier = tier::Best, std::floating_point Real>
void scale_by_powers(DoubleDouble t, const double* hi, const double* lo, double factor,
                     const double* unscaled_cos, const double* unscaled_sin, Real* cos, Real* sin,
                     Index count) noexcept {
  using P = Pack<double, Tier>;
  const auto scale_of = [&](P high, P low) {
    const auto [integer, fraction] = split_product(t, high, low);
    constexpr int shift = ExpConstants<double>::exponent_shift;
    const P power = shift_left<shift>(integer + P::broadcast(ExpConstants<double>::shifter +
                                                             ExpConstants<double>::exponent_bias));
    return P::broadcast(factor) * (exp2_fraction(fraction) * power);
  };
  Index i = 0;
  for (; i + P::width <= count; i += P::width) {
    const P scale = scale_of(P::load(hi + i), P::load(lo + i));
    store_as(scale * P::load(unscaled_cos + i), cos + i);
    store_as(scale * P::load(unscaled_sin + i), sin + i);
  }
  if (const Index n = count - i; n > 0) {
    const P scale = scale_of(P::load_partial(hi + i, n), P::load_partial(lo + i, n));
    store_partial_as(scale * P::load_partial(unscaled_cos + i, n), cos + i, n);
    store_partial_as(scale * P::load_partial(unscaled_sin + i, n), sin + i, n);
  }
}

/// Returns 2^(t e), also if it overflows or underflows.
inline double power_of_2(DoubleDouble t, DoubleDouble e) noexcept {
  using One = Pack<double, tier::Scalar>;
  const double exponent = t.hi * e.hi;
  if (!(std::abs(exponent) <= 4e3)) return std::exp2(exponent);  // 0, infinity or NaN
  const auto [integer, fraction] = split_product(t, One{e.hi}, One{e.lo});
  return std::ldexp(exp2_fraction(fraction).v, static_cast<int>(integer.v));
}

}  // namespace detail

/// xPos (arXiv 2212.10554): a rope with an additional scale, which shrinks queries and grows keys
/// with the position. The score of query position p and key position q gets the factor zeta_i^((p -
/// q) / B), which decays for causal attention (p >= q).
///
///   query pairs: zeta_i^((p - c) / B) m R_p,   key pairs: zeta_i^-((q - c) / B) m R_q
///   zeta_i = (2i + 0.4 r) / (1.4 r) with r = rotary_dim
///
/// Other libraries use half of the current length as the centre c, so that cached keys and later
/// queries have different centres. Here c is fixed, so decoding gives the scores of one pass.
/// Scores do not depend on c, but the range does.
///
/// Scales stay within 2^+-63, half of float's exponents (double 2^+-511, half 2^+-7). For B = 512
/// the largest |position - c| is 17847 in float and bfloat16, 144759 in double, and 1983 in half.
///   Shapes:   x [B, S, H, D], positions [B or 1, S] on one axis; channels outside the rotary slice
///             are unchanged
///   Throws:   ConfigError; ShapeError; PositionError beyond that range or if an angle exceeds
///             2^50. Nothing is written then
///   Device:   the threads of the device share batch rows and positions; results are bit-identical
///   Accuracy: that of Rope; scales have a relative error of at most 2^-51
///   Cost:     that of Rope, and about 25 vector operations more per vector of doubles. No
///             allocation
template <class Pairing = detail::NoPairing>
class XPos {
  static_assert(detail::is_pairing<Pairing>, POSENC_DETAIL_PAIRING_RULE);

 public:
  /// Copies the encoding. Moving copies, too, as for Rope.
  XPos(const XPos&) = default;
  /// Copies the encoding.
  XPos& operator=(const XPos&) = default;

  /// Constructs the encoding from frequencies. rotary_offset is the first rotary channel of a head.
  ///   Throws: ConfigError
  XPos(Frequencies frequencies, const XPosConfig& config, Index rotary_offset = 0)
      : frequencies_(std::move(frequencies)),
        oscillator_(detail::exact_inv_freq(frequencies_), AnglePolicy::Exact, "XPos"),
        slice_{rotary_offset, frequencies_.pairs()},
        config_(config) {
    constexpr auto function = "XPos";
    detail::check_slice_and_factor(function, slice_, frequencies_.attention_factor());
    if (!std::isfinite(config.scale_base) || config.scale_base <= 0) {
      detail::fail<ConfigError>(function, "scale_base must be set, positive and finite, but is ",
                                config.scale_base);
    }
    // Within these bounds, far beyond any use, log2(zeta) / B is a normal number, and a distance
    // that overflows is beyond the range.
    if (config.scale_base < 1e-100 || config.scale_base > 1e100) {
      detail::fail<ConfigError>(function, "scale_base must lie within 1e-100 and 1e100 but is ",
                                config.scale_base);
    }
    if (!std::isfinite(config.centre)) {
      detail::fail<ConfigError>(function, "centre must be finite but is ", config.centre);
    }
    const auto r = static_cast<double>(frequencies_.rotary_dim());
    const auto pairs = static_cast<std::size_t>(slice_.pairs);
    log2_zeta_hi_ = detail::AlignedVector<double>(pairs);
    log2_zeta_lo_ = detail::AlignedVector<double>(pairs);
    for (std::size_t i = 0; i < pairs; ++i) {
      // Numerator and denominator of zeta are multiplied by 5, so that only the quotient is
      // rounded.
      const detail::DoubleDouble zeta =
          (detail::DoubleDouble(10.0) * static_cast<double>(i) + 2.0 * r) / (7.0 * r);
      const detail::DoubleDouble log2_zeta = log(zeta) / detail::ln_2 / config.scale_base;
      log2_zeta_hi_[i] = log2_zeta.hi;
      log2_zeta_lo_[i] = log2_zeta.lo;
    }
  }

  /// Constructs the encoding from a scaling rule that does not depend on the length.
  ///   Throws: ConfigError
  template <class Rule>
  XPos(const Rule& rule, const XPosConfig& config, Index rotary_offset = 0)
      : XPos(detail::evaluate(rule), config, rotary_offset) {}

  /// Computes q <- zeta^((p - c) / B) m R q in place.
  template <detail::Writable T, Device D = detail::CallingThread>
  void rotate_queries(HeadsView<T> q, const Positions& positions, const D& device = {}) const {
    apply<T, T>("XPos::rotate_queries", device, detail::Direction::Forward, {q, q}, positions, 1);
  }
  /// Computes k <- zeta^-((p - c) / B) m R k in place.
  template <detail::Writable T, Device D = detail::CallingThread>
  void rotate_keys(HeadsView<T> k, const Positions& positions, const D& device = {}) const {
    apply<T, T>("XPos::rotate_keys", device, detail::Direction::Forward, {k, k}, positions, -1);
  }

  /// Computes out <- zeta^((p - c) / B) m R q. `out` must be q itself or share no memory with it.
  /// Channels outside the rotary slice are copied.
  template <detail::Writable T, Device D = detail::CallingThread>
  void rotate_queries_into(HeadsView<const std::type_identity_t<T>> q, HeadsView<T> out,
                           const Positions& positions, const D& device = {}) const {
    apply<T, T>("XPos::rotate_queries_into", device, detail::Direction::Forward, {q, out},
                positions, 1);
  }
  /// Computes out <- zeta^-((p - c) / B) m R k, with the rules of rotate_queries_into().
  template <detail::Writable T, Device D = detail::CallingThread>
  void rotate_keys_into(HeadsView<const std::type_identity_t<T>> k, HeadsView<T> out,
                        const Positions& positions, const D& device = {}) const {
    apply<T, T>("XPos::rotate_keys_into", device, detail::Direction::Forward, {k, out}, positions,
                -1);
  }
  /// Overload that stores another element type, see RotaryCalls::rotate_into().
  template <class T, class In, Device D = detail::CallingThread>
  requires detail::Converts<In, T>
  void rotate_queries_into(HeadsView<In> q, HeadsView<T> out, const Positions& positions,
                           const D& device = {}) const {
    apply<std::remove_const_t<In>, T>("XPos::rotate_queries_into", device,
                                      detail::Direction::Forward, {q, out}, positions, 1);
  }
  /// Overload that stores another element type, see RotaryCalls::rotate_into().
  template <class T, class In, Device D = detail::CallingThread>
  requires detail::Converts<In, T>
  void rotate_keys_into(HeadsView<In> k, HeadsView<T> out, const Positions& positions,
                        const D& device = {}) const {
    apply<std::remove_const_t<In>, T>("XPos::rotate_keys_into", device, detail::Direction::Forward,
                                      {k, out}, positions, -1);
  }

  /// Computes the transpose of rotate_queries() in place, its backward pass. It keeps the scale and
  /// the attention factor.
  template <detail::Writable T, Device D = detail::CallingThread>
  void adjoint_queries(HeadsView<T> grad_q, const Positions& positions,
                       const D& device = {}) const {
    apply<T, T>("XPos::adjoint_queries", device, detail::Direction::Adjoint, {grad_q, grad_q},
                positions, 1);
  }
  /// Computes the transpose of rotate_keys() in place, its backward pass. It keeps the scale and
  /// the attention factor.
  template <detail::Writable T, Device D = detail::CallingThread>
  void adjoint_keys(HeadsView<T> grad_k, const Positions& positions, const D& device = {}) const {
    apply<T, T>("XPos::adjoint_keys", device, detail::Direction::Adjoint, {grad_k, grad_k},
                positions, -1);
  }

  /// Computes x <- m R x in place: the rotation without the scale, which is that of queries and
  /// keys at the centre. Scores of tensors rotated by this call do not decay.
  template <detail::Writable T, Device D = detail::CallingThread>
  void rotate(HeadsView<T> x, const Positions& positions, const D& device = {}) const {
    apply<T, T>("XPos::rotate", device, detail::Direction::Forward, {x, x}, positions, 0);
  }

  /// Returns the factor for the softmax scale of attention.
  double softmax_scale_multiplier() const noexcept {
    return frequencies_.softmax_scale_multiplier();
  }

  /// Returns zeta_i^((position - c) / B), the scale of pair i of a query. The scale of a key is its
  /// reciprocal.
  double scale(double position, Index pair) const noexcept {
    const auto i = static_cast<std::size_t>(pair);
    return detail::power_of_2(detail::two_sum(position, -config_.centre),
                              {log2_zeta_hi_[i], log2_zeta_lo_[i]});
  }

  /// Returns the frequencies of the pairs.
  const Frequencies& frequencies() const noexcept { return frequencies_; }
  /// Returns the settings.
  const XPosConfig& config() const noexcept { return config_; }
  /// Returns the number of rotated channels of a head.
  Index rotary_dim() const noexcept { return frequencies_.rotary_dim(); }
  /// Returns the first rotated channel of a head.
  Index rotary_offset() const noexcept { return slice_.offset; }

 private:
  /// Returns log2 of the largest scale: half of the type's exponents, so that scaled values and
  /// products of two scaled values stay finite.
  template <detail::Writable T>
  static constexpr double max_exponent() {
    if constexpr (std::same_as<T, double>) return 511;
    if constexpr (std::same_as<T, float>) return 63;
    return std::isfinite(static_cast<float>(static_cast<T>(0x1p64F))) ? 63 : 7;
  }

  template <detail::Writable T>
  void check_range(const char* function, const Positions& positions) const {
    if (slice_.pairs == 0) return;
    // zeta_0 is the smallest, so the first pair has the largest exponents.
    const double max_distance = max_exponent<T>() / std::abs(log2_zeta_hi_.front());
    detail::for_extreme_positions(positions, [&](double position) {
      if (!(std::abs(position - config_.centre) <= max_distance)) {
        detail::fail<PositionError>(function, "positions must lie within ", max_distance,
                                    " of the centre ", config_.centre, ", but one is ", position);
      }
    });
  }

  /// Computes scaled m cos and m sin of one position.
  template <std::floating_point Real>
  void compute_cos_sin(double position, double sign, Index first, Index count, Real* cos,
                       Real* sin) const noexcept {
    constexpr Index chunk = 128;
    alignas(64) double unscaled_cos[static_cast<std::size_t>(chunk)];
    alignas(64) double unscaled_sin[static_cast<std::size_t>(chunk)];
    detail::DoubleDouble t;
    if (sign != 0) {
      t = detail::two_sum(position, -config_.centre);
      t = {sign * t.hi, sign * t.lo};
    }
    for (Index done = 0; done < count; done += chunk) {
      const Index part = (std::min)(chunk, count - done), at = first + done;
      oscillator_.cos_sin_row(position, at, part, 1.0, unscaled_cos, unscaled_sin);
      detail::scale_by_powers(t, log2_zeta_hi_.data() + at, log2_zeta_lo_.data() + at,
                              frequencies_.attention_factor(), unscaled_cos, unscaled_sin,
                              cos + done, sin + done, part);
    }
  }

  template <Scalar In, Scalar Out, Device D>
  void apply(const char* function, const D& device, detail::Direction direction,
             const detail::RotationOperand<In, Out>& x, const Positions& positions,
             double sign) const {
    detail::check_rotation(function, x, slice_);
    detail::check_positions(function, positions, x.in.batch, x.in.seq, 1, x.in.extents());
    detail::check_max_angle(function, oscillator_, positions);
    if (sign != 0) check_range<Out>(function, positions);
    using Real = Compute<In>;
    detail::rotate_tensors<Pairing>(
        device, ListView(&x, 1), slice_, direction, frequencies_.attention_factor(),
        positions.batch() == 1,
        [&](Index b, Index s, Index seq, Index first, Index count, Real* cos, Real* sin) {
          for (Index i = 0; i < seq; ++i) {
            compute_cos_sin(positions.at(b, s + i), sign, first, count, cos + i * count,
                            sin + i * count);
          }
          return detail::CosSinRows<Real>{cos, sin, count};
        });
  }

  Frequencies frequencies_;
  detail::Oscillator oscillator_;
  detail::RotarySlice slice_;
  XPosConfig config_;
  // log2(zeta) / scale_base, as two arrays, so that each load reads consecutive doubles.
  detail::AlignedVector<double> log2_zeta_hi_, log2_zeta_lo_;
};

POSENC_END
