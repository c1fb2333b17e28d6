// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/double_double.hpp>
#include <posenc/simd/pack.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

POSENC_BEGIN
namespace detail {

/// The greatest of count values, whole packs of them.
template <class Tier = tier::Best, class Real>
Real greatest_of(const Real* values, Index count) noexcept {
  using P = Pack<Real, Tier>;
  P most = P::load(values);
  for (Index u = P::width; u < count; u += P::width) most = larger(P::load(values + u), most);
  return maximum(most);
}

/// A network 1 -> width -> 1 with ReLU, for x >= 0, as what it is: a line, and bends where hidden units
/// begin or end. Bends that the greatest x does not reach cost nothing.
template <class Real>
class Hinges {
 public:
  Hinges(std::span<const double> hidden_weight, std::span<const double> hidden_bias,
         std::span<const double> output_weight, double output_bias) {
    double at_zero = output_bias, slope = 0;
    for (std::size_t k = 0; k < hidden_weight.size(); ++k) {
      const double w = hidden_weight[k], b = hidden_bias[k], out = output_weight[k];
      const bool on_at_zero = b > 0 || (b == 0 && w > 0);
      if (on_at_zero) {
        at_zero = mul_add(out, b, at_zero);
        slope = mul_add(out, w, slope);
      }
      // Begins or ends at x = -b / w > 0; either way the slope gains out * |w|.
      if (w != 0 && b != 0 && (w > 0) == (b < 0)) {
        bends_.push_back({static_cast<Real>(-b / w), static_cast<Real>(out * (w > 0 ? w : -w))});
      }
    }
    std::stable_sort(bends_.begin(), bends_.end(),
                     [](const Bend& a, const Bend& b) { return a.at < b.at; });
    at_zero_ = static_cast<Real>(at_zero);
    slope_ = static_cast<Real>(slope);
  }

  /// scores[u] += f(factor * values[u]), values >= 0 and not above greatest. Reads values in whole
  /// packs.
  template <class Tier = tier::Best>
  void add(const Real* values, Real factor, Real greatest, Real* scores,
           Index count) const noexcept {
    using P = Pack<Real, Tier>;
    const Real reach = factor * greatest;
    std::size_t reached = 0;
    while (reached < bends_.size() && bends_[reached].at < reach) ++reached;
    const std::span<const Bend> bends(bends_.data(), reached);
    Index u = 0;
    for (; u + 4 * P::width <= count; u += 4 * P::width) {
      add_packs<P, 4>(values + u, factor, bends, scores + u);
    }
    for (; u + P::width <= count; u += P::width) {
      add_packs<P, 1>(values + u, factor, bends, scores + u);
    }
    if (u < count) {
      P last[1];
      evaluate(values + u, factor, bends, last);
      (P::load_partial(scores + u, count - u) + last[0]).store_partial(scores + u, count - u);
    }
  }

 private:
  struct Bend {
    Real at;
    Real gain;  ///< of the slope
  };

  /// Several packs side by side, since each is a chain of dependent operations.
  template <class P, std::size_t N>
  POSENC_ALWAYS_INLINE void evaluate(const Real* values, Real factor, std::span<const Bend> bends,
                                     P (&y)[N]) const noexcept {
    P x[N];
    for (std::size_t n = 0; n < N; ++n) {
      x[n] = mul_add(P::load(values + static_cast<Index>(n) * P::width), P::broadcast(factor),
                     P::zero());
      y[n] = P::zero();
    }
    for (const Bend& bend : bends) {
      const P at = P::broadcast(bend.at), gain = P::broadcast(bend.gain);
      for (std::size_t n = 0; n < N; ++n) y[n] = mul_add(larger(x[n] - at, P::zero()), gain, y[n]);
    }
    for (std::size_t n = 0; n < N; ++n) {
      y[n] = mul_add(x[n], P::broadcast(slope_), y[n]) + P::broadcast(at_zero_);
    }
  }

  template <class P, std::size_t N>
  POSENC_ALWAYS_INLINE void add_packs(const Real* values, Real factor, std::span<const Bend> bends,
                                      Real* scores) const noexcept {
    P y[N];
    evaluate(values, factor, bends, y);
    for (std::size_t n = 0; n < N; ++n) {
      Real* to = scores + static_cast<Index>(n) * P::width;
      (P::load(to) + y[n]).store(to);
    }
  }

  std::vector<Bend> bends_;  ///< by rising x
  Real at_zero_ = 0, slope_ = 0;
};

}  // namespace detail
POSENC_END
