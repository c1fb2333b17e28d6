// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/panel.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/weighted_sum_kernel.hpp>
#include <posenc/simd/pack.hpp>

#include <algorithm>
#include <cstddef>

POSENC_BEGIN
namespace detail {

/// Range of block rows that contribute to a panel. Weights of rows in the range that do not see a
/// lane are zero.
struct PanelRowRange {
  Index begin = 0, end = 0;

  bool empty() const noexcept { return begin >= end; }
  /// Returns the convex hull of both ranges.
  friend PanelRowRange hull(const PanelRowRange& a, const PanelRowRange& b) noexcept {
    if (a.empty()) return b;
    if (b.empty()) return a;
    return {(std::min)(a.begin, b.begin), (std::max)(a.end, b.end)};
  }
};

/// out(lane) <- out(lane) + sum over rows of weights(row, lane) x(row). WeightedSumKernel computes
/// gradients of rows; this kernel computes gradients of lanes. Each number is one dependency chain
/// of FMAs over the rows.
template <class Tier, class Real, SkipWeights Weights>
struct TransposedSumKernel {
  using P = Pack<Real, Tier>;
  static constexpr bool is_rare = Weights != SkipWeights::None;

  const Real* weights;  ///< [rows, tile_lanes], starting at the first lane of the register tiles
  const Real* x;        ///< [rows, dim]; dim is a multiple of value_padding
  Index dim;
  Index first_lane;           ///< first lane of the register tiles, counted in the tile
  const PanelRowRange* rows;  ///< [tile_panels]
  Real* out;                  ///< [lanes, dim]

  /// Computes lanes `lane` .. `lane` + Lanes - 1 of the register tiles.
  template <Index Lanes>
  POSENC_ALWAYS_INLINE void run(Index lane) const noexcept {
    const Index first = first_lane + lane, last = first + Lanes - 1;
    const PanelRowRange seen = hull(rows[first / panel_lanes], rows[last / panel_lanes]);
    if (seen.empty()) return;
    constexpr Index columns = is_rare ? 2 : register_tile_columns<Tier>(Lanes);
    constexpr auto narrow = narrow_passes<P>(columns);
    Index d = 0;
    for (; d + columns * P::width <= dim; d += columns * P::width) {
      multiply<Lanes, columns>(lane, seen, d);
    }
    for (; d + 2 * P::width <= dim; d += 2 * P::width) multiply<Lanes, narrow.two>(lane, seen, d);
    if (d < dim) multiply<Lanes, narrow.rest>(lane, seen, d);
  }

 private:
  template <Index Lanes, Index Columns>
  POSENC_NOINLINE void multiply(Index lane, const PanelRowRange& seen,
                                Index channel) const noexcept {
    const Real* w = weights + seen.begin * tile_lanes + lane;
    const Real* from = x + seen.begin * dim + channel;
    P sums[std::size_t{Lanes}][std::size_t{Columns}];
    for (Index l = 0; l < Lanes; ++l) {
      for (Index c = 0; c < Columns; ++c) sums[l][c] = P::zero();
    }
    for (Index r = seen.begin; r < seen.end; ++r) {
      P value[std::size_t{Columns}];
      for (Index c = 0; c < Columns; ++c) value[c] = P::load(from + c * P::width);
      for (Index l = 0; l < Lanes; ++l) {
        if (is_skipped<Weights>(w[l])) continue;
        const P weight = P::broadcast(w[l]);
        for (Index c = 0; c < Columns; ++c) sums[l][c] = mul_add(weight, value[c], sums[l][c]);
      }
      w += tile_lanes;
      from += dim;
    }
    for (Index l = 0; l < Lanes; ++l) {
      Real* to = out + (lane + l) * dim + channel;
      for (Index c = 0; c < Columns; ++c) {
        (P::load(to + c * P::width) + sums[l][c]).store(to + c * P::width);
      }
    }
  }
};

/// Adds the transposed weights of `count` lanes, starting at lane `first`, times x [rows, dim] to
/// the sums [count, dim]. Zeros among the weights hide numbers of x that are not finite.
///   finite:  all numbers of x are finite
///   weights: [rows, tile_lanes]
///   rows:    [tile_panels], see TransposedSumKernel
template <class Tier, class Real>
void add_transposed_sums(bool finite, Index first, Index count, const Real* weights, const Real* x,
                         Index dim, const PanelRowRange* rows, Real* sums) noexcept {
  const auto add = [&]<SkipWeights Weights>(std::integral_constant<SkipWeights, Weights>) {
    for_register_tiles<Tier>(count,
                             TransposedSumKernel<Tier, Real, Weights>{.weights = weights + first,
                                                                      .x = x,
                                                                      .dim = dim,
                                                                      .first_lane = first,
                                                                      .rows = rows,
                                                                      .out = sums});
  };
  dispatch_skip_weights<SkipWeights::Zero>(finite, add);
}

}  // namespace detail
POSENC_END
