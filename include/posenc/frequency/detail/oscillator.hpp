// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/core/detail/double_double.hpp>
#include <posenc/core/detail/order_of_sums.hpp>
#include <posenc/core/error.hpp>
#include <posenc/frequency/angle_policy.hpp>
#include <posenc/simd/cos_sin.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/detail/twice.hpp>
#include <posenc/tensor/positions.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Turns frequencies and positions into cos and sin, at any position, from nothing but the
/// frequencies.
///
/// Angles are kept in quarter turns as double-double and reduced exactly, so that accuracy does not
/// decay with the position as it does where position * inv_freq is rounded (by 6e-2 at 1e6 in
/// float32).
///   Accuracy: as AnglePolicy says; larger angles are a PositionError of the encoders
///   Throws:   ConfigError where the compiler was allowed to reorder sums, so that none of this would hold
class Oscillator {
 public:
  explicit Oscillator(std::span<const DoubleDouble> inv_freq,
                      AnglePolicy policy = AnglePolicy::Exact, const char* function = "Oscillator")
      : policy_(policy) {
    check_order_of_sums(function);
    if (policy == AnglePolicy::HfFloat32) {
      // A floor under the fastest keeps positions within float.
      fastest_ = 0x1p-70;
      float_inv_freq_ = AlignedVector<double>(inv_freq.size());
      for (std::size_t k = 0; k < inv_freq.size(); ++k) {
        float_inv_freq_[k] = static_cast<double>(static_cast<float>(inv_freq[k].hi));
        fastest_ = (std::max)(fastest_, std::abs(float_inv_freq_[k]));
      }
      return;
    }
    turns_hi_ = AlignedVector<double>(inv_freq.size());
    turns_lo_ = AlignedVector<double>(inv_freq.size());
    for (std::size_t k = 0; k < inv_freq.size(); ++k) {
      const DoubleDouble turns = inv_freq[k] * two_over_pi;
      turns_hi_[k] = turns.hi;
      turns_lo_[k] = turns.lo;
      fastest_ = (std::max)(fastest_, std::abs(inv_freq[k].hi));
    }
  }

  /// Number of frequencies.
  Index size() const noexcept {
    return static_cast<Index>((std::max)(turns_hi_.size(), float_inv_freq_.size()));
  }
  AnglePolicy policy() const noexcept { return policy_; }

  /// cos and sin of position * inv_freq[i].
  CosSin at(double position, Index i) const noexcept {
    const auto k = static_cast<std::size_t>(i);
    if (policy_ == AnglePolicy::HfFloat32) {
      const float angle = static_cast<float>(position) * static_cast<float>(float_inv_freq_[k]);
      return cos_sin(static_cast<double>(angle), two_over_pi);
    }
    return cos_sin(position, DoubleDouble(turns_hi_[k], turns_lo_[k]));
  }

  /// factor * cos and factor * sin of frequencies first .. first + count - 1, rounded once to T
  /// (float or double). With AnglePolicy::HfFloat32 cos, sin, factor and their products are rounded
  /// to float.
  ///   Shapes: cos_row, sin_row [count]
  ///   Cost:   about 25 vector operations for each vector of doubles; no allocation
  template <class Tier = tier::Best, std::floating_point T>
  void row(double position, Index first, Index count, double factor, T* cos_row,
           T* sin_row) const noexcept {
    write_row<Tier>(OnePosition<false>{position}, first, count, factor, cos_row, sin_row);
  }

  /// The same where every frequency has a position of its own, positions [count].
  template <class Tier = tier::Best, std::floating_point T>
  void row(const double* positions, Index first, Index count, double factor, T* cos_row,
           T* sin_row) const noexcept {
    write_row<Tier>(PositionOfEach{positions}, first, count, factor, cos_row, sin_row);
  }

