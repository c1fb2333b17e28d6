// SPDX-License-Identifier: MIT
// Tests blocks of rows separately: their queries and heads, and the keys of a tile that they see.
#include "simd/tiers.hpp"
#include "stage_case.hpp"
#include "support/catch.hpp"
#include <posenc/attention/detail/query_block.hpp>

#include <algorithm>
#include <vector>

namespace query_block_test {

using attention_test::allocate_from;
using attention_test::Shape;
using attention_test::StageCase;
using posenc::Index;
using posenc::detail::ActiveLanes;
using posenc::detail::ArenaAllocator;
using posenc::detail::KeyRange;
using posenc::detail::panel_lanes;
using posenc::detail::RowsInPlace;
using posenc::detail::Strip;
using posenc::detail::tile_keys;
using posenc::detail::TileVisibility;

namespace {

/// Returns a mask for 20 queries and 300 keys with masked ranges, some of which cover full panels.
attention_test::Mask<bool> holes() {
  attention_test::Mask<bool> keep(1, 1, 20, 300);
  support::Random random(2);
  keep.fill([&] { return random.integer(0, 3) != 0; });
  for (Index i = 0; i < 20; ++i) {
    for (Index j = 32; j < 96; ++j) keep.values(0, 0, i, j) = i % 5 == 4;
  }
  return keep;
}

template <class Stage>
std::vector<TileVisibility> tiles_of(const Stage& stage, const typename Stage::Block& block,
                                     std::vector<std::vector<ActiveLanes>>& lanes) {
  std::vector<TileVisibility> all;
  for (Index tile = 0; tile < stage.tiles(); ++tile) {
    lanes.emplace_back(static_cast<std::size_t>(Stage::Block::strips(block.rows())));
    all.push_back(block.visibility_of(tile, lanes.back().data()));
  }
  return all;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("QueryBlock: rows are its queries, head by head", "[attention][row_block]",
                        tiers::Packs) {
  using T = typename TestType::Real;
  using Stage = StageCase<typename TestType::Tier, T>;
  using Block = typename Stage::Block;
  const Stage stage({1, 6, 3, 40, 300, 7, 7}, {.causal = posenc::Causal::BottomRight});
  posenc::detail::ScratchArenas arenas;
  Block block =
      allocate_from(arenas, [&](ArenaAllocator& c) { return Block(stage.plan, stage.rows(2), c); });
  const Index count = GENERATE(13, 29), first = 4, group = 2;
  block.load_queries({.sequence = stage.sequence(),
                      .first_kv_head = 1,
                      .kv_heads = 2,
                      .first_query = first,
                      .queries = count});
  REQUIRE(block.rows() == 2 * count * group);
  REQUIRE(block.rows_per_kv_head() == count * group);
  CHECK(block.first_head() == 2);
  bool right = true;
  for (Index r = 0; r < block.rows(); ++r) {
    const Index of_head = r % (count * group), query = first + of_head / group;
    const Index head = (1 + r / (count * group)) * group + of_head % group;
    right &= block.query(r) == query && block.head(r) == head;
    right &= block.position(r) == static_cast<double>(300 - 40 + query);
    right &= std::equal(block.packed(r), block.packed(r) + 7, stage.plan.q.row(0, query, head));
  }
  CHECK(right);
  CHECK(block.visible_keys().begin == 0);
  CHECK(block.visible_keys().end == 300 - 40 + first + count);

  // Strips cover all rows in order. No strip has rows of two KV heads, and in a long block the
  // partial strip comes first.
  Index next = 0;
  block.for_strips([&](const Strip& strip) {
    CHECK(strip.first == next);
    CHECK((strip.rows > 0 && strip.rows <= Block::strip_rows));
    CHECK(strip.first / (count * group) == (strip.first + strip.rows - 1) / (count * group));
    if (strip.first % (count * group) == 0) {
      const bool is_long = count * group > 4 * Block::strip_rows;
      const Index rest = count * group % Block::strip_rows;
      CHECK(strip.rows == (is_long && rest != 0 ? rest : Block::strip_rows));
    }
    next += strip.rows;
  });
  CHECK(next == block.rows());
}

TEMPLATE_LIST_TEST_CASE("QueryBlock: visible part of a tile", "[attention][row_block]",
                        tiers::Packs) {
  using T = typename TestType::Real;
  using Stage = StageCase<typename TestType::Tier, T>;
  using Block = typename Stage::Block;
  auto keep = holes();
  posenc::AttentionOptions<T> windowed{.causal = posenc::Causal::BottomRight};
  windowed.window = posenc::sliding_window(100);
  posenc::AttentionOptions<T> masked{.causal = posenc::Causal::BottomRight};
  masked.keep = keep.view();
  for (const auto& options :
       {windowed, masked, posenc::AttentionOptions<T>{.causal = posenc::Causal::TopLeft}}) {
    const Stage stage({1, 3, 1, 20, 300, 4, 4}, options);
    posenc::detail::ScratchArenas arenas;
    Block block = allocate_from(
        arenas, [&](ArenaAllocator& c) { return Block(stage.plan, stage.rows(), c); });
    block.load_queries({.sequence = stage.sequence(), .queries = stage.queries()});
    std::vector<std::vector<ActiveLanes>> memory;
    for (const TileVisibility& seen : tiles_of(stage, block, memory)) {
      bool right = true, all_rows = true;
      block.for_strips([&](const Strip& strip) {
        const ActiveLanes lanes = Block::active_lanes(seen, strip);
        for (Index panel = 0; panel * panel_lanes < tile_keys; ++panel) {
          bool some = false;
          for (Index j = panel * panel_lanes; j < (panel + 1) * panel_lanes; ++j) {
            const Index key = seen.first_key() + j;
            for (Index r = strip.first; r < strip.first + strip.rows; ++r) {
              const bool sees = key < stage.keys() && stage.sees(block.query(r), key);
              all_rows &= sees;
              some |= sees;
              right &= !sees || (lanes.begin <= j && j < lanes.end && seen.keys.begin <= key &&
                                 key < seen.keys.end);
            }
          }
          right &= lanes.has_panel(panel) == some;
        }
      });
      INFO("tile " << seen.tile);
      CHECK(right);
      CHECK(block.is_fully_visible(seen.first_key()) == (all_rows && options.keep.data == nullptr));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("QueryBlock: rows that kernels can read stay in the tensor",
                        "[attention][row_block]", tiers::Packs) {
  using T = typename TestType::Real;
  using Stage = StageCase<typename TestType::Tier, T>;
  using Block = typename Stage::Block;
  struct Trial {
    Shape shape;
    Index queries, kv_heads;
    bool stays;
  };
  for (const Trial& trial : {Trial{{1, 3, 3, 9, 100, 8, 8}, 5, 1, true},   // one tile, one head
                             Trial{{1, 3, 3, 9, 200, 8, 8}, 5, 1, false},  // rows are read twice
                             Trial{{1, 6, 3, 9, 100, 8, 8}, 5, 1, false},  // heads are interleaved
                             Trial{{1, 6, 3, 9, 200, 8, 8}, 1, 2, true}}) {  // heads of one query
    const Stage stage(trial.shape, {.causal = posenc::Causal::No});
    posenc::detail::ScratchArenas arenas;
    Block block = allocate_from(
        arenas, [&](ArenaAllocator& c) { return Block(stage.plan, stage.rows(), c); });
    block.load_queries({.sequence = stage.sequence(),
                        .first_kv_head = 1,
                        .kv_heads = trial.kv_heads,
                        .first_query = 2,
                        .queries = trial.queries},
                       RowsInPlace::Padded);
    const auto& q = stage.plan.q;
    CHECK((block.packed(0) == q.row(0, 2, block.head(0))) == trial.stays);
    bool right = true;
    for (Index r = 0; r < block.rows(); ++r) {
      right &= block.packed(r) == block.packed(0) + r * (q.dim + block.row_padding());
      right &= std::equal(block.packed(r), block.packed(r) + q.dim,
                          q.row(0, block.query(r), block.head(r)));
    }
    CHECK(right);
  }
}

}  // namespace query_block_test
