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

#include <algorithm>
#include <cmath>
#include <concepts>
#include <type_traits>
#include <utility>
#include <vector>

POSENC_STABLE_BEGIN

/// How fast the scores of XPos decay, and from where positions are counted.
struct XPosSettings {
  double scale_base = 0;  ///< required; B, 512 in the paper
  double centre = 0;      ///< where queries and keys are not scaled; see XPos
};

POSENC_STABLE_END

POSENC_BEGIN

/// xPos (arXiv 2212.10554): rope whose queries grow and whose keys shrink with the
/// position, so that the score of query position p and key position q gets the factor zeta_i^((p -
/// q) / B), which decays for causal attention (p >= q).
///
///   query pairs: zeta_i^((p - c) / B) m R_p,   key pairs: zeta_i^-((q - c) / B) m R_q
///   zeta_i = (2i + 0.4 r) / (1.4 r) with r = rotary_dim
///
/// Other libraries take half of the length at hand as the centre c, so that keys in a cache and
/// later queries do not share it. Here it is fixed, hence decoding gives the scores of one pass.
/// Scores do not depend on c; range does.
///   Shapes:   x [B, S, H, D], positions [B or 1, S] on one axis; channels outside the rotary slice
///             keep their bits
///   Range:    scales stay within 2^+-63, half of float's exponents (double 2^+-511, half 2^+-7): for
///             B = 512, |position - c| <= 17847 in float and bfloat16, 144759 in double, 1983 in half
///   Throws:   ConfigError; ShapeError; PositionError beyond that range or where an angle exceeds
///             2^50. Nothing is written then
///   Accuracy: as Rope; scales within 2^-51 of themselves
///   Cost:     as Rope, and one exp2 a pair and position. No allocation
template <class Pairing = detail::NoPairing>
class XPos {
  static_assert(detail::is_pairing<Pairing>, POSENC_DETAIL_PAIRING_RULE);

 public:
  XPos(Frequencies frequencies, const XPosSettings& settings, Index rotary_offset = 0)
      : frequencies_(std::move(frequencies)),
        oscillator_(frequencies_.exact_inv_freq()),
        slice_{rotary_offset, frequencies_.pairs()},
        settings_(settings) {
    constexpr auto function = "XPos";
    detail::check_slice_and_factor(function, slice_, frequencies_.attention_factor());
    if (!std::isfinite(settings.scale_base) || settings.scale_base <= 0) {
      detail::fail<ConfigError>(function, "scale_base must be given, positive and finite, but is ",
                                settings.scale_base);
    }
    if (!std::isfinite(settings.centre)) {
      detail::fail<ConfigError>(function, "centre must be finite but is ", settings.centre);
    }
    const auto r = static_cast<double>(frequencies_.rotary_dim());
    for (Index i = 0; i < slice_.pairs; ++i) {
      // zeta with both sides times 5, so that nothing is rounded but the quotient.
      const DoubleDouble zeta = (DoubleDouble(10.0) * static_cast<double>(i) + 2.0 * r) / (7.0 * r);
      log2_zeta_.push_back(log(zeta) / detail::ln_2 / settings.scale_base);
    }
  }

  template <class Rule>
  XPos(const Rule& rule, const XPosSettings& settings, Index rotary_offset = 0)
      : XPos(detail::evaluate(rule), settings, rotary_offset) {}

  /// q <- zeta^((p - c) / B) m R q in place.
  template <detail::Written T>
  void rotate_queries(HeadsView<T> q, const Positions& positions) const {
    apply<T>("XPos::rotate_queries", detail::Direction::Forward, q, q, positions, 1);
  }
  /// k <- zeta^-((p - c) / B) m R k in place.
  template <detail::Written T>
  void rotate_keys(HeadsView<T> k, const Positions& positions) const {
    apply<T>("XPos::rotate_keys", detail::Direction::Forward, k, k, positions, -1);
  }

  /// The same into out, which is x itself or shares no memory with it; channels outside the rotary
  /// slice are copied.
  template <detail::Written T>
  void rotate_queries_into(HeadsView<const std::type_identity_t<T>> q, HeadsView<T> out,
                           const Positions& positions) const {
    apply<T>("XPos::rotate_queries_into", detail::Direction::Forward, q, out, positions, 1);
  }
  template <detail::Written T>
  void rotate_keys_into(HeadsView<const std::type_identity_t<T>> k, HeadsView<T> out,
                        const Positions& positions) const {
    apply<T>("XPos::rotate_keys_into", detail::Direction::Forward, k, out, positions, -1);
  }

