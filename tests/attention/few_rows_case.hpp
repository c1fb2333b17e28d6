// SPDX-License-Identifier: MIT
#pragma once

#include "simd/tiers.hpp"
#include "stage_case.hpp"
#include "support/catch.hpp"
#include <posenc/attention/detail/kernels.hpp>
#include <posenc/attention/detail/softmax.hpp>
#include <posenc/attention/detail/tile.hpp>

#include <limits>
#include <vector>

namespace attention_test {

/// A stage that multiplies a block's few queries, of all key heads, with keys and values that it reads itself: checked
/// for products with every key, and for sums of values with weights, of which some are those of hidden keys.
template <class Tier, class T>
class FewRows {
 public:
  using Stage = StageCase<Tier, T>;
  using Block = typename Stage::Block;
  Stage stage;

  explicit FewRows(const Shape& shape, support::Layout layout = {})
      : stage(shape, {.causal = posenc::Causal::No}, {}, layout) {}

  /// make(carver): the stage
  template <class Make>
  void check(const Make& make) {
    const Index key_heads = stage.tensors.shape.kv_heads, rows = stage.rows(key_heads);
    const Index padded = posenc::detail::padded_value_dim(stage.tensors.shape.value_dim);
    const auto carve = [&](posenc::detail::Carver& carver) {
      struct All {
        Block block;
        typename Stage::Scores scores;
        posenc::detail::RowSums<T> sums;
        posenc::detail::Lanes* lanes;
        decltype(make(carver)) tested;
      };
      return All{Block(stage.of_rows, rows, carver),
                 typename Stage::Scores(stage.of_scores, rows, stage.queries(), carver, true),
                 posenc::detail::RowSums<T>::carve(carver, rows, padded),
                 carver.take<posenc::detail::Lanes>(Block::strips(rows)), make(carver)};
    };
    posenc::detail::Slots slots;
    auto all = carved(slots, carve);
    all.block.take(stage.sequence(), 0, 0, stage.queries(), key_heads);
    all.sums.clear(rows, padded);
    std::vector<double> want(static_cast<std::size_t>(rows * padded));
    for (Index tile = 0; tile < stage.tiles(); ++tile) {
      const auto seen = all.block.look_at(tile, all.lanes);
      all.tested.multiply(all.block, seen, all.scores);
      bool right = true;
      const auto score = [&](Index r, Index key) -> T& {
        return all.scores.of({r, 1})[key - seen.first_key()];
      };
      for_scores(all.block, seen, [&](Index r, Index key) {
        const double product = stage.score(all.block.query(r), all.block.head(r), key);
        right &= tiers::same(score(r, key), static_cast<T>(product));
      });
      INFO("tile " << tile);
      CHECK(right);
      add_values(all, seen, score, want);
    }
    bool right = true;
    for (Index r = 0; r < rows; ++r) {
      right &= all.sums.highest[r] == 0 && all.sums.sum[r] == static_cast<T>(stage.tiles());
      for (Index d = 0; d < stage.tensors.shape.value_dim; ++d) {
        const auto at = static_cast<std::size_t>(r * padded + d);
        right &= all.sums.out[at] == static_cast<T>(want[at]);
      }
    }
    CHECK(right);
  }

 private:
  template <class Visit>
  static void for_scores(const Block& block, const posenc::detail::SeenTile& seen,
                         const Visit& visit) {
    for (Index r = 0; r < block.rows(); ++r) {
      for (Index key = seen.keys.begin; key < seen.keys.end; ++key) visit(r, key);
    }
  }

  /// Weights in place of scores, of which a negative one hides a value that is NaN.
  template <class All, class Score>
  void add_values(All& all, const posenc::detail::SeenTile& seen, const Score& score,
                  std::vector<double>& want) {
    const Index padded = posenc::detail::padded_value_dim(stage.tensors.shape.value_dim);
    const auto v = stage.tensors.v.view();
    const Index hidden = seen.keys.begin + (seen.keys.end - seen.keys.begin) / 2;
    const bool hides = seen.keys.end - seen.keys.begin > 1;
    for_scores(all.block, seen, [&](Index r, Index key) {
      T& weight = score(r, key);
      if (hides && key == hidden) {
        weight = -1;
        return;
      }
      weight = static_cast<T>(0.25 * static_cast<double>((r + key) % 5));
      const T* const value = v.row(0, key, all.block.head(r) / stage.group());
      for (Index d = 0; d < v.dim; ++d) {
        want[static_cast<std::size_t>(r * padded + d)] +=
            static_cast<double>(weight) * static_cast<double>(value[d]);
      }
    });
    if (hides) {
      for (Index h = 0; h < v.heads; ++h) {
        v.row(0, hidden, h)[v.dim - 1] = std::numeric_limits<T>::quiet_NaN();
      }
    }
    all.tested.begin_tile(all.block);
    // Tiles that count alike, so that sums are as many as tiles.
    for (Index r = 0; r < all.block.rows(); ++r) {
      *all.tested.highest(r) = 0;
      *all.tested.sum(r) = 1;
    }
    all.tested.template add_values<posenc::detail::Skipped::Negative>(all.block, seen, all.scores,
                                                                      all.sums);
  }
};

}  // namespace attention_test
