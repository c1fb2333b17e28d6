// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kernels/weighted_sum_kernel.hpp>
#include <posenc/simd/exp.hpp>
#include <posenc/simd/pack.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

// Softmax stage: exponentiates the scores of a tile and merges the results of tiles. It does not
// depend on how scores are computed.
POSENC_BEGIN
namespace detail {

/// Rows per update of maxima and sums: full vectors of every tier, and at least one strip of every
/// tier.
inline constexpr Index stats_rows = 16;

/// Online-softmax state of some rows: row maximum, row sum and unnormalised output. With p =
/// exp(score - row_max):
template <class Real>
struct SoftmaxState {
  Real* row_max;  ///< [rows] row maximum of the scores; -inf without visible keys
  Real* sum;      ///< [rows] sum of p
  Real* out;      ///< [rows, value_dim] sum of p times value

  static SoftmaxState allocate(ArenaAllocator& allocator, Index rows, Index value_dim) noexcept {
    return {allocator.allocate<Real>(rows + stats_rows),
            allocator.allocate<Real>(rows + stats_rows),
            allocator.allocate<Real>(rows * value_dim)};
  }

  /// Resets the rows to the state without keys.
  void clear(Index rows, Index value_dim) const noexcept {
    reset_stats(rows);
    zero_accumulators({0, rows}, value_dim);
  }
  /// Like clear(), but leaves `out` uninitialised. The first keys must then overwrite it.
  void reset_stats(Index rows) const noexcept {
    std::fill_n(row_max, rows + stats_rows, -std::numeric_limits<Real>::infinity());
    std::fill_n(sum, rows + stats_rows, Real{0});
  }
  void zero_accumulators(const Strip& rows, Index value_dim) const noexcept {
    std::fill_n(out + rows.first * value_dim, rows.rows * value_dim, Real{0});
  }
};

/// Merges maxima and sums of a tile into those of stats_rows rows. Writes the factors by which both
/// outputs must be multiplied before they are added.
/// A tile without visible keys has maximum -inf and sum 0, and changes no bit.
template <class Tier, class Real>
void update_softmax_stats(const Real* tile_max, const Real* tile_sum, Real* row_max, Real* sum,
                          Real* accumulator_scale, Real* tile_scale) noexcept {
  using P = Pack<Real, Tier>;
  for (Index r = 0; r < stats_rows; r += P::width) {
    const P old = P::load(row_max + r), current = P::load(tile_max + r);
    const P both = larger(old, current);
    // Without any visible key, -inf - -inf would be NaN.
    const P top = larger(both, P::broadcast(std::numeric_limits<Real>::lowest()));
    const P keep = exp_nonpositive(old - top), add = exp_nonpositive(current - top);
    both.store(row_max + r);
    mul_add(P::load(sum + r), keep, P::load(tile_sum + r) * add).store(sum + r);
    keep.store(accumulator_scale + r);
    add.store(tile_scale + r);
  }
}

/// Row maxima and row sums of a strip in one tile.
template <class Real>
struct StripStats {
  alignas(64) Real row_max[stats_rows], sum[stats_rows];