  /// row() at one position, inlined: with a count that the compiler knows, values stay in registers for a
  /// kernel that uses them at once.
  template <class Tier = tier::Best, std::floating_point T>
  POSENC_ALWAYS_INLINE void inlined_row(double position, Index first, Index count, double factor,
                                        T* cos_row, T* sin_row) const noexcept {
    write_row<Tier>(OnePosition<true>{position}, first, count, factor, cos_row, sin_row);
  }

  /// Largest |inv_freq|, which limits how far positions reach.
  double fastest() const noexcept { return fastest_; }

 private:
  template <bool InRegisters>
  struct OnePosition {
    static constexpr bool in_registers = InRegisters;  ///< a row is used at once, and stays there
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
  struct PositionOfEach {
    static constexpr bool in_registers = false;
    const double* positions;
    double at(Index i) const noexcept { return positions[i]; }
    template <class P>
    P load(Index i) const noexcept {
      return P::load(positions + i);
    }
    template <class P>
    P load_partial(Index i, Index n) const noexcept {
      return P::load_partial(positions + i, n);
    }
  };

  template <class Tier, class Where, class T>
  POSENC_ALWAYS_INLINE void write_row(Where where, Index first, Index count, double factor,
                                      T* cos_row, T* sin_row) const noexcept {
    if (policy_ == AnglePolicy::HfFloat32) {
      write_in_float(where, first, count, factor, cos_row, sin_row);
      return;
    }
    using P = Pack<double, Tier>;
    Index i = 0;
    for (; i + 2 * P::width <= count; i += 2 * P::width) {
      write<Twice<P>>(where, i, first, factor, cos_row, sin_row);
    }
    if (i + P::width <= count) {
      write<P>(where, i, first, factor, cos_row, sin_row);
      i += P::width;
    }
    if (const Index rest = count - i; rest > 0) {
      const CosSinOf<P> value = cos_sin(where.template load_partial<P>(i, rest),
                                        P::load_partial(turns_hi_.data() + first + i, rest),
                                        P::load_partial(turns_lo_.data() + first + i, rest));
      store_partial_as(times(factor, value.cos), cos_row + i, rest);
      store_partial_as(times(factor, value.sin), sin_row + i, rest);
    }
  }

  template <class P, class Where, class T>
  POSENC_ALWAYS_INLINE void write(Where where, Index i, Index first, double factor, T* cos_row,
                                  T* sin_row) const noexcept {
    const CosSinOf<P> value =
        cos_sin(where.template load<P>(i), P::load(turns_hi_.data() + first + i),
                P::load(turns_lo_.data() + first + i));
    store<Where>(times(factor, value.cos), cos_row + i);
    store<Where>(times(factor, value.sin), sin_row + i);
  }

  template <class Where, class P, class T>
  POSENC_ALWAYS_INLINE static void store(P value, T* p) noexcept {
    if constexpr (Where::in_registers && requires { value.store_rounded_whole(p); }) {
      value.store_rounded_whole(p);
    } else {
      store_as(value, p);
    }
  }

  template <class Where, class T>
  void write_in_float(Where where, Index first, Index count, double factor, T* cos_row,
                      T* sin_row) const noexcept {
    const auto float_factor = static_cast<float>(factor);
    for (Index i = 0; i < count; ++i) {
      const CosSin value = at(where.at(i), first + i);
      cos_row[i] = static_cast<T>(float_factor * static_cast<float>(value.cos));
      sin_row[i] = static_cast<T>(float_factor * static_cast<float>(value.sin));
    }
  }

  template <class P>
  POSENC_ALWAYS_INLINE static P times(double factor, P value) noexcept {
    return factor == 1 ? value : P::broadcast(factor) * value;
  }
  // Two arrays rather than one of pairs: a row is then two streams of neighbouring lanes.
  AlignedVector<double> turns_hi_, turns_lo_;
  /// Instead of these with AnglePolicy::HfFloat32: each is a float.
  AlignedVector<double> float_inv_freq_;
  double fastest_ = 0;
  AnglePolicy policy_ = AnglePolicy::Exact;
};

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
