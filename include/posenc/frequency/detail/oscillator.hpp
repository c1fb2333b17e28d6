// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/core/detail/double_double.hpp>
#include <posenc/core/detail/move_reset_index.hpp>
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

POSENC_BEGIN
namespace detail {

/// A bank of frequencies that computes cos and sin of position * inv_freq at any position, without
/// a table.
///
/// Frequencies are stored in quarter turns per position, as double-double, and the whole quarter
/// turns of an angle are removed exactly. Accuracy therefore does not decay with the position. If
/// position * inv_freq is rounded to float32 instead, the error reaches 6e-2 at position 1e6.
///   Accuracy: stated at AnglePolicy; encoders throw PositionError for larger angles
///   Throws:   ConfigError if the compiler was allowed to reorder sums, because double-double
///             arithmetic would then be wrong
class Oscillator {
 public:
  explicit Oscillator(std::span<const DoubleDouble> inv_freq,
                      AnglePolicy policy = AnglePolicy::Exact, const char* function = "Oscillator")
      : policy_(policy),
        size_(static_cast<Index>(inv_freq.size())),
        rows_(static_cast<std::size_t>((uses_float() ? 3 : 2) * stride())) {
    check_strict_fp_order(function);
    // The lower bound 2^-70 limits positions to 2^120 (check_max_angle()), which float can
    // represent.
    if (uses_float()) max_inv_freq_ = 0x1p-70;
    double* const row = rows_.data();
    for (Index i = 0; i < size_; ++i) {
      const DoubleDouble& exact = inv_freq[static_cast<std::size_t>(i)];
      const double w = uses_float() ? static_cast<double>(static_cast<float>(exact.hi)) : exact.hi;
      const DoubleDouble quarter_turns = uses_float() ? two_over_pi : exact * two_over_pi;
      row[i] = quarter_turns.hi;
      row[stride() + i] = quarter_turns.lo;
      if (uses_float()) row[2 * stride() + i] = w;
      max_inv_freq_ = (std::max)(max_inv_freq_, std::abs(w));
    }
  }

  /// Returns the number of frequencies.
  Index size() const noexcept { return size_; }
  AnglePolicy policy() const noexcept { return policy_; }

  /// Returns cos and sin of position * inv_freq[i].
  CosSin at(double position, Index i) const noexcept {
    const double angle = uses_float() ? float_angle(position, i) : position;
    return cos_sin(angle, DoubleDouble(turns_hi()[i], turns_lo()[i]));
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
    if (uses_float()) {
      cos_sin_row<Tier>(position, first, count, factor, cos_row, sin_row);
    } else {
      write_cos_sin<Tier>(PositionInRegister{position}, first, count, factor, cos_row, sin_row);
    }
  }

  /// Returns the largest |inv_freq|, which bounds the positions that are accepted.
  double max_inv_freq() const noexcept { return max_inv_freq_; }

 private:
  struct PositionInRegister {
    /// True if the caller uses the row immediately, from registers.
    static constexpr bool consumed_in_registers = true;
    double position;
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
    using P = Pack<double, Tier>;
    // Local, because members would be loaded again after every store. g++ 12 would also store every
    // reduced angle to memory that nothing reads. A row of 64 would take 2.5 % more time.
    const double *const hi = turns_hi() + first, *const lo = turns_lo() + first;
    Index i = 0;
    for (; i + 2 * P::width <= count; i += 2 * P::width) {
      using Pair = PackPair<P>;
      const CosSinOf<Pair> value =
          cos_sin(positions.template load<Pair>(i), Pair::load(hi + i), Pair::load(lo + i));
      store<PositionSource>(scaled(factor, value.cos), cos_row + i);
      store<PositionSource>(scaled(factor, value.sin), sin_row + i);
    }
    for (; i < count; i += P::width) {
      const Index rest = (std::min)(Index{P::width}, count - i);
      const CosSinOf<P> value =
          cos_sin(positions.template load_partial<P>(i, rest), P::load_partial(hi + i, rest),
                  P::load_partial(lo + i, rest));
      store_partial_as(scaled(factor, value.cos), cos_row + i, rest);
      store_partial_as(scaled(factor, value.sin), sin_row + i, rest);
    }
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

  /// Writes cos and sin of given multiples of the frequencies' quarter turns.
  template <class Tier, class T>
  POSENC_NOINLINE void write_row(const double* positions, bool is_shared, Index first, Index count,
                                 double factor, T* cos_row, T* sin_row) const noexcept {
    write_cos_sin<Tier>(PositionsInMemory{positions, is_shared}, first, count, factor, cos_row,
                        sin_row);
  }

  /// Writes the row of AnglePolicy::HfFloat32.
  template <class Tier, class T>
  POSENC_NOINLINE void write_float32(const double* positions, bool is_shared, Index first,
                                     Index count, double factor, T* cos_row,
                                     T* sin_row) const noexcept {
    constexpr Index chunk = 64;
    const auto float_factor = static_cast<float>(factor);
    for (Index done = 0; done < count; done += chunk) {
      const Index part = (std::min)(chunk, count - done);
      double angles[static_cast<std::size_t>(chunk)];
      for (Index i = 0; i < part; ++i) {
        angles[i] = float_angle(positions[is_shared ? 0 : done + i], first + done + i);
      }
      write_row<Tier>(angles, false, first + done, part, 1, cos_row + done, sin_row + done);
    }
    for (Index i = 0; i < count; ++i) {
      cos_row[i] = static_cast<T>(float_factor * static_cast<float>(cos_row[i]));
      sin_row[i] = static_cast<T>(float_factor * static_cast<float>(sin_row[i]));
    }
  }
  double float_angle(double position, Index i) const noexcept {
    const float angle =
        static_cast<float>(position) * static_cast<float>(turns_hi()[2 * stride() + i]);
    return static_cast<double>(angle);
  }

  template <class P>
  POSENC_ALWAYS_INLINE static P scaled(double factor, P value) noexcept {
    return factor == 1 ? value : P::broadcast(factor) * value;
  }

  bool uses_float() const noexcept { return policy_ == AnglePolicy::HfFloat32; }
  /// Distance of the rows in doubles: a multiple of cache lines.
  Index stride() const noexcept { return (size_ + 7) / 8 * 8; }
  const double* turns_hi() const noexcept { return rows_.data(); }
  const double* turns_lo() const noexcept { return rows_.data() + stride(); }

  AnglePolicy policy_;
  MoveResetIndex size_;
  /// Quarter turns per position: a row of their upper halves and one of their lower halves, so that
  /// each load reads consecutive doubles. With AnglePolicy::HfFloat32 these are quarter turns per
  /// radian, and a third row has inv_freq, rounded to float.
  AlignedVector<double> rows_;
  double max_inv_freq_ = 0;
};

// Defined outside of the class, so that `extern template` can stop compilers from compiling it:
// they compile functions that are defined in a class, because these are inline.
template <class Tier, std::floating_point T>
void Oscillator::cos_sin_row(const double* positions, bool is_shared, Index first, Index count,
                             double factor, T* cos_row, T* sin_row) const noexcept {
  if (uses_float()) {
    write_float32<Tier>(positions, is_shared, first, count, factor, cos_row, sin_row);
  } else {
    write_row<Tier>(positions, is_shared, first, count, factor, cos_row, sin_row);
  }
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
