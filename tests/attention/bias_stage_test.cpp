// SPDX-License-Identifier: MIT
// Tests the bias stage separately: values of a strip equal those of a head's tile, and a TokenBias
// gets the right tokens.
#include "simd/tiers.hpp"
#include "stage_case.hpp"
#include "support/catch.hpp"
#include <posenc/attention/detail/bias_stage.hpp>
#include <posenc/attention/detail/erased_bias.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/concepts.hpp>

#include <concepts>
#include <cstddef>
#include <vector>

namespace bias_stage_test {

using attention_test::allocate_from;
using attention_test::StageCase;
using posenc::Index;
using posenc::detail::ActiveLanes;
using posenc::detail::ArenaAllocator;
using posenc::detail::BiasTile;
using posenc::detail::Strip;
using posenc::detail::tile_keys;
using posenc::detail::TileVisibility;

namespace {

/// Bias that records its calls.
struct OfTokens {
  std::vector<posenc::TokenTile>* asked;

  template <std::floating_point Real>
  void add(const posenc::TokenTile& tokens, posenc::MatrixView<Real>) const {
    asked->push_back(tokens);
  }
};

template <class Stage>
struct All {
  typename Stage::Block block;
  posenc::detail::BiasStage<typename Stage::Tier, typename Stage::Real, typename Stage::Real> bias;
  ActiveLanes* lanes;
};

template <class Tier, class T>
struct Of : StageCase<Tier, T> {
  using Real = T;
  using StageCase<Tier, T>::StageCase;

  using Bias = posenc::detail::ErasedBias<T>;
  All<Of> all(posenc::detail::ScratchArenas& arenas, const Bias& bias) const {
    return allocate_from(arenas, [&](ArenaAllocator& c) {
      return All<Of>{{this->plan, this->rows(), c},
                     {this->plan, bias, this->rows(), this->queries(), true, c},
                     c.allocate<ActiveLanes>(StageCase<Tier, T>::Block::strips(this->rows()))};
    });
  }
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("BiasStage: a strip's bias is that of a head's tile",
                        "[attention][bias_stage]", tiers::Packs) {
  using T = typename TestType::Real;
  using Stage = Of<typename TestType::Tier, T>;
  const posenc::Alibi alibi({.heads = 6, .form = posenc::AlibiForm::Causal});
  const posenc::detail::ErasedBias<T> bias(alibi);
  std::vector<double> scattered(300);
  for (std::size_t j = 0; j < scattered.size(); ++j) scattered[j] = static_cast<double>(j * j);
  for (const bool steady : {true, false}) {
    const Stage stage({1, 6, 2, 21, 300, 4, 4}, {.causal = posenc::Causal::BottomRight});
    posenc::detail::ScratchArenas arenas;
    auto all = stage.all(arenas, bias);
    all.block.load_queries(
        {.sequence = stage.sequence(), .first_kv_head = 1, .queries = stage.queries()});
    all.bias.begin(all.block);
    std::vector<double> memory(static_cast<std::size_t>(tile_keys));
    for (Index tile = 0; tile < stage.tiles(); ++tile) {
      const TileVisibility seen = all.block.visibility_of(tile, all.lanes);
      const Index keys = seen.keys.end - seen.first_key();
      const double* const positions =
          steady ? stage.plan.geometry.key_positions(stage.sequence(), seen.first_key(), keys,
                                                     memory.data())
                 : scattered.data() + seen.first_key();
      REQUIRE(all.bias.prepare(all.block, seen, positions) == steady);
      if (!steady) continue;
      const auto count = static_cast<std::size_t>(all.block.rows() * tile_keys);
      std::vector<T> strip_scores(count, T{0.5}), of_tile(count, T{0.5});
      all.block.for_strips([&](const Strip& strip) {
        all.bias.add_to_strip(all.block, Stage::Block::active_lanes(seen, strip), strip,
                              strip_scores.data() + strip.first * tile_keys);
      });
      const Index begin = seen.keys.begin - seen.first_key(), group = stage.group();
      for (Index r = 0; r < group; ++r) {
        all.bias.add(all.block, seen.first_key(), {},
                     BiasTile<T>{r,
                                 stage.queries(),
                                 begin,
                                 keys - begin,
                                 positions + begin,
                                 {of_tile.data() + r * tile_keys + begin, stage.queries(),
                                  keys - begin, group * tile_keys}});
      }
      bool right = true;
      all.block.for_strips([&](const Strip& strip) {
        const ActiveLanes lanes = Stage::Block::active_lanes(seen, strip);
        for (Index r = strip.first; r < strip.first + strip.rows; ++r) {
          for (Index j = lanes.begin; j < lanes.end; ++j) {
            const auto at = static_cast<std::size_t>(r * tile_keys + j);
            right &= tiers::same(strip_scores[at], of_tile[at]);
            const bool is_own_key = seen.first_key() + j == 279 + all.block.query(r);
            right &= !is_own_key || of_tile[at] == T{0.5};
          }
        }
      });
      INFO(TestType::Tier::name << ", tile " << tile);
      CHECK(right);
      CHECK(of_tile[static_cast<std::size_t>(begin)] < T{0.5});
    }
  }
}

TEMPLATE_LIST_TEST_CASE("BiasStage: a TokenBias gets the tokens of its strip",
                        "[attention][bias_stage]", tiers::Packs) {
  using T = typename TestType::Real;
  using Stage = Of<typename TestType::Tier, T>;
  static_assert(posenc::TokenBias<OfTokens, T>);
  const Stage stage({1, 4, 2, 20, 300, 4, 4}, {.causal = posenc::Causal::BottomRight});
  std::vector<posenc::TokenTile> asked;
  posenc::detail::ScratchArenas arenas;
  const OfTokens of_tokens{&asked};
  const posenc::detail::ErasedBias<T> bias(of_tokens);
  auto all = stage.all(arenas, bias);
  all.block.load_queries(
      {.sequence = stage.sequence(), .first_kv_head = 1, .first_query = 3, .queries = 7});
  std::vector<double> positions{250, 251, 252};
  std::vector<T> scores(static_cast<std::size_t>(all.block.rows() * tile_keys));
  // Adds the bias of the second head, starting at the block's third query.
  all.bias.add(all.block, 128, {},
               BiasTile<T>{5, 2, 32, 3, positions.data(), {scores.data(), 2, 3, 2 * tile_keys}});
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].batch == 0);
  CHECK(asked[0].sequence == 0);
  CHECK(asked[0].head == 3);
  CHECK(asked[0].first_query == 5);
  CHECK(asked[0].aligned_key == 280 + 5);
  CHECK(asked[0].first_key == 160);
  CHECK(asked[0].query_positions.size() == 2);
  CHECK(asked[0].query_positions[0] == 285);
  CHECK(asked[0].key_positions.data() == positions.data());
  CHECK(asked[0].key_positions.size() == 3);
}

}  // namespace bias_stage_test
