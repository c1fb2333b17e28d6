// SPDX-License-Identifier: MIT
// Calls on a device whose parallelFor() throws before its work, or after any number of units of it,
// leave caches unchanged.
#include "memory/without_memory.hpp"
#include "support/catch.hpp"
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/nn/multi_head_attention.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <new>
#include <string>
#include <vector>

namespace device_without_memory_test {

using memory_test::heads_view;
using memory_test::numbers;
using memory_test::same;
using memory_test::tokens_view;
using posenc::Causal;
using posenc::HeadsView;
using posenc::Index;
using posenc::KvBlockPool;
using posenc::KvCache;
using posenc::KvCacheConfig;
using posenc::Positions;

namespace {

constexpr Index kv_heads = 2, dim = 8, value_dim = 19, most_tokens = 300;

/// Device that completes a given number of units of work and then throws std::bad_alloc.
struct FailingDevice {
  long* units_left;

  struct Cost {
    double bytes_loaded, bytes_stored, cycles;
  };
  int numThreads() const { return 2; }
  int numThreadsInPool() const { return 2; }
  int currentThreadId() const { return -1; }
  void parallelFor(Index count, const Cost&, const std::function<void(Index, Index)>& work) const {
    // Last units first; any order must work.
    for (Index unit = count; unit-- > 0;) {
      if (*units_left == 0) throw std::bad_alloc();
      --*units_left;
      work(unit, unit + 1);
    }
    if (*units_left == 0) throw std::bad_alloc();
  }
};

/// Cache with or without a pool, with or without sequences that share blocks.
struct Store {
  KvBlockPool pool;
  KvCache<float> cache;
};

struct Kind {
  const char* name;
  KvCacheConfig config;
  bool on_pool, is_shared;
};

constexpr KvCacheConfig plain{
    .sequences = 3, .kv_heads = kv_heads, .head_dim = dim, .value_dim = value_dim, .capacity = 700};
constexpr KvCacheConfig ring{.sequences = 3,
                             .kv_heads = kv_heads,
                             .head_dim = dim,
                             .value_dim = value_dim,
                             .window = 100,
                             .max_append = 140};

constexpr Kind kinds[] = {
    {"no ring", plain, false, false},          {"ring", ring, false, false},
    {"no ring on a pool", plain, true, false}, {"ring on a pool", ring, true, false},
    {"no ring, shared", plain, true, true},    {"ring, shared", ring, true, true},
};

/// Returns a store with sequences of 256, 320 and no keys: one ends with a tile, one inside of a
/// tile.
Store filled(const Kind& kind) {
  const KvBlockPool pool({std::size_t{1} << 30});
  Store store{pool, kind.on_pool ? KvCache<float>(kind.config, pool) : KvCache<float>(kind.config)};
  static const auto k = numbers(128 * kv_heads * dim, 3);
  static const auto v = numbers(128 * kv_heads * value_dim, 4);
  const auto append = [&](Index sequence, Index n) {
    store.cache.append(sequence, heads_view(k.data(), 1, n, kv_heads, dim),
                       heads_view(v.data(), 1, n, kv_heads, value_dim));
  };
  for (const Index n : {128, 100, 28}) append(0, n);
  for (const Index n : {128, 128, 64}) append(1, n);
  if (kind.is_shared) {
    store.cache.copy(1, 2);
    // The shared tile holds values after the end of a sequence that shares it.
    store.cache.truncate(1, 300);
  }
  return store;
}

/// Returns keys, values, the number of blocks if they are counted, and attention over the cache.
/// Attention detects stale contents behind the keys.
std::vector<float> state_of(const Store& store, bool counts_blocks) {
  const KvCache<float>& cache = store.cache;
  std::vector<float> all;
  const auto q = numbers(kv_heads * dim, 9);
  std::vector<float> out(kv_heads * value_dim);
  for (Index sequence = 0; sequence < cache.sequences(); ++sequence) {
    const Index first = cache.first(sequence), n = cache.length(sequence) - first;
    std::vector<float> k(static_cast<std::size_t>(n * kv_heads * dim));
    std::vector<float> v(static_cast<std::size_t>(n * kv_heads * value_dim));
    cache.copy_keys(sequence, first, heads_view(k.data(), 1, n, kv_heads, dim),
                    heads_view(v.data(), 1, n, kv_heads, value_dim));
    all.push_back(static_cast<float>(first));
    all.insert(all.end(), k.begin(), k.end());
    all.insert(all.end(), v.begin(), v.end());
    if (n == 0) continue;
    const std::vector<Index> rows{sequence};
    posenc::attention(
        heads_view(q.data(), 1, 1, kv_heads, dim), cache, rows,
        heads_view(out.data(), 1, 1, kv_heads, value_dim),
        {.causal = Causal::BottomRight, .window = posenc::sliding_window(std::min(n, Index{20}))});
    all.insert(all.end(), out.begin(), out.end());
  }
  if (counts_blocks) all.push_back(static_cast<float>(store.pool.blocks()));
  return all;
}

/// Calls call(device, cache) with 0, 1, 2, ... units of work before the device fails, until the
/// call succeeds. Returns the number of failures. After a failure the cache must be unchanged, also
/// for a later successful call.
template <class Call>
long check(const std::string& name, const Kind& kind, const Call& call, bool counts_blocks = true) {
  INFO(kind.name << ", " << name);
  const auto before = state_of(filled(kind), counts_blocks);
  const auto want = [&] {
    Store store = filled(kind);
    call(posenc::detail::CallingThread(), store.cache);
    return state_of(store, counts_blocks);
  }();
  for (long units = 0;; ++units) {
    INFO("units of work before the device fails: " << units);
    Store store = filled(kind);
    long left = units;
    bool threw = false;
    try {
      call(FailingDevice{&left}, store.cache);
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    if (threw) {
      REQUIRE(same(state_of(store, counts_blocks), before));
      call(posenc::detail::CallingThread(), store.cache);
    }
    REQUIRE(same(state_of(store, counts_blocks), want));
    if (!threw) return units;
    REQUIRE(units < 10000);
  }
}

}  // namespace

TEST_CASE("Device without memory: caches are unchanged", "[memory][cache]") {
  const auto k = numbers(3 * most_tokens * kv_heads * dim, 5);
  auto v = numbers(3 * most_tokens * kv_heads * value_dim, 6);
  // Queries that see no token of the call must not read these values.
  for (std::size_t n = 0; n < v.size(); n += 97) v[n] = std::numeric_limits<float>::quiet_NaN();
  const auto keys = [&](Index b, Index n) { return heads_view(k.data(), b, n, kv_heads, dim); };
  const auto values = [&](Index b, Index n) {
    return heads_view(v.data(), b, n, kv_heads, value_dim);
  };
  for (const Kind& kind : kinds) {
    const bool is_ring = kind.config.window != 0;
    const Index many = is_ring ? 140 : 200;
    for (const Index n : {Index{1}, Index{2}, Index{40}, many}) {
      for (const Index sequence : {0, 1, 2}) {
        CHECK(check("append " + std::to_string(n) + " to " + std::to_string(sequence), kind,
                    [&](const auto& device, auto& cache) {
                      cache.append(sequence, keys(1, n), values(1, n), device);
                    }) > 0);
      }
      CHECK(check("append to all", kind, [&](const auto& device, auto& cache) {
              cache.append({2, 0, 1}, keys(3, n), values(3, n), device);
            }) > 0);
    }
    CHECK(check("packed append", kind, [&](const auto& device, auto& cache) {
            cache.append({1, 2, 0}, {0, many, many + 1, many + 41}, keys(1, many + 41),
                         values(1, many + 41), device);
          }) > 0);
    for (const Index sequence : {0, 1, 2}) {
      const std::string to = " to " + std::to_string(sequence);
      for (const Index first : {0, 130, 400}) {
        if (first != 0 && !is_ring) continue;
        for (const Index n : {0, 50, 260}) {
          (void)check("restore from " + std::to_string(first) + to, kind,
                      [&](const auto& device, auto& cache) {
                        cache.restore(sequence, first, keys(1, n), values(1, n), device);
                      });
        }
      }
      for (const Index from : {0, 1, 2}) {
        (void)check("copy " + std::to_string(from) + to, kind,
                    [&](const auto& device, auto& cache) { cache.copy(from, sequence, device); });
      }
      (void)check("update_keys", kind, [&](const auto& device, auto& cache) {
        cache.update_keys(
            sequence,
            [](HeadsView<float> x, Index) {
              for (Index s = 0; s < x.seq; ++s) x.row(0, s, 1)[3] += 1;
            },
            device);
      });
    }
    if (!is_ring) {
      for (const Index first : {0, 100, 130, 256}) {
        (void)check("erase from " + std::to_string(first), kind,
                    [&](const auto& device, auto& cache) {
                      cache.erase(
                          1, first, 30,
                          [](HeadsView<float> x) {
                            for (Index s = 0; s < x.seq; ++s) x.row(0, s, 0)[1] -= 2;
                          },
                          device);
                    });
      }
    }
  }
}

TEST_CASE("Device without memory: caches and tapes of a module are unchanged",
          "[memory][mha][cache]") {
  constexpr Index model_dim = 32, seq = 5;
  posenc::MultiHeadAttention<float> module({.model_dim = model_dim,
                                            .heads = 4,
                                            .kv_heads = kv_heads,
                                            .head_dim = dim,
                                            .value_dim = value_dim,
                                            .qk_norm = {.over = posenc::QkNormOver::Head,
                                                        .weight = posenc::QkNormWeight::Factor,
                                                        .epsilon = 1e-6}});
  module.randomize(1);
  const auto x = numbers(2 * seq * model_dim, 1);
  std::vector<float> y(x.size());
  const auto in = tokens_view(x.data(), 2, seq, model_dim);
  const auto out = tokens_view(y.data(), 2, seq, model_dim);
  for (const Kind& kind : kinds) {
    const auto window =
        kind.config.window == 0 ? posenc::Window{} : posenc::sliding_window(kind.config.window);
    const auto forward = [&](const auto& device, auto& cache) {
      module.forward(in, Positions::starts({cache.length(0), cache.length(1)}, seq), cache, {0, 1},
                     out, {.causal = Causal::BottomRight, .window = window}, {}, device);
    };
    // After a failure a sequence may own a copy of a block that it shared before.
    CHECK(check("forward", kind, forward, false) > 3);
  }
  bool threw = true;
  for (long units = 0; threw; ++units) {
    posenc::MultiHeadTape<float> tape;
    const auto forward = [&](const auto& device) {
      module.forward(in, Positions::range(0, seq), out, tape, {.causal = Causal::BottomRight}, {},
                     device);
    };
    forward(posenc::detail::CallingThread());
    long left = units;
    threw = false;
    try {
      forward(FailingDevice{&left});
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    REQUIRE(tape.holds_pass() != threw);
    REQUIRE(units < 10000);
  }
}

}  // namespace device_without_memory_test
