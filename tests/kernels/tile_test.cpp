// SPDX-License-Identifier: MIT
// Tests the layout of tiles that caches, sources and kernels share.
#include "simd/tiers.hpp"
#include "support/catch.hpp"
#include <posenc/kernels/tile.hpp>
#include <posenc/kv/kv_cache.hpp>

namespace tile_test {

using posenc::Index;
using posenc::detail::KeyRange;
using posenc::detail::padded_value_dim;

TEST_CASE("tile: rows of values are the least number of whole lines of floats",
          "[attention][tile]") {
  for (Index dim = 1; dim <= 300; ++dim) {
    const Index padded = padded_value_dim(dim);
    CHECK((padded >= dim && padded - dim < 16 && padded % 16 == 0));
  }
}

TEMPLATE_LIST_TEST_CASE("tile: vectors divide panels and rows of values", "[attention][tile]",
                        tiers::Packs) {
  using P = typename TestType::P;
  CHECK(posenc::detail::panel_lanes % P::width == 0);
  CHECK(posenc::detail::value_padding % P::width == 0);
}

TEST_CASE("tile: ranges of keys", "[attention][tile]") {
  CHECK(KeyRange{}.empty());
  CHECK(KeyRange{7, 7}.empty());
  CHECK(KeyRange{9, 7}.empty());
  CHECK(!KeyRange{7, 8}.empty());
}

TEST_CASE("tile: a cache has whole tiles, as its documentation says", "[attention][tile]") {
  const posenc::KvCache<float> cache(
      {.sequences = 2, .kv_heads = 3, .head_dim = 5, .value_dim = 17, .capacity = 129});
  // Keys [2][3][256 / 32][5][32], values [2][3][256][32], and the tables that locate them.
  const std::size_t numbers = 2 * 3 * 256 * (5 + 32);
  CHECK(cache.bytes() >= numbers * sizeof(float));
  CHECK(cache.bytes() < numbers * sizeof(float) + 256);
}

}  // namespace tile_test
