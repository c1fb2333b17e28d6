// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/attention_memory.hpp>
#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/dropout.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/kernels/panel.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/simd/exp.hpp>
#include <posenc/tensor/scalar.hpp>

#include <limits>

POSENC_BEGIN
namespace detail {

/// Writer of the scores that a call returns, at the requested stage.
template <Scalar T>
class ReturnedScoresWriter {
 public:
  using Real = Compute<T>;

  ReturnedScoresWriter(const AttentionOptions<T>& options,
                       const AttentionMemory<T>& memory) noexcept
      : dropout_(options.dropout), scores_(memory.weights), returned_(memory.returned) {}

  bool is_requested(ReturnedScores stage) const noexcept {
    return scores_.data != nullptr && returned_ == stage;
  }
  /// True if scores of masked keys are returned, too.
  bool keeps_masked_scores() const noexcept {
    return is_requested(ReturnedScores::Scaled) || is_requested(ReturnedScores::Capped);
  }

  /// Sets all scores of a block to -inf. Call it before the block's first tile.
  template <class Block>
  void fill_masked(const Block& block) const noexcept {
    if (scores_.data == nullptr) return;
    for (Index r = 0; r < block.rows(); ++r) {
      for (Index j = 0; j < scores_.keys; ++j) at(block, r, j) = neg_infinity;
    }
  }

  /// Copies a strip's scores, [rows, tile_keys]. They must be requested.
  template <class Block>
  void store(const Block& block, Index first_key, const Strip& strip, const ActiveLanes& lanes,
             const Real* scores) const noexcept {
    const Index first = block.sequence().first_key + first_key;
    for (Index i = 0; i < strip.rows; ++i) {
      for (Index j = lanes.begin; j < lanes.end; ++j) {
        if (!lanes.has_panel(j / panel_lanes)) continue;
        at(block, strip.first + i, first + j) = scores[i * tile_keys + j];
      }
    }
  }

  /// Converts row r's scores to probabilities, if these are requested.
  template <class Block>
  void normalise(const Block& block, Index r, Real row_max, Real sum) const noexcept {
    if (!is_requested(ReturnedScores::Probabilities)) return;
    using One = Pack<Real, tier::Scalar>;
    const AttentionSequence& s = block.sequence();
    for (Index j = 0; j < scores_.keys; ++j) {
      Real& p = at(block, r, j);
      if (p == neg_infinity) {
        p = 0;
        continue;
      }
      p = exp_nonpositive(One{p - row_max}).v / sum;
      if (dropout_.probability > 0) {
        const double key = block.plan().geometry.key_position(s, j - s.first_key);
        p *= static_cast<Real>(
            dropout_factor(dropout_, s.batch, block.head(r), block.position(r), key));
      }
    }
  }

 private:
  static constexpr Real neg_infinity = -std::numeric_limits<Real>::infinity();

  template <class Block>
  Real& at(const Block& block, Index r, Index j) const noexcept {
    const AttentionSequence& s = block.sequence();
    return scores_(s.batch, block.head(r), s.first_query + block.query(r), j);
  }

  Dropout dropout_;
  ScoresView<Real> scores_;
  ReturnedScores returned_;
};

}  // namespace detail
POSENC_END
