// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/bias/detail/argsort.hpp>
#include <posenc/bias/detail/distances.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/detail/double_double.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/simd/pack.hpp>

#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Least and greatest value, neither of them negative.
struct ValueRange {
  double least, greatest;
};

/// Returns the range of those of `count` values that are not NaN, or {infinity, 0} if there are
/// none. `count` must be a multiple of the pack width.
template <class Tier = tier::Best>
ValueRange value_range(const double* values, Index count) noexcept {
  using P = Pack<double, Tier>;
  P greatest = P::zero(), least = P::broadcast(std::numeric_limits<double>::infinity());
  for (Index u = 0; u < count; u += P::width) {
    const P value = P::load(values + u);
    greatest = larger(value, greatest);
    least = smaller(value, least);
  }
  return {-maximum(P::zero() - least), maximum(greatest)};
}

/// ReLU network 1 -> width -> 1 for x >= 0, evaluated as a piecewise linear function: a line, and a
/// breakpoint wherever a hidden unit becomes active or inactive. Breakpoints above the greatest x
/// cost nothing. Those below the least x cost two thirds of the others.
template <class Real>
class PiecewiseLinear {
 public:
  PiecewiseLinear(ListView<double> hidden_weight, ListView<double> hidden_bias,
                  ListView<double> output_weight, double output_bias) {
    DoubleDouble at_zero = output_bias, slope = 0.0;
    std::vector<double> xs, x_los, slope_changes;  // one per breakpoint
    for (std::size_t k = 0; k < hidden_weight.size(); ++k) {
      const double w = hidden_weight[k], b = hidden_bias[k], out = output_weight[k];
      const bool on_at_zero = b > 0 || (b == 0 && w > 0);
      if (on_at_zero) {
        at_zero = at_zero + two_product(out, b);
        slope = slope + two_product(out, w);
      }
      // The unit becomes active or inactive at x = -b / w > 0. Either way the slope increases by
      // out * |w|.
      if (w != 0 && b != 0 && (w > 0) == (b < 0)) {
        const DoubleDouble at = DoubleDouble(std::abs(b)) / std::abs(w);
        const bool beyond = !(at.hi < static_cast<double>((std::numeric_limits<Real>::max)()));
        const Real rounded =
            beyond ? std::numeric_limits<Real>::infinity() : static_cast<Real>(at.hi);
        xs.push_back(static_cast<double>(rounded));
        x_los.push_back(beyond ? 0.0 : at.lo);
        slope_changes.push_back(out * std::abs(w));
      }
    }
    breakpoints_ = std::vector<Breakpoint>(xs.size());
    Breakpoint* breakpoint = breakpoints_.data();
    for (const std::size_t n : argsort(xs)) {
      *breakpoint++ = {static_cast<Real>(xs[n]), static_cast<Real>(x_los[n]),
                       static_cast<Real>(slope_changes[n])};
    }
    at_zero_ = static_cast<Real>(at_zero.hi);
    slope_ = static_cast<Real>(slope.hi);
  }

  /// Adds f(factor * values[u]) to scores[u]. Values must lie in `range`; there are at most
  /// max_block_distances, and full packs of them are read.
  template <class Tier = tier::Best>
  void add(const double* values, DoubleDouble factor, ValueRange range, Real* scores,
           Index count) const noexcept {
    evaluate_all<Tier, true>(values, factor, range, scores, count);
  }
  /// Sets scores[u] = f(factor * values[u]), the number that add() adds.
  template <class Tier = tier::Best>
  void write(const double* values, DoubleDouble factor, ValueRange range, Real* scores,
             Index count) const noexcept {
    evaluate_all<Tier, false>(values, factor, range, scores, count);
  }

 private:
  struct Breakpoint {
    Real x;
    Real x_lo;  ///< rounding error of `x`; used in double alone, because float's x has a larger
                ///< error
    Real slope_change;  ///< change of the slope
  };

  /// Breakpoints that matter for values in a range: all values lie above the first ones.
  struct ActiveBreakpoints {
    std::span<const Breakpoint> below_range, in_range;
  };
  /// The range is widened a little on both sides, so that rounding cannot change which breakpoints
  /// matter.
  ActiveBreakpoints active_breakpoints(DoubleDouble factor, ValueRange range) const noexcept {
    const auto least = static_cast<Real>(factor.hi * range.least * (1 - 0x1p-20));
    const auto greatest = static_cast<Real>(factor.hi * range.greatest * (1 + 0x1p-20));
    std::size_t passed = 0;
    while (passed < breakpoints_.size() && breakpoints_[passed].x < least) ++passed;
    std::size_t reached = passed;
    while (reached < breakpoints_.size() && breakpoints_[reached].x < greatest) ++reached;
    return {{breakpoints_.data(), passed}, {breakpoints_.data() + passed, reached - passed}};
  }

