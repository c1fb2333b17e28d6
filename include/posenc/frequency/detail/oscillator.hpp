// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/core/detail/compiled.hpp>
#include <posenc/core/detail/double_double.hpp>
#include <posenc/core/detail/strict_fp_order.hpp>
#include <posenc/core/error.hpp>
#include <posenc/frequency/angle_policy.hpp>
#include <posenc/simd/cos_sin.hpp>
#include <posenc/simd/detail/pack_pair.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/tensor/positions.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

POSENC_BEGIN
namespace detail {

/// A bank of frequencies that computes cos and sin of position * inv_freq at any position, without
/// a table.
///
/// Frequencies are stored in quarter turns per position, as double-double, and angles are reduced
/// exactly. Accuracy therefore does not decay with the position. If position * inv_freq is rounded
/// to float32 instead, the error reaches 6e-2 at position 1e6.
///   Accuracy: stated at AnglePolicy; encoders throw PositionError for larger angles
///   Throws:   ConfigError if the compiler was allowed to reorder sums, because double-double
///             arithmetic would then be wrong
class Oscillator {
 public:
  explicit Oscillator(std::span<const DoubleDouble> inv_freq,
                      AnglePolicy policy = AnglePolicy::Exact, const char* function = "Oscillator")
      : policy_(policy) {
    check_strict_fp_order(function);
    if (policy == AnglePolicy::HfFloat32) {
      // The lower bound 2^-70 limits positions to 2^120 (check_max_angle()), which float can
      // represent.
      max_inv_freq_ = 0x1p-70;
      float_inv_freq_ = AlignedVector<double>(inv_freq.size());
      for (std::size_t k = 0; k < inv_freq.size(); ++k) {
        float_inv_freq_[k] = static_cast<double>(static_cast<float>(inv_freq[k].hi));
        max_inv_freq_ = (std::max)(max_inv_freq_, std::abs(float_inv_freq_[k]));
      }
      return;
    }
    quarter_turns_hi_ = AlignedVector<double>(inv_freq.size());
    quarter_turns_lo_ = AlignedVector<double>(inv_freq.size());
    for (std::size_t k = 0; k < inv_freq.size(); ++k) {
      const DoubleDouble quarter_turns = inv_freq[k] * two_over_pi;
      quarter_turns_hi_[k] = quarter_turns.hi;
      quarter_turns_lo_[k] = quarter_turns.lo;
      max_inv_freq_ = (std::max)(max_inv_freq_, std::abs(inv_freq[k].hi));
    }
  }

  /// Returns the number of frequencies.
  Index size() const noexcept {
    return static_cast<Index>((std::max)(quarter_turns_hi_.size(), float_inv_freq_.size()));
  }
  AnglePolicy policy() const noexcept { return policy_; }

  /// Returns cos and sin of position * inv_freq[i].
  CosSin at(double position, Index i) const noexcept {
    const auto k = static_cast<std::size_t>(i);
    if (policy_ == AnglePolicy::HfFloat32) {
      const float angle = static_cast<float>(position) * static_cast<float>(float_inv_freq_[k]);
      return cos_sin(static_cast<double>(angle), two_over_pi);
    }
    return cos_sin(position, DoubleDouble(quarter_turns_hi_[k], quarter_turns_lo_[k]));
  }

  /// Writes factor * cos and factor * sin of frequencies first .. first + count - 1, rounded once
  /// to T (float or double). With AnglePolicy::HfFloat32 cos, sin, factor and their products are
  /// rounded to float.
  ///   Shapes: cos_row, sin_row [count]
  ///   Cost:   about 25 vector operations per vector of doubles; no allocation
  template <class Tier = tier::Best, std::floating_point T>
  void cos_sin_row(double position, Index first, Index count, double factor, T* cos_row,
                   T* sin_row) const noexcept {
    cos_sin_row<Tier>(&position, true, first, count, factor, cos_row, sin_row);
  }

  /// Overload with one position per frequency, positions [count], or with one for all frequencies.
  template <class Tier = tier::Best, std::floating_point T>
  void cos_sin_row(const double* positions, bool is_shared, Index first, Index count, double factor,
                   T* cos_row, T* sin_row) const noexcept;

  /// Like the overload with one position, but always inlined. If `count` is a compile-time constant
  /// and the caller uses the row immediately, the values stay in registers.
  template <class Tier = tier::Best, std::floating_point T>
  POSENC_ALWAYS_INLINE void cos_sin_row_inline(double position, Index first, Index count,
                                               double factor, T* cos_row,
                                               T* sin_row) const noexcept {
    write_cos_sin<Tier>(PositionInRegister{position}, first, count, factor, cos_row, sin_row);
  }

  /// Returns the largest |inv_freq|, which bounds the positions that are accepted.
  double max_inv_freq() const noexcept { return max_inv_freq_; }

