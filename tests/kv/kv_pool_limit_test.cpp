// SPDX-License-Identifier: MIT
// A call on a pool throws MemoryLimitError if and only if it needs more blocks than are free,
// however sequences share blocks.
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include "support/sampled.hpp"
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/kv/kv_cache.hpp>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

namespace kv_pool_limit_test {

using posenc::Index;
using posenc::KvBlockPool;
using posenc::KvCache;
using posenc::KvCacheConfig;
using posenc::MemoryLimitError;
using support::Heads;

namespace {

constexpr Index tile = 128, sequences = 5;
constexpr std::size_t no_limit = std::size_t{1} << 40;

KvCacheConfig config(bool is_ring) {
  return {.sequences = sequences,
          .kv_heads = 1,
          .head_dim = 1,
          .capacity = is_ring ? 0 : 5 * tile,
          .window = is_ring ? 200 : 0,
          .max_append = is_ring ? 150 : 1};
}

struct Range {
  Index first, end;
};

/// Reference model of block tables: the block of each sequence and table index; 0 for none.
struct Model {
  Index places;
  std::vector<std::vector<int>> tables;
  int last = 0;

  explicit Model(Index count)
      : places(count), tables(sequences, std::vector<int>(static_cast<std::size_t>(count))) {}

  int& at(Index sequence, Index nth) {
    return tables[static_cast<std::size_t>(sequence)][static_cast<std::size_t>(nth % places)];
  }
  Index blocks() const {
    std::set<int> all;
    for (const auto& table : tables) all.insert(table.begin(), table.end());
    all.erase(0);
    return static_cast<Index>(all.size());
  }
  Index holders(int block) const {
    Index count = 0;
    for (const auto& table : tables) count += std::count(table.begin(), table.end(), block);
    return count;
  }
  /// Models a write of keys to a sequence. Returns the number of new blocks.
  Index write(Index sequence, Range keys) {
    Index taken = 0;
    for (Index nth = keys.first / tile; keys.first < keys.end && nth * tile < keys.end; ++nth) {
      int& block = at(sequence, nth);
      if (block != 0 && holders(block) == 1) continue;
      block = ++last;
      ++taken;
    }
    return taken;
  }
  /// Models a sequence that holds these keys and no others.
  void keep(Index sequence, Range keys) {
    std::vector<int> kept(static_cast<std::size_t>(places));
    for (Index nth = keys.first / tile; keys.first < keys.end && nth * tile < keys.end; ++nth) {
      kept[static_cast<std::size_t>(nth % places)] = at(sequence, nth);
    }
    tables[static_cast<std::size_t>(sequence)] = kept;
  }
};

/// Keys that a call writes, one entry per sequence.
using Writes = std::vector<std::pair<Index, Range>>;

/// Returns the number of blocks that a call needs, and the model after the call.
std::pair<Index, Model> after(Model model, const Writes& writes) {
  Index taken = 0;
  for (const auto& [sequence, keys] : writes) taken += model.write(sequence, keys);
  return {taken, std::move(model)};
}

struct Counts {
  int refused = 0, shared = 0;
};

/// Makes one random call on a cache whose pool is limited to `limit` blocks.
void step(support::Random& random, KvCache<float>& cache, Model& model, Index limit,
          Counts& counts) {
  const bool is_ring = cache.window() != 0;
  const auto held = [&](Index n) { return Range{cache.first(n), cache.length(n)}; };
  const Index sequence = random.integer(0, sequences - 1);
  const Range old = held(sequence);
  const auto call = [&](const Writes& writes, const auto& make) {
    auto [taken, next] = after(model, writes);
    const bool has_room = model.blocks() + taken <= limit;
    if (writes.size() > 1 && has_room) ++counts.shared;
    bool done = true;
    try {
      make();
    } catch (const MemoryLimitError&) {
      done = false;
      ++counts.refused;
    }
    REQUIRE(done == has_room);
    if (done) {
      model = next;
      for (const auto& [n, keys] : writes) model.keep(n, held(n));
    }
  };
  switch (random.integer(0, 9)) {
    case 0:
    case 1:
    case 2: {
      const Index n = random.integer(0, is_ring ? 150 : 140);
      Writes writes;
      std::vector<Index> rows;
      for (Index m = 0; m < sequences; ++m) {
        if (random.integer(0, 2) == 0 || (!is_ring && cache.length(m) + n > 5 * tile)) continue;
        rows.insert(rows.begin() + random.integer(0, static_cast<Index>(rows.size())), m);
      }
      for (const Index m : rows) writes.push_back({m, {cache.length(m), cache.length(m) + n}});
      Heads<float> x(static_cast<Index>(rows.size()), n, 1, 1);
      return call(writes, [&] { cache.append(rows, x.view(), x.view()); });
    }
    case 3: {
      Index first = 0, n = random.integer(0, 300);
      if (is_ring) first = random.integer(0, 500);
      Heads<float> x(1, n, 1, 1);
      return call({{sequence, {first, first + n}}},
                  [&] { cache.restore(sequence, first, x.view(), x.view()); });
    }
    case 4:
      return call({{sequence, old}}, [&] { cache.update_keys(sequence, [](auto, Index) {}); });
    case 5: {
      const Index first = random.integer(old.first, old.end),
                  n = random.integer(0, old.end - first);
      if (is_ring || n == 0) return;
      return call({{sequence, {first, old.end - n}}},
                  [&] { cache.erase(sequence, first, n, [](auto) {}); });
    }
    case 6: {
      cache.truncate(sequence, random.integer(old.first, old.end));
      return model.keep(sequence, held(sequence));
    }
    case 7:
      if (random.integer(0, 1) == 0) cache.clear(sequence);
      return model.keep(sequence, held(sequence));
    default: {
      const Index to = random.integer(0, sequences - 1);
      cache.copy(sequence, to);
      model.tables[static_cast<std::size_t>(to)] = model.tables[static_cast<std::size_t>(sequence)];
    }
  }
}

}  // namespace

TEST_CASE("KvBlockPool: rejects exactly the calls that it has no memory for",
          "[attention][cache][pool]") {
  support::Random random(6);
  for (const bool is_ring : {false, true}) {
    const std::size_t bytes =
        KvCache<float>(config(is_ring), KvBlockPool({no_limit})).block_bytes();
    Counts counts;
    for (unsigned run = 0; run < support::sampled(120); ++run) {
      const Index limit = random.integer(2, 12);
      const KvBlockPool pool({static_cast<std::size_t>(limit) * bytes});
      KvCache<float> cache(config(is_ring), pool);
      Model model(cache.capacity() / tile);
      for (int n = 0; n < 60; ++n) {
        INFO((is_ring ? "ring" : "no ring") << ", run " << run << ", step " << n);
        step(random, cache, model, limit, counts);
        REQUIRE(pool.blocks() == model.blocks());
      }
    }
    CHECK(counts.refused > 100);
    CHECK(counts.shared > 100);
  }
}

TEST_CASE("KvBlockPool: the last holder of a shared block keeps it", "[attention][cache][pool]") {
  const std::size_t bytes = KvCache<float>(config(false), KvBlockPool({no_limit})).block_bytes();
  for (const Index holders : {2, 3, 5}) {
    for (Index writers = 1; writers <= holders; ++writers) {
      INFO(holders << " holders, " << writers << " of which write");
      const Index blocks = 1 + (writers == holders ? writers - 1 : writers);
      for (const Index room : {blocks - 1, blocks}) {
        const KvBlockPool pool({static_cast<std::size_t>(room) * bytes});
        KvCache<float> cache(config(false), pool);
        Heads<float> one(1, 1, 1, 1), x(writers, 1, 1, 1);
        std::vector<Index> rows;
        cache.append(0, one.view(), one.view());
        for (Index n = 1; n < holders; ++n) cache.copy(0, n);
        for (Index n = 0; n < writers; ++n) rows.push_back(n);
        if (room == blocks) {
          cache.append(rows, x.view(), x.view());
        } else {
          CHECK_THROWS_AS(cache.append(rows, x.view(), x.view()), MemoryLimitError);
        }
        CHECK(pool.blocks() == (room == blocks ? blocks : 1));
      }
    }
  }
}

}  // namespace kv_pool_limit_test
