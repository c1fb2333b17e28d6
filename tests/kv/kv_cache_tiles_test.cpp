// SPDX-License-Identifier: MIT
// Tiles of a cache: their addresses, the ring, padding, and the flag of non-finite values.
#include "kv_cache_case.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include <posenc/kv/kv_cache.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace kv_cache_tiles_test {

using namespace kv_cache_test;
using posenc::HeadsView;
using support::Heads;
using support::to_double;

TEST_CASE("KvCache: the split of tokens into appends does not matter", "[attention][cache]") {
  support::Random random(2);
  const Index n = 400;
  auto k = Heads<float>::random(random, 1, n, heads, dim);
  auto v = Heads<float>::random(random, 1, n, heads, value_dim);
  KvCache<Eigen::bfloat16> whole(full_cache(n));
  whole.append(0, k.view(), v.view());
  for (const Index piece : {1, 3, 32, 100, 128, 200}) {
    KvCache<Eigen::bfloat16> cut(full_cache(n));
    for (Index j = 0; j < n; j += piece) {
      const Index count = std::min(piece, n - j);
      cut.append(0, posenc::slice_seq(k.view(), j, count), posenc::slice_seq(v.view(), j, count));
    }
    for (Index t = 0; t < 4; ++t) {
      for (Index h = 0; h < heads; ++h) {
        const auto a = tile_of(whole, 0, h, t), b = tile_of(cut, 0, h, t);
        CHECK(support::same_bits(a.keys, b.keys, 128 * dim));
        CHECK(support::same_bits(a.values, b.values, 128 * a.value_stride));
      }
    }
  }
}

TEST_CASE("KvCache: tiles start on cache lines and follow each other", "[attention][cache]") {
  const KvCache<Eigen::half> cache(full_cache(256, 3));
  for (Index sequence = 0; sequence < 3; ++sequence) {
    for (Index h = 0; h < heads; ++h) {
      for (Index t = 0; t < 2; ++t) {
        const auto tile = tile_of(cache, sequence, h, t);
        CHECK(reinterpret_cast<std::uintptr_t>(tile.keys) % 64 == 0);
        CHECK(reinterpret_cast<std::uintptr_t>(tile.values) % 32 == 0);
        CHECK(tile.finite);
      }
      CHECK(tile_of(cache, sequence, h, 1).keys == tile_of(cache, sequence, h, 0).keys + 128 * dim);
      CHECK(tile_of(cache, sequence, h, 1).values ==
            tile_of(cache, sequence, h, 0).values + Index{128} * 32);
    }
  }
}

TEST_CASE("KvCache: a ring holds the window of each of the last queries", "[attention][cache]") {
  for (const Index window : {1, 100, 128, 129, 300}) {
    for (const Index max_append : {1, 7, 128, 200}) {
      KvCache<float> cache(ring(window, max_append));
      const Index tiles = (window + max_append - 1 + 127) / 128 + 1;
      REQUIRE(cache.capacity() == tiles * 128);
      CHECK(cache.window() == window);
      CHECK(cache.max_append() == max_append);
      support::Random random(3);
      Index furthest = 0;
      for (int step = 0; step < 300; ++step) {
        const Index n = random.integer(0, max_append);
        const Index before = cache.length(0);
        const Heads<float> k(1, n, heads, dim), v(1, n, heads, value_dim);
        cache.append(0, Heads<float>(k).view(), Heads<float>(v).view());
        furthest = std::max(furthest, cache.length(0));
        REQUIRE(cache.length(0) == before + n);
        REQUIRE(cache.first(0) % 128 == 0);
        REQUIRE(cache.length(0) - cache.first(0) <= cache.capacity());
        if (n > 0) REQUIRE(cache.first(0) <= std::max(Index{0}, before - window + 1));
        const Index shortest = std::max({Index{0}, cache.first(0), furthest - max_append});
        cache.truncate(0, random.integer(shortest, cache.length(0)));
      }
    }
  }
}