  template <class Tier, bool Add>
  void evaluate_all(const double* values, DoubleDouble factor, ValueRange range, Real* scores,
                    Index count) const noexcept {
    using P = Pack<Real, Tier>;
    // Packs that are evaluated interleaved: as many as fit in registers, each with its x.
    constexpr std::size_t max_packs = Tier::registers >= 32 ? 8 : 4;
    alignas(64) Real x[static_cast<std::size_t>(max_block_distances)];
    arguments<Tier>(values, factor, &x[0], (count + P::width - 1) / P::width * P::width);
    const ActiveBreakpoints active = active_breakpoints(factor, range);
    Index u = 0;
    const auto packs = [&]<std::size_t N>(std::integral_constant<std::size_t, N>) {
      constexpr Index step = static_cast<Index>(N) * P::width;
      for (; u + step <= count; u += step) {
        P y[N];
        evaluate(x + u, active, y);
        for (std::size_t n = 0; n < N; ++n) {
          Real* const to = scores + u + static_cast<Index>(n) * P::width;
          (Add ? P::load(to) + y[n] : y[n]).store(to);
        }
      }
    };
    packs(std::integral_constant<std::size_t, max_packs>());
    if constexpr (max_packs > 4) packs(std::integral_constant<std::size_t, 4>());
    packs(std::integral_constant<std::size_t, 1>());
    if (const Index rest = count - u; rest > 0) {
      P last[1];
      evaluate(x + u, active, last);
      if constexpr (Add) last[0] = P::load_partial(scores + u, rest) + last[0];
      last[0].store_partial(scores + u, rest);
    }
  }

  /// Sets x[u] = factor * values[u], rounded once.
  template <class Tier>
  static void arguments(const double* values, DoubleDouble factor, Real* x, Index count) noexcept {
    using P = Pack<double, Tier>;
    const P high = P::broadcast(factor.hi), low = P::broadcast(factor.lo);
    for (Index u = 0; u < count; u += P::width) {
      const P value = P::load(values + u);
      const P product = mul_add(value, high, P::zero());
      if constexpr (std::same_as<Real, double>) {
        const P error = error_of_product(value, high, product);
        (product + mul_add(value, low, error)).store(x + u);
      } else {
        product.store_rounded(x + u);
      }
    }
  }

  template <class P>
  POSENC_ALWAYS_INLINE static P error_of_product(P a, P b, P product) noexcept {
#if POSENC_HAS_FMA
    return mul_add(a, b, P::zero() - product);
#else
    // Veltkamp split into halves of 26 and 27 bits, by a mask. The rounding error of the product of
    // the lower halves is negligible.
    const P upper = P::broadcast(std::bit_cast<double>(0xfffffffff8000000u));
    const P a_high = a & upper, b_high = b & upper, a_low = a - a_high, b_low = b - b_high;
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
#endif
  }

  /// Evaluates several packs interleaved, because each is a chain of dependent operations.
  template <class P, std::size_t N>
  POSENC_ALWAYS_INLINE void evaluate(const Real* values, const ActiveBreakpoints& active,
                                     P (&y)[N]) const noexcept {
    P x[N];
    for (std::size_t n = 0; n < N; ++n) {
      x[n] = P::load(values + static_cast<Index>(n) * P::width);
      y[n] = P::zero();
    }
    const auto above = [&](std::size_t n, const Breakpoint& breakpoint) {
      const P distance = x[n] - P::broadcast(breakpoint.x);
      if constexpr (std::same_as<Real, double>) return distance - P::broadcast(breakpoint.x_lo);
      return distance;
    };
    for (const Breakpoint& breakpoint : active.below_range) {
      const P slope_change = P::broadcast(breakpoint.slope_change);
      for (std::size_t n = 0; n < N; ++n) y[n] = mul_add(above(n, breakpoint), slope_change, y[n]);
    }
    for (const Breakpoint& breakpoint : active.in_range) {
      const P slope_change = P::broadcast(breakpoint.slope_change);
      for (std::size_t n = 0; n < N; ++n) {
        y[n] = mul_add(larger(above(n, breakpoint), P::zero()), slope_change, y[n]);
      }
    }
    for (std::size_t n = 0; n < N; ++n) {
      y[n] = mul_add(x[n], P::broadcast(slope_), y[n]) + P::broadcast(at_zero_);
    }
  }

  std::vector<Breakpoint> breakpoints_;  ///< ascending in `x`
  Real at_zero_ = 0, slope_ = 0;
};

}  // namespace detail
POSENC_END
