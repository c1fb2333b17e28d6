// SPDX-License-Identifier: MIT
// Tests products and weighted sums of few queries separately, with unpacked keys and values of
// tensors.
#include "simd/tiers.hpp"
#include "stage_case.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include <posenc/attention/detail/unpacked_tiles.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/kernels/tile.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace unpacked_tiles_test {

using attention_test::allocate_from;
using attention_test::Shape;
using attention_test::StageCase;
using posenc::Index;
using posenc::detail::ActiveLanes;
using posenc::detail::ArenaAllocator;
using posenc::detail::padded_value_dim;
using posenc::detail::ScratchArenas;
using posenc::detail::SoftmaxState;
using posenc::detail::Strip;
using posenc::detail::TileVisibility;
using posenc::detail::UnpackedTiles;

namespace {

/// Few queries of a block, of all KV heads. Checks products with every key, and sums of values with
/// weights, some of which are those of masked keys.
template <class Tier, class T>
class FewRows {
 public:
  using Stage = StageCase<Tier, T>;
  using Block = typename Stage::Block;
  using Reader = UnpackedTiles<Tier, T>;
  Stage stage;

  explicit FewRows(const Shape& shape, support::Layout layout = {})
      : stage(shape, {.causal = posenc::Causal::No}, {}, {}, layout) {}

  void check() {
    const posenc::HeadsView<const T> k = stage.tensors.k.view(), v = stage.tensors.v.view();
    const Reader reader(k, v);
    const Index kv_heads = stage.tensors.shape.kv_heads, rows = stage.rows(kv_heads);
    const Index padded = padded_value_dim(stage.tensors.shape.value_dim);
    const auto allocate = [&](ArenaAllocator& allocator) {
      struct All {
        Block block;
        typename Stage::Scores scores;
        SoftmaxState<T> sums;
        ActiveLanes* lanes;
        typename Reader::Scratch scratch;
      };
      return All{Block(stage.plan, rows, allocator),
                 typename Stage::Scores(stage.plan, stage.call_bias, rows, stage.queries(),
                                        allocator, true),
                 SoftmaxState<T>::allocate(allocator, rows, padded),
                 allocator.allocate<ActiveLanes>(Block::strips(rows)),
                 reader.allocate(allocator, rows)};
    };
    ScratchArenas arenas;
    auto all = allocate_from(arenas, allocate);
    all.block.load_queries(stage.sequence(), 0, 0, stage.queries(), kv_heads);
    std::vector<double> want(static_cast<std::size_t>(rows * padded));
    for (Index tile = 0; tile < stage.tiles(); ++tile) {
      const auto seen = all.block.visibility_of(tile, all.lanes);
      reader.compute_products(all.block, seen, {}, {0, rows}, all.scores);
      bool right = true;
      const auto score = [&](Index r, Index key) -> T& {
        return all.scores.strip_scores({r, 1})[key - seen.first_key()];
      };
      for_scores(all.block, seen, [&](Index r, Index key) {
        const double product = stage.score(all.block.query(r), all.block.head(r), key);
        right &= tiers::same(score(r, key), static_cast<T>(product));
      });
      INFO("tile " << tile);
      CHECK(right);
      add_values(reader, all, seen, score, tile == 0, want);
    }
    bool right = true;
    for (Index r = 0; r < rows; ++r) {
      right &= all.sums.row_max[r] == 0 && all.sums.sum[r] == static_cast<T>(stage.tiles());
      for (Index d = 0; d < stage.tensors.shape.value_dim; ++d) {
        const auto at = static_cast<std::size_t>(r * padded + d);
        right &= all.sums.out[at] == static_cast<T>(want[at]);
      }
    }
    CHECK(right);
  }

 private:
  template <class Visit>
  static void for_scores(const Block& block, const TileVisibility& seen, const Visit& visit) {
    for (Index r = 0; r < block.rows(); ++r) {
      for (Index key = seen.keys.begin; key < seen.keys.end; ++key) visit(r, key);
    }
  }

  /// Adds values with weights instead of scores; a negative weight skips a value that is NaN.
  template <class All, class Score>
  void add_values(const Reader& reader, All& all, const TileVisibility& seen, const Score& score,
                  bool first, std::vector<double>& want) {
    const Index padded = padded_value_dim(stage.tensors.shape.value_dim);
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
    const Strip batch{0, all.block.rows()};
    const auto of_tile = reader.stats(batch, all.sums, first, all.scratch);
    // Tiles have equal weight, so the sum is the number of tiles.
    std::fill_n(of_tile.row_max, all.block.rows(), T{0});
    std::fill_n(of_tile.sum, all.block.rows(), T{1});
    reader.add_values(all.block, seen, {}, batch, all.scores, true, of_tile, all.sums, first);
  }
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("products and sums of few queries, from rows of tensors",
                        "[attention][unpacked_tiles]", tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  const std::vector<Shape> shapes{
      {1, 16, 16, 1, 150, 40, 40},                             // one query per head
      {1, 8, 8, 1, 3, 33, 20},                                 // the first few keys
      {1, 8, 4, 2, 5, 19, 7},      {1, 3, 3, 1, 131, 17, 33},  // heads that do not fill a vector
      {1, 12, 3, 4, 140, 24, 17},  {1, 2, 1, 5, 37, 5, 1},
  };
  for (const Shape& shape : shapes) {
    for (const auto& layout : support::layouts()) {
      FewRows<Tier, T> few(shape, layout);
      INFO(Tier::name << ", " << layout.name << ", keys " << shape.keys << ", heads "
                      << shape.heads);
      few.check();
    }
  }
}

}  // namespace unpacked_tiles_test
