// SPDX-License-Identifier: MIT
// Caches on a pool have the same contents as caches that own their memory, and use one block per
// distinct tile.
#include "kv_cache_case.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include "support/sampled.hpp"
#include "support/throws.hpp"
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/kv/kv_cache.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kv_block_pool_test {

using kv_cache_test::all_of;
using kv_cache_test::at;
using kv_cache_test::dim;
using kv_cache_test::full_cache;
using kv_cache_test::heads;
using kv_cache_test::ring;
using kv_cache_test::tile_of;
using kv_cache_test::value_dim;
using posenc::Index;
using posenc::KvBlockPool;
using posenc::KvCache;
using posenc::KvCacheConfig;
using posenc::MemoryLimitError;
using support::Heads;
using support::message_of;

namespace {

constexpr std::size_t no_limit = std::size_t{1} << 40;

template <class S>
void append(KvCache<S>& cache, Index sequence, Index n, std::uint64_t seed = 1) {
  support::Random random(seed);
  auto k = Heads<float>::random(random, 1, n, heads, dim);
  auto v = Heads<float>::random(random, 1, n, heads, value_dim);
  cache.append(sequence, k.view(), v.view());
}

/// Adds the addresses of a cache's tiles that hold keys.
template <class S>
void add_tiles(std::set<const S*>& tiles, const KvCache<S>& cache) {
  for (Index sequence = 0; sequence < cache.sequences(); ++sequence) {
    const Index first = cache.first(sequence), end = cache.length(sequence);
    for (Index tile = first / 128; first < end && tile * 128 < end; ++tile) {
      tiles.insert(tile_of(cache, sequence, 0, tile).keys);
    }
  }
}

/// Returns attention of a query per sequence over its last keys, at most twenty.
template <class S>
std::vector<float> attend(const KvCache<S>& cache) {
  support::Random random(9);
  std::vector<float> all;
  for (Index sequence = 0; sequence < cache.sequences(); ++sequence) {
    const Index keys = cache.length(sequence) - cache.first(sequence);
    if (keys == 0) continue;
    auto q = Heads<float>::random(random, 1, 1, 2 * heads, dim);
    Heads<float> out(1, 1, 2 * heads, value_dim);
    const std::vector<Index> rows{sequence};
    posenc::attention(q.view(), cache, rows, out.view(),
                      {.causal = posenc::Causal::BottomRight,
                       .window = posenc::sliding_window(std::min(keys, Index{20}))});
    out.for_each([&](float x) { all.push_back(x); });
  }
  return all;
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         support::same_bits(a.data(), b.data(), static_cast<Index>(a.size()));
}

/// Checks that two caches hold the same keys and give the same attention.
template <class S>
bool same(const KvCache<S>& a, const KvCache<S>& b) {
  for (Index n = 0; n < a.sequences(); ++n) {
    if (a.first(n) != b.first(n) || a.length(n) != b.length(n)) return false;
    if (!same(all_of(a, n), all_of(b, n))) return false;
  }
  return same(attend(a), attend(b));
}

/// Cache on a pool beside a cache that owns its memory. Tests apply the same calls to both.
template <class S>
struct Twins {
  KvCache<S> pooled, plain;

  Twins(const KvCacheConfig& config, const KvBlockPool& pool)
      : pooled(config, pool), plain(config) {}
};

/// Call on a cache, with its arguments.
template <class S>
struct Step {
  Index what, sequence, other, n, first;
  Heads<float> k, v;

  Step(support::Random& random, const KvCache<S>& cache)
      : what(random.integer(0, 10)),
        sequence(random.integer(0, cache.sequences() - 1)),
        other((sequence + random.integer(0, cache.sequences() - 1)) % cache.sequences()),
        n(0),
        first(random.integer(cache.first(sequence), cache.length(sequence))),
        k(1, 0, heads, dim),
        v(1, 0, heads, value_dim) {
    const bool is_ring = cache.window() != 0;
    Index room = cache.max_append();
    if (!is_ring) {
      room = cache.capacity() - std::max(cache.length(sequence), cache.length(other));
    }
    n = random.integer(0, std::min(room, Index{random.integer(0, 2) == 0 ? 1 : 150}));
    if (what == 8) {
      first = is_ring ? random.integer(0, 900) : 0;
      n = random.integer(0, 200);
    }
    if (what == 6) n = random.integer(0, cache.length(sequence) - first);
    k = Heads<float>::random(random, 1, 2 * n, heads, dim);
    v = Heads<float>::random(random, 1, 2 * n, heads, value_dim);
    if (n > 0 && random.integer(0, 3) == 0) {
      v.view().row(0, n / 2, 1)[17] = std::numeric_limits<float>::infinity();
    }
  }

  void take(KvCache<S>& cache, std::optional<KvCache<S>>& kept) {
    const auto some = [&](Heads<float>& x) { return posenc::slice_seq(x.view(), 0, n); };
    switch (what) {
      case 0:
      case 1:
      case 2:
        return cache.append(sequence, some(k), some(v));
      case 3: {
        if (other == sequence) return;
        const std::vector<Index> both{other, sequence}, offsets{0, n, 2 * n};
        return cache.append(both, offsets, k.view(), v.view());
      }
      case 4:
        return cache.truncate(sequence, first);
      case 5:
        return cache.copy(sequence, other);
      case 6:
        if (cache.window() == 0) cache.erase(sequence, first, n, [](auto) {});
        return;
      case 7:
        return cache.update_keys(sequence, [](auto x, Index) { x.row(0, 0, 0)[0] += 1; });
      case 8:
        return cache.restore(sequence, first, some(k), some(v));
      case 9:
        if (first % 4 == 0) cache.clear(sequence);
        return;
      default:
        // Copies of a complete cache share blocks as copies of a sequence do.
        if (kept && first % 2 == 0) {
          cache = *kept;
        } else {
          kept.emplace(cache);
        }
    }
  }
};

}  // namespace

TEMPLATE_TEST_CASE("KvBlockPool: a cache on a pool equals one that owns its memory after any calls",
                   "[attention][cache][pool]", float, Eigen::bfloat16) {
  using S = TestType;
  support::Random random(4);
  for (const bool is_ring : {false, true}) {
    const KvCacheConfig config = is_ring ? ring(200, 150, 3) : full_cache(700, 3);
    const std::size_t block = KvCache<S>(config, KvBlockPool({no_limit})).block_bytes();
    // The pool suffices for most calls, but not for all.
    const KvBlockPool pool({6 * block + block / 2});
    Twins<S> twins(config, pool);
    std::optional<KvCache<S>> pooled_copy, plain_copy;
    int refused = 0;
    for (unsigned number = 0; number < support::sampled(500); ++number) {
      Step<S> step(random, twins.plain);
      INFO("step " << number << ", what " << step.what << ", sequence " << step.sequence << ", n "
                   << step.n << ", first " << step.first);
      const Index blocks = pool.blocks();
      bool done = true;
      try {
        step.take(twins.pooled, pooled_copy);
      } catch (const MemoryLimitError&) {
        done = false;
        ++refused;
      }
      if (done) {
        step.take(twins.plain, plain_copy);
      } else {
        REQUIRE(pool.blocks() == blocks);
      }
      REQUIRE(same(twins.pooled, twins.plain));
      std::set<const S*> tiles;
      add_tiles(tiles, twins.pooled);
      if (pooled_copy) add_tiles(tiles, *pooled_copy);
      REQUIRE(pool.blocks() == static_cast<Index>(tiles.size()));
      REQUIRE(pool.bytes() == tiles.size() * block);
      if (!done) {
        twins.pooled.clear(step.sequence);
        twins.plain.clear(step.sequence);
        pooled_copy.reset();
        plain_copy.reset();
      }
    }
    CHECK(refused > 2);
    if (pooled_copy) CHECK(same(*pooled_copy, *plain_copy));
    pooled_copy.reset();
    for (Index sequence = 0; sequence < 3; ++sequence) twins.pooled.clear(sequence);
    CHECK(pool.blocks() == 0);
    CHECK(pool.bytes() == 0);
  }
}

TEST_CASE("KvBlockPool: memory is proportional to the number of stored keys",
          "[attention][cache][pool]") {
  const KvBlockPool pool({no_limit});
  KvCache<Eigen::bfloat16> cache(full_cache(131072, 64), pool);
  CHECK(pool.bytes() == 0);
  for (Index sequence = 0; sequence < 64; ++sequence) append(cache, sequence, 1000);
  // 1000 keys are 8 tiles; a row of values takes 32 numbers.
  CHECK(pool.blocks() == 64 * 8);
  CHECK(pool.bytes() == 64 * 8 * cache.block_bytes());
  CHECK(cache.block_bytes() < 128 * heads * (dim + 1 + 32) * 2 + 256);
  CHECK(cache.bytes() < 64 * 200);
}

TEST_CASE("KvBlockPool: a copied prefix is shared until one side writes",
          "[attention][cache][pool]") {
  const KvBlockPool pool({no_limit});
  KvCache<float> cache(full_cache(1000, 3), pool);
  append(cache, 0, 300);
  cache.copy(0, 1);
  cache.copy(0, 2);
  CHECK(pool.blocks() == 3);
  const auto before = all_of(cache, 0);
  // The other two still share the last block, and all three share the full blocks.
  append(cache, 1, 5, 2);
  CHECK(pool.blocks() == 4);
  append(cache, 1, 5, 3);
  CHECK(pool.blocks() == 4);
  CHECK(all_of(cache, 0) == before);
  CHECK(all_of(cache, 2) == before);
  // Values that were cut while the block was shared are zeroed when the sequence is appended to.
  cache.truncate(2, 260);
  CHECK(pool.blocks() == 4);
  CHECK(all_of(cache, 0) == before);
  append(cache, 2, 1, 4);
  CHECK(pool.blocks() == 5);
  const auto tile = tile_of(cache, 2, 1, 2);
  CHECK(*std::max_element(tile.values + 5 * tile.value_stride,
                          tile.values + 128 * tile.value_stride) == 0);
  cache.clear(0);
  CHECK(pool.blocks() == 4);
  cache.truncate(1, 256);
  CHECK(pool.blocks() == 3);
  CHECK(tile_of(cache, 1, 0, 1).keys == tile_of(cache, 2, 0, 1).keys);
}

TEST_CASE("KvBlockPool: erasing the end of a sequence does not write to a shared tile",
          "[attention][cache][pool]") {
  const KvBlockPool pool({no_limit});
  KvCache<float> cache(full_cache(200, 2), pool);
  append(cache, 0, 60);
  Heads<float> k(1, 1, heads, dim), v(1, 1, heads, value_dim);
  k.for_each([](float& x) { x = 0; });
  v.for_each([](float& x) { x = std::numeric_limits<float>::quiet_NaN(); });
  cache.append(0, k.view(), v.view());
  append(cache, 0, 30, 2);
  cache.copy(0, 1);
  cache.truncate(1, 40);
  cache.erase(1, 35, 5, [](auto) {});
  CHECK(cache.length(1) == 35);
  // The other cache still knows that its tile has a NaN; queries before that key do not see it.
  CHECK(!tile_of(cache, 0, 1, 0).finite);
}

TEST_CASE("KvBlockPool: an exhausted pool throws and changes nothing",
          "[attention][cache][pool][errors]") {
  KvCache<float> any(full_cache(1), KvBlockPool({no_limit}));
  const std::size_t block = any.block_bytes();
  const std::string size = std::to_string(block), limit = std::to_string(4 * block);
  const KvBlockPool pool({4 * block});
  CHECK(pool.byte_limit() == 4 * block);
  KvCache<float> cache(full_cache(1000, 2), pool);
  KvCache<double> of_another_layer({.kv_heads = 1, .head_dim = 2, .value_dim = 2, .capacity = 1000},
                                   pool);
  append(cache, 0, 300);
  const auto before = all_of(cache, 0);
  const auto error = [&](const auto& call) { return message_of<MemoryLimitError>(call); };
  const auto needs = [&](const std::string& function, Index count, std::size_t used) {
    return "posenc::KvCache::" + function + ": " + std::to_string(count) + " blocks of " + size +
           " bytes are needed, but of the pool's " + limit + " bytes " + std::to_string(used) +
           " are in use";
  };
  CHECK(error([&] { append(cache, 1, 129); }) == needs("append", 2, 3 * block));
  // If there is memory for one of two sequences only, neither is written.
  CHECK(error([&] {
          const Heads<float> k(2, 100, heads, dim), v(2, 100, heads, value_dim);
          cache.append({1, 0}, Heads<float>(k).view(), Heads<float>(v).view());
        }) == needs("append", 2, 3 * block));
  CHECK(cache.length(1) == 0);
  append(cache, 1, 128);
  CHECK(pool.blocks() == 4);
  CHECK(error([&] { append(cache, 1, 1); }) == needs("append", 1, 4 * block));
  CHECK(error([&] { of_another_layer.update_keys(0, [](auto, Index) {}); }) ==
        "nothing was thrown");
  // Writing needs exclusive blocks; removing keys does not.
  cache.copy(0, 1);
  CHECK(pool.blocks() == 3);
  CHECK(error([&] { cache.update_keys(1, [](auto, Index) {}); }) ==
        needs("update_keys", 3, 3 * block));
  CHECK(error([&] { cache.erase(1, 100, 20, [](auto) {}); }) == needs("erase", 3, 3 * block));
  {
    Heads<float> k(1, 300, heads, dim), v(1, 300, heads, value_dim);
    CHECK(error([&] { cache.restore(1, 0, k.view(), v.view()); }) ==
          needs("restore", 3, 3 * block));
  }
  CHECK(all_of(cache, 0) == before);
  CHECK(all_of(cache, 1) == before);
  cache.truncate(1, 130);
  CHECK(pool.blocks() == 3);
  Heads<double> k(1, 1, 1, 2), v(1, 1, 1, 2);
  of_another_layer.append(0, k.view(), v.view());
  CHECK(pool.blocks() == 4);
  CHECK(pool.bytes() < 4 * block);
  CHECK(message_of<posenc::ConfigError>([] { KvBlockPool({}); }) ==
        "posenc::KvBlockPool: byte_limit must be set");
}

TEST_CASE("KvBlockPool: caches keep their pool alive, and blocks return to their own pool",
          "[attention][cache][pool]") {
  const KvBlockPool first({no_limit}), second({no_limit});
  KvCache<float> a(full_cache(1000), first), b(full_cache(1000), second);
  {
    KvCache<float> c(full_cache(500), KvBlockPool({no_limit}));
    append(c, 0, 200);
    append(a, 0, 200);
    append(b, 0, 400);
    b = c;
    CHECK(second.blocks() == 0);
  }
  append(b, 0, 1);
  CHECK(all_of(b, 0).size() == 201 * heads * (dim + value_dim));
  KvCache<float> moved(std::move(a));
  CHECK(first.blocks() == 2);
  b = moved;
  CHECK(first.blocks() == 2);
  moved = KvCache<float>(full_cache(1000));
  CHECK(first.blocks() == 2);
  b = KvCache<float>(full_cache(1000), second);
  CHECK(first.blocks() == 0);
}

TEST_CASE("KvBlockPool: a moved pool remains the same pool on both sides",
          "[attention][cache][pool]") {
  KvBlockPool pool({no_limit});
  const KvBlockPool taken = std::move(pool);
  KvCache<float> cache(full_cache(500), pool);  // NOLINT(bugprone-use-after-move)
  append(cache, 0, 1);
  CHECK(taken.blocks() == 1);
  CHECK(pool.blocks() == 1);
}

TEST_CASE("KvBlockPool: blocks return to the pool with their own size",
          "[attention][cache][pool]") {
  const KvBlockPool pool({no_limit});
  KvCache<float> wide(full_cache(1000), pool);
  KvCache<float> narrow({.kv_heads = 1, .head_dim = 2, .capacity = 300}, pool);
  REQUIRE(wide.block_bytes() != narrow.block_bytes());
  append(wide, 0, 300);
  const Heads<float> k(1, 200, 1, 2), v(1, 200, 1, 2);
  narrow.append(0, Heads<float>(k).view(), Heads<float>(v).view());
  const KvCache<float> other = wide;
  wide = narrow;
  CHECK(pool.bytes() == 3 * other.block_bytes() + 2 * narrow.block_bytes());
  wide = other;
  narrow = KvCache<float>(full_cache(100), pool);
  CHECK(pool.bytes() == 3 * other.block_bytes());
  wide.clear(0);
  wide = other;
  CHECK(pool.blocks() == 3);
}

}  // namespace kv_block_pool_test
