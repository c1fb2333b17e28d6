// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/workspace.hpp>
#include <posenc/simd/exp.hpp>
#include <posenc/simd/pack.hpp>

#include <algorithm>
#include <limits>

POSENC_BEGIN
namespace detail {

/// Rows whose maxima and sums are merged at once: whole vectors of every tier.
inline constexpr Index rows_at_once = 16;

/// What some rows of scores have given so far. With p = exp(score - highest):
template <class Real>
struct RowSums {
  Real* highest;  ///< [rows] the greatest score; -inf where there is none
  Real* sum;      ///< [rows] of p
  Real* out;      ///< [rows, value_dim] of p times values

  static RowSums carve(Carver& carver, Index rows, Index value_dim) noexcept {
    return {carver.take<Real>(rows + rows_at_once), carver.take<Real>(rows + rows_at_once),
            carver.take<Real>(rows * value_dim)};
  }

  /// No keys yet.
  void clear(Index rows, Index value_dim) const noexcept {
    std::fill_n(highest, rows + rows_at_once, -std::numeric_limits<Real>::infinity());
    std::fill_n(sum, rows + rows_at_once, Real{0});
    std::fill_n(out, rows * value_dim, Real{0});
  }
};

/// Adds a tile's maxima and sums to those of rows_at_once rows, and gives the factors by which both
/// outputs must be multiplied before they are added. A tile without visible keys, whose maximum is
/// -inf and whose sum is 0, changes no bit.
template <class Tier, class Real>
void merge_group(const Real* tile_highest, const Real* tile_sum, Real* highest, Real* sum,
                 Real* old_factor, Real* tile_factor) noexcept {
  using P = Pack<Real, Tier>;
  for (Index r = 0; r < rows_at_once; r += P::width) {
    const P old = P::load(highest + r), fresh = P::load(tile_highest + r);
    const P both = larger(old, fresh);
    // Where there is no key at all, -inf - -inf would be NaN.
    const P top = larger(both, P::broadcast(std::numeric_limits<Real>::lowest()));
    const P keep = exp_nonpositive(old - top), add = exp_nonpositive(fresh - top);
    both.store(highest + r);
    mul_add(P::load(sum + r), keep, P::load(tile_sum + r) * add).store(sum + r);
    keep.store(old_factor + r);
    add.store(tile_factor + r);
  }
}

/// into <- what both have given.
template <class Tier, class Real>
void merge_all(const RowSums<Real>& into, const RowSums<Real>& from, Index rows,
               Index value_dim) noexcept {
  using P = Pack<Real, Tier>;
  for (Index first = 0; first < rows; first += rows_at_once) {
    alignas(64) Real old_factor[rows_at_once], tile_factor[rows_at_once];
    merge_group<Tier>(from.highest + first, from.sum + first, into.highest + first,
                      into.sum + first, old_factor, tile_factor);
    for (Index r = first; r < (std::min)(rows, first + rows_at_once); ++r) {
      const P old = P::broadcast(old_factor[r - first]), add = P::broadcast(tile_factor[r - first]);
      Real* to = into.out + r * value_dim;
      const Real* more = from.out + r * value_dim;
      for (Index d = 0; d < value_dim; d += P::width) {
        mul_add(P::load(to + d), old, P::load(more + d) * add).store(to + d);
      }
    }
  }
}

}  // namespace detail
POSENC_END