  StripStats() noexcept {
    std::fill_n(row_max, stats_rows, -std::numeric_limits<Real>::infinity());
    std::fill_n(sum, stats_rows, Real{0});
  }
};

template <class Tier, class Real>
Real row_maximum(const ActiveLanes& lanes, const Real* scores) noexcept {
  using P = Pack<Real, Tier>;
  P high = P::broadcast(-std::numeric_limits<Real>::infinity());
  for_active_vectors<P>(lanes, scores, [&](const Real* p) { high = larger(P::load(p), high); });
  return maximum(high);
}

/// Replaces a row's scores by exp(score - subtracted) and returns the sum of these weights. Softmax
/// subtracts the row maximum, and its backward pass the log-sum-exp, which gives probabilities.
///   marks: writes masked_weight for masked keys, to distinguish them from a probability of 0
template <class Tier, class Real>
Real exponentiate_and_sum(const ActiveLanes& lanes, Real subtracted, bool marks,
                          Real* scores) noexcept {
  using P = Pack<Real, Tier>;
  bool is_masked[tile_keys];
  if (marks) {
    for (Index j = 0; j < tile_keys; ++j) {
      is_masked[j] =
          !lanes.has_panel(j / panel_lanes) || scores[j] == -std::numeric_limits<Real>::infinity();
    }
  }
  // Without a finite score, -inf - -inf would be NaN.
  const P top = P::broadcast((std::max)(subtracted, std::numeric_limits<Real>::lowest()));
  P total = P::zero();
  for_active_vectors<P>(lanes, scores, [&](Real* p) {
    const P e = exp_nonpositive(P::load(p) - top);
    e.store(p);
    total = total + e;
  });
  if (marks) {
    for (Index j = 0; j < tile_keys; ++j) {
      if (is_masked[j]) scores[j] = masked_weight<Real>;
    }
  }
  return sum(total);
}

/// True if a score of the strip is -inf, which masks its key.
template <class Real>
bool has_masked(const ActiveLanes& lanes, Index rows, const Real* scores) noexcept {
  bool found = false;
  for (Index i = 0; i < rows; ++i) {
    for (Index j = lanes.begin; j < lanes.end; ++j) {
      found |= scores[i * tile_keys + j] == -std::numeric_limits<Real>::infinity();
    }
  }
  return found;
}

/// Exponentiates a strip's scores, [rows, tile_keys], and stores the maxima and sums of its rows.
///   marks: writes masked_weight for masked keys, to distinguish them from a probability of 0
template <class Tier, class Real>
void exponentiate_strip(const ActiveLanes& lanes, Index rows, bool marks, Real* scores,
                        Real* row_max, Real* sums) noexcept {
  // All maxima come first, so that no exponential has to wait for the maximum of its row.
  for (Index i = 0; i < rows; ++i) {
    row_max[i] = row_maximum<Tier>(lanes, scores + i * tile_keys);
  }
  for (Index i = 0; i < rows; ++i) {
    sums[i] = exponentiate_and_sum<Tier>(lanes, row_max[i], marks, scores + i * tile_keys);
  }
}

/// Rounds a strip's weights, [rows, tile_keys], to the nearest bfloat16. Marks of masked keys are
/// kept.
template <class Tier>
void round_weights_to_bfloat16(const ActiveLanes& lanes, Index rows, float* weights) noexcept {
  using P = Pack<float, Tier>;
  std::uint16_t rounded[P::width];
  for (Index i = 0; i < rows; ++i) {
    for_active_vectors<P>(lanes, weights + i * tile_keys, [&](float* p) {
      P::load(p).store_bfloat16(rounded);
      P::load_bfloat16(rounded).store(p);
    });
  }
}

/// Like round_weights_to_bfloat16(), but stores the weights in the order of a WeightedSumKernel of
/// pairs.
template <class Tier, class S>
void store_bfloat16_weights(const ActiveLanes& lanes, Index rows, const float* weights,
                            S* pairs) noexcept {
  using P = Pack<float, Tier>;
  static_assert(P::width % 2 == 0 && sizeof(S) == 2);
  for (Index i = 0; i < rows; ++i) {
    for_active_vectors<P>(lanes, weights + i * tile_keys, [&](const float* p) {
      P::load(p).store_swapped_bfloat16(pairs + (p - weights));
    });
  }
}

/// Merges the softmax state `from` into `into`.
template <class Tier, class Real>
void merge_softmax_states(const SoftmaxState<Real>& into, const SoftmaxState<Real>& from,
                          Index rows, Index value_dim) noexcept {
  using P = Pack<Real, Tier>;
  for (Index first = 0; first < rows; first += stats_rows) {
    alignas(64) Real accumulator_scale[stats_rows], tile_scale[stats_rows];
    update_softmax_stats<Tier>(from.row_max + first, from.sum + first, into.row_max + first,
                               into.sum + first, accumulator_scale, tile_scale);
    for (Index r = first; r < (std::min)(rows, first + stats_rows); ++r) {
      const P old = P::broadcast(accumulator_scale[r - first]),
              add = P::broadcast(tile_scale[r - first]);
      Real* to = into.out + r * value_dim;
      const Real* addend = from.out + r * value_dim;
      for (Index d = 0; d < value_dim; d += P::width) {
        mul_add(P::load(to + d), old, P::load(addend + d) * add).store(to + d);
      }
    }
  }
}

}  // namespace detail
POSENC_END
