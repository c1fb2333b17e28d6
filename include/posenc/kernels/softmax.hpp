// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/kernels/slots.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/simd/exp.hpp>
#include <posenc/simd/pack.hpp>

#include <algorithm>
#include <limits>

// Softmax stage: exponentiates the scores of a tile and merges the results of tiles. It does not
// depend on how scores are computed.
POSENC_BEGIN
namespace detail {

/// Rows per update of maxima and sums: full vectors of every tier, and at least one strip of every
/// tier.
inline constexpr Index rows_at_once = 16;

/// Online-softmax state of some rows: row maximum, row sum and unnormalised output. With p =
/// exp(score - highest):
template <class Real>
struct RowSums {
  Real* highest;  ///< [rows] row maximum of the scores; -inf without visible keys
  Real* sum;      ///< [rows] sum of p
  Real* out;      ///< [rows, value_dim] sum of p times value

  static RowSums carve(Carver& carver, Index rows, Index value_dim) noexcept {
    return {carver.take<Real>(rows + rows_at_once), carver.take<Real>(rows + rows_at_once),
            carver.take<Real>(rows * value_dim)};
  }

  /// Resets the rows to the state without keys.
  void clear(Index rows, Index value_dim) const noexcept {
    clear_sums(rows);
    clear_out({0, rows}, value_dim);
  }
  /// Like clear(), but leaves `out` uninitialised. The first keys must then overwrite it.
  void clear_sums(Index rows) const noexcept {
    std::fill_n(highest, rows + rows_at_once, -std::numeric_limits<Real>::infinity());
    std::fill_n(sum, rows + rows_at_once, Real{0});
  }
  void clear_out(const Strip& rows, Index value_dim) const noexcept {
    std::fill_n(out + rows.first * value_dim, rows.rows * value_dim, Real{0});
  }
};

/// Merges maxima and sums of a tile into those of rows_at_once rows. Returns the factors by which
/// both outputs must be multiplied before they are added.
/// A tile without visible keys has maximum -inf and sum 0, and changes no bit.
template <class Tier, class Real>
void merge_rows(const Real* tile_highest, const Real* tile_sum, Real* highest, Real* sum,
                Real* old_factor, Real* new_factor) noexcept {
  using P = Pack<Real, Tier>;
  for (Index r = 0; r < rows_at_once; r += P::width) {
    const P old = P::load(highest + r), fresh = P::load(tile_highest + r);
    const P both = larger(old, fresh);
    // Without any visible key, -inf - -inf would be NaN.
    const P top = larger(both, P::broadcast(std::numeric_limits<Real>::lowest()));
    const P keep = exp_nonpositive(old - top), add = exp_nonpositive(fresh - top);
    both.store(highest + r);
    mul_add(P::load(sum + r), keep, P::load(tile_sum + r) * add).store(sum + r);
    keep.store(old_factor + r);
    add.store(new_factor + r);
  }
}

/// Row maxima and row sums of a strip in one tile.
template <class Real>
struct StripSums {
  alignas(64) Real highest[rows_at_once], sum[rows_at_once];

  StripSums() noexcept {
    std::fill_n(highest, rows_at_once, -std::numeric_limits<Real>::infinity());
    std::fill_n(sum, rows_at_once, Real{0});
  }
};

template <class Tier, class Real>
Real maximum_of(const Lanes& lanes, const Real* scores) noexcept {
  using P = Pack<Real, Tier>;
  P high = P::broadcast(-std::numeric_limits<Real>::infinity());
  for_vectors<P>(lanes, scores, [&](const Real* p) { high = larger(P::load(p), high); });
  return maximum(high);
}

/// Replaces scores by exp(score - highest) and returns their sum.
template <class Tier, class Real>
Real exponentials(const Lanes& lanes, Real highest, Real* scores) noexcept {
  using P = Pack<Real, Tier>;
  // Without a finite score, -inf - -inf would be NaN.
  const P top = P::broadcast((std::max)(highest, std::numeric_limits<Real>::lowest()));
  P total = P::zero();
  for_vectors<P>(lanes, scores, [&](Real* p) {
    const P e = exp_nonpositive(P::load(p) - top);
    e.store(p);
    total = total + e;
  });
  return sum(total);
}

/// Like exponentials(), but writes -1 for masked keys.
template <class Tier, class Real>
Real marked_exponentials(const Lanes& lanes, Real highest, Real* scores) noexcept {
  bool hidden[tile_keys];
  for (Index j = 0; j < tile_keys; ++j) {
    hidden[j] =
        !lanes.panel(j / panel_lanes) || scores[j] == -std::numeric_limits<Real>::infinity();
  }
  const Real total = exponentials<Tier>(lanes, highest, scores);
  for (Index j = 0; j < tile_keys; ++j) {
    if (hidden[j]) scores[j] = -1;
  }
  return total;
}

/// True if a score of the strip is -inf, which masks its key.
template <class Real>
bool hides_any(const Lanes& lanes, Index rows, const Real* scores) noexcept {
  bool hides = false;
  for (Index i = 0; i < rows; ++i) {
    for (Index j = lanes.begin; j < lanes.end; ++j) {
      hides |= scores[i * tile_keys + j] == -std::numeric_limits<Real>::infinity();
    }
  }
  return hides;
}

/// Exponentiates a strip's scores, [rows, tile_keys], and stores the maxima and sums of its rows.
///   marks: writes -1 for masked keys, to distinguish them from a probability of 0
template <class Tier, class Real>
void exponentials_of_strip(const Lanes& lanes, Index rows, bool marks, Real* scores, Real* highest,
                           Real* sums) noexcept {
  // All maxima come first, so that no exponential has to wait for the maximum of its row.
  for (Index i = 0; i < rows; ++i) {
    highest[i] = maximum_of<Tier>(lanes, scores + i * tile_keys);
  }
  for (Index i = 0; i < rows; ++i) {
    Real* row = scores + i * tile_keys;
    sums[i] = marks ? marked_exponentials<Tier>(lanes, highest[i], row)
                    : exponentials<Tier>(lanes, highest[i], row);
  }
}

/// Merges the softmax state `from` into `into`.
template <class Tier, class Real>
void merge_all(const RowSums<Real>& into, const RowSums<Real>& from, Index rows,
               Index value_dim) noexcept {
  using P = Pack<Real, Tier>;
  for (Index first = 0; first < rows; first += rows_at_once) {
    alignas(64) Real old_factor[rows_at_once], new_factor[rows_at_once];
    merge_rows<Tier>(from.highest + first, from.sum + first, into.highest + first, into.sum + first,
                     old_factor, new_factor);
    for (Index r = first; r < (std::min)(rows, first + rows_at_once); ++r) {
      const P old = P::broadcast(old_factor[r - first]), add = P::broadcast(new_factor[r - first]);
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
