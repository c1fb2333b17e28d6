// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/double_double.hpp>
#include <posenc/core/error.hpp>
#include <posenc/simd/cos_sin.hpp>
#include <posenc/tensor/positions.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

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
  template <std::floating_point T>
  void row(double position, Index first, Index count, double factor, T* cos_row,
           T* sin_row) const noexcept {
    for (Index i = 0; i < count; ++i) {
      const CosSin value = at(position, first + i);
      cos_row[i] = static_cast<T>(factor * value.cos);
      sin_row[i] = static_cast<T>(factor * value.sin);
    }
  }

  /// Largest |inv_freq|.
  double fastest() const noexcept { return fastest_; }

 private:
  // Two arrays rather than one of pairs: a row is then two streams of neighbouring lanes.
  std::vector<double> turns_hi_, turns_lo_;
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
