// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/backward_rows.hpp>
#include <posenc/attention/detail/query_block.hpp>
#include <posenc/attention/detail/tile_dropout.hpp>
#include <posenc/attention/detail/unless_zero.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>

POSENC_BEGIN
namespace detail {

/// Stage of softmax's backward: computes probabilities from a block's scores of a tile, and the
/// gradient of the scores.
template <class Tier, Scalar T, class S>
class ScoreGradients {
 public:
  using Real = Compute<T>;
  using Block = QueryBlock<Tier, T, S>;

  ScoreGradients(const AttentionOptions<T>& options, Index rows, ArenaAllocator& allocator) noexcept
      : dropout_(options.dropout, allocator),
        grad_(allocator.allocate<Real>(rows * tile_keys)),
        pre_dropout_(dropout_.is_enabled() ? allocator.allocate<Real>(Block::strip_rows * tile_keys)
                                           : nullptr) {}

  /// Returns the dropout, for which begin() must be called on each tile if it is enabled.
  const TileDropout& dropout() const noexcept { return dropout_; }

  /// Returns the gradients of all rows; strip_gradients() those of a strip, [rows, tile_keys].
  Real* all() const noexcept { return grad_; }
  Real* strip_gradients(const Strip& strip) const noexcept {
    return grad_ + strip.first * tile_keys;
  }

  /// scores <- probabilities, after dropout; strip_gradients(strip) <- gradient of the scores. Both
  /// are 0 in inactive lanes.
  ///   value_panels: the tile's values, packed as panels
  ///   isolates_nonfinite: a log-sum-exp may be infinite or NaN, and still the probability of an
  ///       invisible key must be 0
  void compute(const Block& block, const BackwardRows<Tier, T, S>& rows, const Strip& strip,
               const ActiveLanes& lanes, const S* value_panels, Index value_dim,
               bool isolates_nonfinite, Real* scores) const noexcept {
    using P = Pack<Real, Tier>;
    for_register_tiles<Tier>(strip.rows, PanelDotKernel<Tier, Real, S, typename Block::Row>{
                                             .rows = rows.packed_grad_out(strip.first),
                                             .panels = value_panels,
                                             .dim = value_dim,
                                             .factor = Real{1},
                                             .lanes = lanes,
                                             .out = strip_gradients(strip),
                                             .ahead = {.next_region = value_panels}});
    for (Index i = 0; i < strip.rows; ++i) {
      compute_probabilities(lanes, rows.lse(strip.first + i), isolates_nonfinite,
                            scores + i * tile_keys);
    }
    const Real* undropped = scores;
    if (dropout_.is_enabled()) {
      std::copy_n(scores, strip.rows * tile_keys, pre_dropout_);
      undropped = pre_dropout_;
      dropout_.apply(block, strip, lanes, scores);
    }
    for (Index i = 0; i < strip.rows; ++i) {
      const P delta = P::broadcast(-rows.delta(strip.first + i));
      Real* const row = scores + i * tile_keys;
      Real* const grad = strip_gradients(strip) + i * tile_keys;
      const Real* const undropped_row = undropped + i * tile_keys;
      for_active_vectors<P>(lanes, row, [&](Real* p) {
        const Index j = p - row;
        const P value_term = P::load(p) * P::load(grad + j);
        const P probability = P::load(undropped_row + j);
        // Finite numbers can overflow in the other factors, even those of invisible keys.
        unless_zero(probability, mul_add(probability, delta, value_term)).store(grad + j);
      });
      clear_inactive(lanes, row);
      clear_inactive(lanes, grad);
    }
  }

  /// Writes zeros for a strip without active lanes.
  void clear(const Strip& strip, Real* scores) const noexcept {
    std::fill_n(scores, strip.rows * tile_keys, Real{0});
    std::fill_n(strip_gradients(strip), strip.rows * tile_keys, Real{0});
  }

 private:
  static void compute_probabilities(const ActiveLanes& lanes, Real lse, bool isolates_nonfinite,
                                    Real* scores) noexcept {
    exponentiate_and_sum<Tier>(lanes, lse, isolates_nonfinite, scores);
    if (!isolates_nonfinite) return;
    for (Index j = 0; j < tile_keys; ++j) {
      if (scores[j] <= 0) scores[j] = 0;
    }
  }

  /// Writes zeros to inactive lanes, which kernels that run over keys read.
  static void clear_inactive(const ActiveLanes& lanes, Real* row) noexcept {
    for (Index n = 0; n < tile_panels; ++n) {
      const Index first = n * panel_lanes, end = first + panel_lanes;
      if (!lanes.has_panel(n)) {
        std::fill(row + first, row + end, Real{0});
      } else if (lanes.end < end) {
        std::fill(row + (std::max)(lanes.end, first), row + end, Real{0});
      }
    }
  }

  TileDropout dropout_;
  Real* grad_;
  Real* pre_dropout_;  ///< probabilities of a strip, before dropout
};

}  // namespace detail
POSENC_END