TEST_CASE("KvCache: a tile is marked as non-finite until it is reset", "[attention][cache]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  KvCache<Eigen::half> cache(ring(1, 128));
  REQUIRE(cache.capacity() == 256);
  Heads<float> k(1, 128, heads, dim), v(1, 128, heads, value_dim);
  const auto fill = [&](float value) { v.for_each([&](float& x) { x = value; }); };
  fill(1);
  v.view().row(0, 100, 1)[18] = nan;
  cache.append(0, k.view(), v.view());
  CHECK(tile_of(cache, 0, 0, 0).finite);
  CHECK_FALSE(tile_of(cache, 0, 1, 0).finite);
  fill(65520);  // above the largest finite half
  cache.append(0, k.view(), v.view());
  CHECK_FALSE(tile_of(cache, 0, 0, 1).finite);
  fill(65519);
  const auto one = [](HeadsView<float> x) { return posenc::slice_seq(x, 0, 1); };
  cache.append(0, one(k.view()), one(v.view()));
  CHECK(cache.first(0) == 128);
  CHECK(tile_of(cache, 0, 0, 2).finite);
  CHECK(tile_of(cache, 0, 1, 2).finite);
  CHECK(tile_of(cache, 0, 1, 2).values == tile_of(cache, 0, 1, 0).values);
  v.view().row(0, 0, 0)[0] = nan;
  cache.append(0, one(k.view()), one(v.view()));
  CHECK_FALSE(tile_of(cache, 0, 0, 2).finite);
  cache.truncate(0, 257);
  CHECK(tile_of(cache, 0, 0, 2).finite);
}

TEMPLATE_TEST_CASE("KvCache: one token per append, with heads so large that they are padded",
                   "[attention][cache]", float, double, Eigen::half, Eigen::bfloat16) {
  using S = TestType;
  constexpr Index tokens = 150, wide = 192, values = 130;
  KvCache<S> cache(
      {.sequences = 2, .kv_heads = 3, .head_dim = wide, .value_dim = values, .capacity = 256});
  const std::size_t numbers = at(2 * 3 * 256 * (wide + 144));
  CHECK(cache.bytes() >= sizeof(S) * numbers);
  CHECK(cache.bytes() < sizeof(S) * numbers + 2 * 2 * 3 * 2112 + 200);
  const auto view = [](std::vector<S>& x, Index width) {
    return HeadsView<S>{x.data(), 1, static_cast<Index>(x.size()) / (3 * width), 3, width};
  };
  // Old contents of the sequence, and contents of its neighbour.
  std::vector<S> nan_k(at(256 * 3 * wide), std::numeric_limits<S>::quiet_NaN());
  std::vector<S> nan_v(at(256 * 3 * values), std::numeric_limits<S>::quiet_NaN());
  for (const Index sequence : {0, 1}) {
    cache.append(sequence, view(nan_k, wide), view(nan_v, values));
  }
  cache.clear(1);
  std::vector<S> k(at(tokens * 3 * wide)), v(at(tokens * 3 * values)), got_k(k), got_v(v);
  support::Random random(11);
  random.fill_normal(k);
  random.fill_normal(v);
  bool begun = true;
  for (Index j = 0; j < tokens; ++j) {
    cache.append(1, posenc::slice_seq(view(k, wide), j, 1),
                 posenc::slice_seq(view(v, values), j, 1));
    // The rest of the key's panel must not hold old NaN.
    for (Index h = 0; h < 3; ++h) {
      using namespace posenc::detail;
      const KvTile<S> tile = tile_of(cache, 1, h, j / tile_keys);
      begun &= tile.finite;
      for (Index r = j % tile_keys + 1; r % panel_lanes != 0; ++r) {
        for (Index d = 0; d < values; ++d) {
          begun &= to_double(tile.values[r * tile.value_stride + d]) == 0;
        }
      }
    }
  }
  CHECK(begun);
  cache.copy_keys(1, 0, view(got_k, wide), view(got_v, values));
  CHECK(support::same_bits(got_k.data(), k.data(), static_cast<Index>(k.size())));
  CHECK(support::same_bits(got_v.data(), v.data(), static_cast<Index>(v.size())));
  cache.copy_keys(0, 0, view(nan_k, wide), view(nan_v, values));
  CHECK(std::all_of(nan_k.begin(), nan_k.end(), [](S x) { return std::isnan(to_double(x)); }));
  CHECK(std::all_of(nan_v.begin(), nan_v.end(), [](S x) { return std::isnan(to_double(x)); }));
}

}  // namespace kv_cache_tiles_test
