// SPDX-License-Identifier: MIT
// Tests scores separately, without a schedule, as in a backward pass: geometry, masks, tiles, a
// block of rows.
#include "simd/tiers.hpp"
#include "stage_case.hpp"
#include "support/catch.hpp"
#include <posenc/attention/detail/query_block.hpp>
#include <posenc/attention/detail/scores.hpp>
#include <posenc/attention/detail/tensor_kv_source.hpp>

#include <cstddef>
#include <limits>
#include <span>

namespace scores_test {

using attention_test::allocate_from;
using attention_test::StageCase;
using posenc::Index;
using posenc::detail::ActiveLanes;
using posenc::detail::ArenaAllocator;
using posenc::detail::AttentionSequence;
using posenc::detail::Strip;
using posenc::detail::tile_keys;
using posenc::detail::TileVisibility;

namespace {

/// Bias that counts its tiles and their rows.
struct CountedBias {
  Index* calls;
  Index* rows;

  template <class Real>
  void add(Index head, std::span<const double> query_positions,
           std::span<const double> key_positions, posenc::MatrixView<Real> tile) const {
    ++*calls;
    *rows += tile.rows;
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j) {
        tile.row(i)[j] += static_cast<Real>(0.25 * static_cast<double>(head + 1) *
                                            (query_positions[static_cast<std::size_t>(i)] -
                                             key_positions[static_cast<std::size_t>(j)]));
      }
    }
  }
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("scores: of a block equal the reference", "[attention][scores]",
                        tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  using Source = posenc::detail::TensorKvSource<Tier, T>;
  using Stage = StageCase<Tier, T>;
  using Block = typename Stage::Block;
  constexpr Index heads = 6, kv_heads = 2, group = 3, queries = 21, keys = 300, dim = 8;
  posenc::AttentionOptions<T> options;
  options.causal = posenc::Causal::BottomRight;
  options.window = posenc::sliding_window(250);
  Index calls = 0, rows_of_calls = 0;
  const CountedBias bias{&calls, &rows_of_calls};
  Stage stage({1, heads, kv_heads, queries, keys, dim, dim}, options, bias);
  const Source source(stage.tensors.k.view(), stage.tensors.v.view());

  struct All {
    Block block;
    typename Stage::Scores scores;
    typename Source::Scratch scratch;
    ActiveLanes* lanes;
    double* run_of_positions;
  };
  posenc::detail::ScratchArenas arenas;
  All all = allocate_from(arenas, [&](ArenaAllocator& c) {
    return All{Block(stage.plan, stage.rows(), c),
               typename Stage::Scores(stage.plan, stage.call_bias, stage.rows(), queries, c),
               source.allocate(c), c.allocate<ActiveLanes>(Block::strips(stage.rows())),
               c.allocate<double>(tile_keys)};
  });

  const AttentionSequence sequence = stage.sequence();
  for (Index kv = 0; kv < kv_heads; ++kv) {
    all.block.load_queries({.sequence = sequence, .first_kv_head = kv, .queries = queries});
    for (Index tile = 0; tile < stage.tiles(); ++tile) {
      const TileVisibility seen = all.block.visibility_of(tile, all.lanes);
      REQUIRE(!seen.keys.empty());
      const auto of_tile = source.tile(sequence, kv, tile, seen.keys, all.scratch);
      const double* const key_positions = stage.plan.geometry.key_positions(
          sequence, seen.first_key(), seen.keys.end - seen.first_key(), all.run_of_positions);
      calls = rows_of_calls = 0;
      all.block.for_strips([&](const Strip& strip) {
        const auto active = Block::active_lanes(seen, strip);
        if (active.empty()) return;
        all.scores.multiply(all.block, of_tile, strip, active, false);
        all.scores.apply_pre_bias_epilogue(all.block, seen, strip);
      });
      all.scores.add_bias(all.block, seen, of_tile.keys, key_positions);
      // All queries of a head are in one call if they see the same keys.
      if (tile == 1) CHECK(calls == group);
      CHECK(rows_of_calls == group * queries);
      bool right = true;
      all.block.for_strips([&](const Strip& strip) {
        const ActiveLanes lanes = Block::active_lanes(seen, strip);
        if (lanes.empty()) return;
        all.scores.apply_post_bias_epilogue(all.block, seen, strip);
        for (Index i = 0; i < strip.rows; ++i) {
          const Index r = strip.first + i, query = all.block.query(r), head = all.block.head(r);
          for (Index lane = lanes.begin; lane < lanes.end; ++lane) {
            const Index key = seen.first_key() + lane;
            const T score = all.scores.strip_scores(strip)[i * tile_keys + lane];
            if (!stage.sees(query, key)) {
              right &= tiers::same(score, -std::numeric_limits<T>::infinity());
              continue;
            }
            const double want = stage.score(query, head, key) +
                                0.25 * static_cast<double>(head + 1) *
                                    static_cast<double>(keys - queries + query - key);
            right &= tiers::same(score, static_cast<T>(want));
          }
        }
      });
      INFO(Tier::name << ", key head " << kv << ", tile " << tile);
      CHECK(right);
    }
  }
}

}  // namespace scores_test