  /// The transposed maps, which keep scale and attention factor: the backward pass.
  template <detail::Written T>
  void adjoint_queries(HeadsView<T> grad_q, const Positions& positions) const {
    apply<T>("XPos::adjoint_queries", detail::Direction::Adjoint, grad_q, grad_q, positions, 1);
  }
  template <detail::Written T>
  void adjoint_keys(HeadsView<T> grad_k, const Positions& positions) const {
    apply<T>("XPos::adjoint_keys", detail::Direction::Adjoint, grad_k, grad_k, positions, -1);
  }
  double softmax_scale_multiplier() const noexcept {
    return frequencies_.softmax_scale_multiplier();
  }

  /// zeta_i^((position - c) / B), the scale of pair i of a query; a key's is its reciprocal.
  double scale(double position, Index pair) const noexcept {
    return power(position - settings_.centre, log2_zeta_[static_cast<std::size_t>(pair)]);
  }

  const Frequencies& frequencies() const noexcept { return frequencies_; }
  const XPosSettings& settings() const noexcept { return settings_; }
  Index rotary_dim() const noexcept { return frequencies_.rotary_dim(); }
  Index rotary_offset() const noexcept { return slice_.offset; }

 private:
  /// 2^(t * e): the whole part of the exponent goes around exp2, so that large scales lose nothing.
  static double power(double t, DoubleDouble e) noexcept {
    const DoubleDouble product = detail::two_product(t, e.hi);
    const double whole = std::rint(product.hi);
    const double rest = (product.hi - whole) + mul_add(t, e.lo, product.lo);
    return std::ldexp(std::exp2(rest), static_cast<int>(whole));
  }

  /// log2 of the largest scale: half of the type's exponents, so that scaled values and their
  /// products with others of their kind stay finite.
  template <detail::Written T>
  static constexpr double largest_exponent() {
    if constexpr (std::same_as<T, double>) return 511;
    if constexpr (std::same_as<T, float>) return 63;
    return std::isfinite(static_cast<float>(static_cast<T>(0x1p64F))) ? 63 : 7;
  }

  template <detail::Written T>
  void check_range(const char* function, const Positions& positions) const {
    if (slice_.pairs == 0) return;
    // zeta_0 is the smallest, so the first pair has the largest exponents.
    const double farthest = largest_exponent<T>() / std::abs(log2_zeta_.front().hi);
    for (Index b = 0; b < positions.batch(); ++b) {
      for (Index s = 0; s < positions.count(); ++s) {
        const double distance = std::abs(positions.at(b, s) - settings_.centre);
        if (!(distance <= farthest)) {
          detail::fail<PositionError>(function, "positions must lie within ", farthest,
                                      " of the centre ", settings_.centre, ", but one is ",
                                      positions.at(b, s));
        }
      }
    }
  }

  template <detail::Written T>
  void apply(const char* function, detail::Direction direction, HeadsView<const T> x,
             HeadsView<T> out, const Positions& positions, double sign) const {
    detail::check_rotation<T>(function, x, out, slice_);
    detail::check_positions(function, positions, x.batch, x.seq, 1, x.extents());
    detail::check_reach(function, oscillator_, positions);
    check_range<T>(function, positions);
    using Real = Compute<T>;
    const auto angles = [&](Index b, Index s, Index first, Index count, Real* cos, Real* sin) {
      const double position = positions.at(b, s), t = sign * (position - settings_.centre);
      for (Index i = 0; i < count; ++i) {
        const CosSin turn = oscillator_.at(position, first + i);
        const double scale = frequencies_.attention_factor() *
                             power(t, log2_zeta_[static_cast<std::size_t>(first + i)]);
        cos[i] = static_cast<Real>(scale * turn.cos);
        sin[i] = static_cast<Real>(scale * turn.sin);
      }
    };
    detail::rotate_tensor<Pairing>(x, out, slice_, direction, frequencies_.attention_factor(),
                                   positions.batch() == 1, angles);
  }

  Frequencies frequencies_;
  Oscillator oscillator_;
  detail::RotarySlice slice_;
  XPosSettings settings_;
  std::vector<DoubleDouble> log2_zeta_;  // divided by scale_base
};

POSENC_END
