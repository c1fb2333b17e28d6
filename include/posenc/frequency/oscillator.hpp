// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/aligned_vector.hpp>
#include <posenc/core/double_double.hpp>
#include <posenc/core/error.hpp>
#include <posenc/simd/cos_sin.hpp>
#include <posenc/simd/twice.hpp>
#include <posenc/tensor/positions.hpp>

#include <algorithm>
#include <cmath>
#include <span>

POSENC_BEGIN

/// Turns frequencies and positions into cos and sin, at any position, from nothing but the
/// frequencies.
///
/// Angles are kept in quarter turns as double-double and reduced exactly, so that accuracy does not
/// decay with the position as it does where position * inv_freq is rounded (by 6e-2 at 1e6 in
/// float32).
///   Accuracy: for a = |position * inv_freq|: float within 0.5 ulp + 4e-16 for a <= 2^40, + 1e-13
///             to 2^50; double within 4e-16 for a <= 2^40, 1e-13 to 2^50. Larger angles are a
///             PositionError of the encoders.
class Oscillator {
 public:
  explicit Oscillator(std::span<const DoubleDouble> inv_freq) {
    turns_hi_.reserve(inv_freq.size());
    turns_lo_.reserve(inv_freq.size());
    for (const DoubleDouble& w : inv_freq) {
      const DoubleDouble turns = w * detail::two_over_pi;
      turns_hi_.push_back(turns.hi);
      turns_lo_.push_back(turns.lo);
      fastest_ = (std::max)(fastest_, std::abs(w.hi));
    }
  }

  /// Number of frequencies.
  Index size() const noexcept { return static_cast<Index>(turns_hi_.size()); }

  /// cos and sin of position * inv_freq[i].
  CosSin at(double position, Index i) const noexcept {
    const auto k = static_cast<std::size_t>(i);
    return cos_sin(position, DoubleDouble(turns_hi_[k], turns_lo_[k]));
  }

  /// factor * cos and factor * sin of frequencies first .. first + count - 1, rounded once to T
  /// (float or double).
  ///   Shapes: cos_row, sin_row [count]
  ///   Cost:   about 25 vector operations for each vector of doubles; no allocation
  template <class Tier = tier::Best, std::floating_point T>
  void row(double position, Index first, Index count, double factor, T* cos_row,
           T* sin_row) const noexcept {
    using P = Pack<double, Tier>;
    Index i = 0;
    for (; i + 2 * P::width <= count; i += 2 * P::width) {
      write<Twice<P>>(position, first + i, factor, cos_row + i, sin_row + i);
    }
    if (i + P::width <= count) {
      write<P>(position, first + i, factor, cos_row + i, sin_row + i);
      i += P::width;
    }
    if (i < count)
      write_partial<P>(position, first + i, factor, cos_row + i, sin_row + i, count - i);
  }

  /// Largest |inv_freq|.
  double fastest() const noexcept { return fastest_; }

 private:
  template <class P, class T>
  POSENC_ALWAYS_INLINE void write(double position, Index first, double factor, T* cos_row,
                                  T* sin_row) const noexcept {
    const CosSinOf<P> value = cos_sin(P::broadcast(position), P::load(turns_hi_.data() + first),
                                      P::load(turns_lo_.data() + first));
    store_as(times(factor, value.cos), cos_row);
    store_as(times(factor, value.sin), sin_row);
  }

  template <class P, class T>
  void write_partial(double position, Index first, double factor, T* cos_row, T* sin_row,
                     Index count) const noexcept {
    const CosSinOf<P> value =
        cos_sin(P::broadcast(position), P::load_partial(turns_hi_.data() + first, count),
                P::load_partial(turns_lo_.data() + first, count));
    store_partial_as(times(factor, value.cos), cos_row, count);
    store_partial_as(times(factor, value.sin), sin_row, count);
  }

  template <class P>
  POSENC_ALWAYS_INLINE static P times(double factor, P value) noexcept {
    return factor == 1 ? value : P::broadcast(factor) * value;
  }
  template <class P>
  POSENC_ALWAYS_INLINE static void store_as(P value, double* p) noexcept {
    value.store(p);
  }
  template <class P>
  POSENC_ALWAYS_INLINE static void store_as(P value, float* p) noexcept {
    value.store_rounded(p);
  }
  template <class P>
  POSENC_ALWAYS_INLINE static void store_partial_as(P value, double* p, Index n) noexcept {
    value.store_partial(p, n);
  }
  template <class P>
  POSENC_ALWAYS_INLINE static void store_partial_as(P value, float* p, Index n) noexcept {
    value.store_rounded_partial(p, n);
  }

  // Two arrays rather than one of pairs: a row is then two streams of neighbouring lanes.
  detail::AlignedVector<double> turns_hi_, turns_lo_;
  double fastest_ = 0;
};

namespace detail {

/// The oscillator's accuracy is promised up to 2^50 radians.
inline void check_reach(const char* function, const Oscillator& oscillator,
                        const Positions& positions) {
  if (!(positions.max_magnitude() * oscillator.fastest() <= 0x1p50)) {
    fail<PositionError>(
        function, "angles must not exceed 2^50 radians, but a position has magnitude ",
        positions.max_magnitude(), " and the fastest inv_freq is ", oscillator.fastest());
  }
}

}  // namespace detail
POSENC_END