 private:
  struct PositionInRegister {
    /// True if the caller uses the row immediately, from registers.
    static constexpr bool consumed_in_registers = true;
    double position;
    double at(Index) const noexcept { return position; }
    template <class P>
    P load(Index) const noexcept {
      return P::broadcast(position);
    }
    template <class P>
    P load_partial(Index, Index) const noexcept {
      return P::broadcast(position);
    }
  };
  /// One position or one per frequency. A branch per vector costs less than a second function.
  struct PositionsInMemory {
    static constexpr bool consumed_in_registers = false;
    const double* positions;
    bool is_shared;
    double at(Index i) const noexcept { return positions[is_shared ? 0 : i]; }
    template <class P>
    P load(Index i) const noexcept {
      return is_shared ? P::broadcast(*positions) : P::load(positions + i);
    }
    template <class P>
    P load_partial(Index i, Index n) const noexcept {
      return is_shared ? P::broadcast(*positions) : P::load_partial(positions + i, n);
    }
  };

  template <class Tier, class PositionSource, class T>
  POSENC_ALWAYS_INLINE void write_cos_sin(PositionSource positions, Index first, Index count,
                                          double factor, T* cos_row, T* sin_row) const noexcept {
    if (policy_ == AnglePolicy::HfFloat32) {
      write_float32(positions, first, count, factor, cos_row, sin_row);
      return;
    }
    using P = Pack<double, Tier>;
    Index i = 0;
    for (; i + 2 * P::width <= count; i += 2 * P::width) {
      write<PackPair<P>>(positions, i, first, factor, cos_row, sin_row);
    }
    for (; i < count; i += P::width) {
      const Index rest = (std::min)(Index{P::width}, count - i);
      const CosSinOf<P> value =
          cos_sin(positions.template load_partial<P>(i, rest),
                  P::load_partial(quarter_turns_hi_.data() + first + i, rest),
                  P::load_partial(quarter_turns_lo_.data() + first + i, rest));
      store_partial_as(scaled(factor, value.cos), cos_row + i, rest);
      store_partial_as(scaled(factor, value.sin), sin_row + i, rest);
    }
  }

  template <class P, class PositionSource, class T>
  POSENC_ALWAYS_INLINE void write(PositionSource positions, Index i, Index first, double factor,
                                  T* cos_row, T* sin_row) const noexcept {
    const CosSinOf<P> value =
        cos_sin(positions.template load<P>(i), P::load(quarter_turns_hi_.data() + first + i),
                P::load(quarter_turns_lo_.data() + first + i));
    store<PositionSource>(scaled(factor, value.cos), cos_row + i);
    store<PositionSource>(scaled(factor, value.sin), sin_row + i);
  }

  template <class PositionSource, class P, class T>
  POSENC_ALWAYS_INLINE static void store(P value, T* p) noexcept {
    if constexpr (PositionSource::consumed_in_registers &&
                  requires { value.store_rounded_joined(p); }) {
      value.store_rounded_joined(p);
    } else {
      store_as(value, p);
    }
  }

  template <class PositionSource, class T>
  void write_float32(PositionSource positions, Index first, Index count, double factor, T* cos_row,
                     T* sin_row) const noexcept {
    const auto float_factor = static_cast<float>(factor);
    for (Index i = 0; i < count; ++i) {
      const CosSin value = at(positions.at(i), first + i);
      cos_row[i] = static_cast<T>(float_factor * static_cast<float>(value.cos));
      sin_row[i] = static_cast<T>(float_factor * static_cast<float>(value.sin));
    }
  }

  template <class P>
  POSENC_ALWAYS_INLINE static P scaled(double factor, P value) noexcept {
    return factor == 1 ? value : P::broadcast(factor) * value;
  }
  // Two arrays instead of one array of DoubleDouble, so that each load reads consecutive doubles.
  AlignedVector<double> quarter_turns_hi_, quarter_turns_lo_;
  /// inv_freq with AnglePolicy::HfFloat32, in place of the two arrays above. Each value is a float.
  AlignedVector<double> float_inv_freq_;
  double max_inv_freq_ = 0;
  AnglePolicy policy_ = AnglePolicy::Exact;
};

// Defined outside of the class: a function that is defined in a class is inline, and compilers
// compile inline functions even if an `extern template` says that another file has them.
template <class Tier, std::floating_point T>
void Oscillator::cos_sin_row(const double* positions, bool is_shared, Index first, Index count,
                             double factor, T* cos_row, T* sin_row) const noexcept {
  write_cos_sin<Tier>(PositionsInMemory{positions, is_shared}, first, count, factor, cos_row,
                      sin_row);
}

/// Throws PositionError if an angle can exceed 2^50 radians, the limit of the oscillator's
/// accuracy.
inline void check_max_angle(const char* function, const Oscillator& oscillator,
                            const Positions& positions) {
  if (!(positions.max_magnitude() * oscillator.max_inv_freq() <= 0x1p50)) {
    fail<PositionError>(
        function, "angles must not exceed 2^50 radians, but a position has magnitude ",
        positions.max_magnitude(), " and the fastest inv_freq is ", oscillator.max_inv_freq());
  }
}

#define POSENC_DETAIL_COS_SIN_ROWS(EXTERN, T)                                                 \
  EXTERN template void Oscillator::cos_sin_row<tier::Best>(const double*, bool, Index, Index, \
                                                           double, T*, T*) const noexcept;
#if POSENC_COMPILED
POSENC_DETAIL_COS_SIN_ROWS(extern, float)
POSENC_DETAIL_COS_SIN_ROWS(extern, double)
#endif

}  // namespace detail
POSENC_END
