// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/double_double.hpp>
#include <posenc/simd/pack.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

POSENC_BEGIN
namespace detail {

/// The greatest of count values, whole packs of them.
template <class Tier = tier::Best, class Real>
Real greatest_of(const Real* values, Index count) noexcept {
  using P = Pack<Real, Tier>;
  P most = P::load(values);
  for (Index u = P::width; u < count; u += P::width) most = max(P::load(values + u), most);
  return maximum(most);
}

/// A network 1 -> width -> 1 with ReLU, for x >= 0, as what it is: a line, and bends where hidden units
/// begin or end. Bends that the greatest x does not reach cost nothing.
///
/// A bend at m 2^e, m from 1 to 2, adds gain max(x / m - 2^e, 0). So its place is not rounded: what is
/// rounded is x / m, which is as good as another rounding of x.
template <class Real>
class Hinges {
 public:
  Hinges(std::span<const double> hidden_weight, std::span<const double> hidden_bias,
         std::span<const double> output_weight, double output_bias) {
    DoubleDouble at_zero = output_bias;
    for (std::size_t k = 0; k < hidden_weight.size(); ++k) {
      const double w = hidden_weight[k], b = hidden_bias[k], out = output_weight[k];
      const bool on_at_zero = b > 0 || (b == 0 && w > 0);
      if (on_at_zero) {
        at_zero = at_zero + two_product(out, b);
        slope_ = slope_ + two_product(out, w);
      }
      // Begins or ends at x = -b / w > 0; either way the slope gains out * |w|.
      if (w != 0 && b != 0 && (w > 0) == (b < 0)) bends_.push_back(Bend(w, b, out));
    }
    std::stable_sort(bends_.begin(), bends_.end(),
                     [](const Bend& a, const Bend& b) { return a.at < b.at; });
    for (const Bend& bend : bends_) inverses_.push_back(factor_of(bend.inverse));
    at_zero_ = static_cast<Real>(at_zero.hi);
  }

  /// scores[u] += f(factor * values[u]), values >= 0 and not above greatest. Reads values in whole
  /// packs.
  template <class Tier = tier::Best>
  void add(const Real* values, DoubleDouble factor, Real greatest, Real* scores,
           Index count) const noexcept {
    using P = Pack<Real, Tier>;
    // A little farther: a bend is left out where no rounding could reach it.
    const double reach = factor.hi * static_cast<double>(greatest) * (1 + 0x1p-16);
    Row row;
    row.factor = factor;
    row.slope = product<Real>(factor_of(slope_), factor);
    while (row.bends < bends_.size() && bends_[row.bends].at < reach) ++row.bends;
    const std::size_t kept = (std::min)(row.bends, kept_rates);
    for (std::size_t i = 0; i < kept; ++i) row.rates[i] = product<Real>(inverses_[i], factor);
    Index u = 0;
    for (; u + 4 * P::width <= count; u += 4 * P::width)
      add_packs<P, 4>(values + u, row, scores + u);
    for (; u + P::width <= count; u += P::width) add_packs<P, 1>(values + u, row, scores + u);
    if (u < count) {
      P last[1];
      evaluate(values + u, row, last);
      (P::load_partial(scores + u, count - u) + last[0]).store_partial(scores + u, count - u);
    }
  }

 private:
  struct Bend {
    Bend(double w, double b, double out) {
      const int of_w = std::ilogb(w), of_b = std::ilogb(b);
      // Both from 1 to 2.
      const double scaled_w = std::scalbn(std::abs(w), -of_w);
      const double scaled_b = std::scalbn(std::abs(b), -of_b);
      const bool smaller = scaled_b < scaled_w;
      const int exponent = of_b - of_w - (smaller ? 1 : 0);
      inverse = DoubleDouble(smaller ? 0.5 * scaled_w : scaled_w) / scaled_b;
      at = std::scalbn(scaled_b / scaled_w, of_b - of_w);
      minus_start = -std::scalbn(Real{1}, exponent);
      gain = static_cast<Real>(out * std::scalbn(std::abs(b), -exponent));
    }
    DoubleDouble inverse;  ///< 1 / m
    double at;             ///< rounded
    Real minus_start;      ///< -2^e
    Real gain;
  };

  static constexpr std::size_t kept_rates = 128;

  /// What a row of scores has in common.
  struct Row {
    DoubleDouble factor = 0.0;
    Real slope = 0;
    std::size_t bends = 0;   ///< those that x reaches
    Real rates[kept_rates];  ///< of the first of them
  };

  /// What is multiplied before it is rounded to Real.
  using Factor = std::conditional_t<std::same_as<Real, double>, DoubleDouble, double>;
  static Factor factor_of(DoubleDouble x) noexcept {
    if constexpr (std::same_as<Real, double>) return x;
    return x.hi;
  }
  template <class R>
  static R product(Factor a, DoubleDouble b) noexcept {
    if constexpr (std::same_as<R, double>) {
      return (a * b).hi;
    } else {
      return static_cast<R>(a * b.hi);
    }
  }

  /// Several packs side by side, since each is a chain of dependent operations.
  template <class P, std::size_t N>
  POSENC_ALWAYS_INLINE void evaluate(const Real* values, const Row& row, P (&y)[N]) const noexcept {
    P v[N];
    for (std::size_t n = 0; n < N; ++n) {
      v[n] = P::load(values + static_cast<Index>(n) * P::width);
      y[n] = P::zero();
    }
    const auto bend = [&](std::size_t i, Real of_row) {
      const P rate = P::broadcast(of_row), minus_start = P::broadcast(bends_[i].minus_start),
              gain = P::broadcast(bends_[i].gain);
      for (std::size_t n = 0; n < N; ++n) {
        y[n] = mul_add(max(mul_add(v[n], rate, minus_start), P::zero()), gain, y[n]);
      }
    };
    const std::size_t kept = (std::min)(row.bends, kept_rates);
    for (std::size_t i = 0; i < kept; ++i) bend(i, row.rates[i]);
    for (std::size_t i = kept; i < row.bends; ++i) bend(i, product<Real>(inverses_[i], row.factor));
    for (std::size_t n = 0; n < N; ++n) {
      y[n] = mul_add(v[n], P::broadcast(row.slope), y[n]) + P::broadcast(at_zero_);
    }
  }

  template <class P, std::size_t N>
  POSENC_ALWAYS_INLINE void add_packs(const Real* values, const Row& row,
                                      Real* scores) const noexcept {
    P y[N];
    evaluate(values, row, y);
    for (std::size_t n = 0; n < N; ++n) {
      Real* to = scores + static_cast<Index>(n) * P::width;
      (P::load(to) + y[n]).store(to);
    }
  }

  std::vector<Bend> bends_;       ///< by rising x
  std::vector<Factor> inverses_;  ///< of the bends
  DoubleDouble slope_ = 0.0;
  Real at_zero_ = 0;
};

}  // namespace detail
POSENC_END
