// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/bias/detail/distances.hpp>
#include <posenc/bias/detail/rising_order.hpp>
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
struct Bounds {
  double least, greatest;
};

/// Returns the range of those of `count` values that are not NaN, or {infinity, 0} if there are
/// none. `count` must be a multiple of the pack width.
template <class Tier = tier::Best>
Bounds bounds_of(const double* values, Index count) noexcept {
  using P = Pack<double, Tier>;
  P most = P::zero(), least = P::broadcast(std::numeric_limits<double>::infinity());
  for (Index u = 0; u < count; u += P::width) {
    const P value = P::load(values + u);
    most = larger(value, most);
    least = smaller(value, least);
  }
  return {-maximum(P::zero() - least), maximum(most)};
}

/// ReLU network 1 -> width -> 1 for x >= 0, evaluated as a piecewise linear function: a line, and a
/// breakpoint wherever a hidden unit becomes active or inactive. Breakpoints above the greatest x
/// cost nothing. Those below the least x cost two thirds of the others.
template <class Real>
class Hinges {
 public:
  Hinges(ListView<double> hidden_weight, ListView<double> hidden_bias,
         ListView<double> output_weight, double output_bias) {
    DoubleDouble at_zero = output_bias, slope = 0.0;
    std::vector<double> places, rests, gains;  // one per breakpoint
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
        places.push_back(static_cast<double>(rounded));
        rests.push_back(beyond ? 0.0 : at.lo);
        gains.push_back(out * std::abs(w));
      }
    }
    bends_ = std::vector<Bend>(places.size());
    Bend* bend = bends_.data();
    for (const std::size_t n : rising_order(places)) {
      *bend++ = {static_cast<Real>(places[n]), static_cast<Real>(rests[n]),
                 static_cast<Real>(gains[n])};
    }
    at_zero_ = static_cast<Real>(at_zero.hi);
    slope_ = static_cast<Real>(slope.hi);
  }

  /// Adds f(factor * values[u]) to scores[u]. Values must lie in `bounds`; there are at most
  /// block_distances, and full packs of them are read.
  template <class Tier = tier::Best>
  void add(const double* values, DoubleDouble factor, Bounds bounds, Real* scores,
           Index count) const noexcept {
    evaluate_all<Tier, true>(values, factor, bounds, scores, count);
  }
  /// Sets scores[u] = f(factor * values[u]), the number that add() adds.
  template <class Tier = tier::Best>
  void write(const double* values, DoubleDouble factor, Bounds bounds, Real* scores,
             Index count) const noexcept {
    evaluate_all<Tier, false>(values, factor, bounds, scores, count);
  }

 private:
  struct Bend {
    Real at;
    Real rest;  ///< rounding error of `at`; used in double alone, because float's x has a larger
                ///< error
    Real gain;  ///< change of the slope
  };

  /// Breakpoints that matter for values in a range: all values lie above the first ones.
  struct Met {
    std::span<const Bend> below, between;
  };
  /// The range is widened a little on both sides, so that rounding cannot change which breakpoints
  /// matter.
  Met met(DoubleDouble factor, Bounds bounds) const noexcept {
    const auto least = static_cast<Real>(factor.hi * bounds.least * (1 - 0x1p-20));
    const auto greatest = static_cast<Real>(factor.hi * bounds.greatest * (1 + 0x1p-20));
    std::size_t passed = 0;
    while (passed < bends_.size() && bends_[passed].at < least) ++passed;
    std::size_t reached = passed;
    while (reached < bends_.size() && bends_[reached].at < greatest) ++reached;
    return {{bends_.data(), passed}, {bends_.data() + passed, reached - passed}};
  }

  template <class Tier, bool Add>
  void evaluate_all(const double* values, DoubleDouble factor, Bounds bounds, Real* scores,
                    Index count) const noexcept {
    using P = Pack<Real, Tier>;
    // Packs that are evaluated interleaved: as many as fit in registers, each with its x.
    constexpr std::size_t most = Tier::registers >= 32 ? 8 : 4;
    alignas(64) Real x[static_cast<std::size_t>(block_distances)];
    arguments<Tier>(values, factor, &x[0], (count + P::width - 1) / P::width * P::width);
    const Met bends = met(factor, bounds);
    Index u = 0;
    const auto packs = [&]<std::size_t N>(std::integral_constant<std::size_t, N>) {
      constexpr Index step = static_cast<Index>(N) * P::width;
      for (; u + step <= count; u += step) {
        P y[N];
        evaluate(x + u, bends, y);
        for (std::size_t n = 0; n < N; ++n) {
          Real* const to = scores + u + static_cast<Index>(n) * P::width;
          (Add ? P::load(to) + y[n] : y[n]).store(to);
        }
      }
    };
    packs(std::integral_constant<std::size_t, most>());
    if constexpr (most > 4) packs(std::integral_constant<std::size_t, 4>());
    packs(std::integral_constant<std::size_t, 1>());
    if (const Index rest = count - u; rest > 0) {
      P last[1];
      evaluate(x + u, bends, last);
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
  POSENC_ALWAYS_INLINE void evaluate(const Real* values, const Met& bends,
                                     P (&y)[N]) const noexcept {
    P x[N];
    for (std::size_t n = 0; n < N; ++n) {
      x[n] = P::load(values + static_cast<Index>(n) * P::width);
      y[n] = P::zero();
    }
    const auto above = [&](std::size_t n, const Bend& bend) {
      const P distance = x[n] - P::broadcast(bend.at);
      if constexpr (std::same_as<Real, double>) return distance - P::broadcast(bend.rest);
      return distance;
    };
    for (const Bend& bend : bends.below) {
      const P gain = P::broadcast(bend.gain);
      for (std::size_t n = 0; n < N; ++n) y[n] = mul_add(above(n, bend), gain, y[n]);
    }
    for (const Bend& bend : bends.between) {
      const P gain = P::broadcast(bend.gain);
      for (std::size_t n = 0; n < N; ++n) {
        y[n] = mul_add(larger(above(n, bend), P::zero()), gain, y[n]);
      }
    }
    for (std::size_t n = 0; n < N; ++n) {
      y[n] = mul_add(x[n], P::broadcast(slope_), y[n]) + P::broadcast(at_zero_);
    }
  }

  std::vector<Bend> bends_;  ///< ascending in `at`
  Real at_zero_ = 0, slope_ = 0;
};

}  // namespace detail
POSENC_END
