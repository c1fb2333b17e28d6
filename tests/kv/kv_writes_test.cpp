// SPDX-License-Identifier: MIT
// Appends on devices that split their work or fail, and appends that are rolled back.
#include "cache_program.hpp"
#include "support/catch.hpp"
#include "support/cutter.hpp"
#include "support/heads.hpp"
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kv/detail/append_transaction.hpp>
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/tensor/device.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <vector>

namespace kv_writes_test {

using kv_cache_test::at;
using kv_cache_test::CacheKind;
using kv_cache_test::dim;
using kv_cache_test::heads;
using kv_cache_test::Model;
using kv_cache_test::value_dim;
using posenc::Index;
using posenc::KvCache;
using support::Heads;

namespace {

constexpr Index sequences = 3, max_append = 150, capacity = 700;

/// Device that runs the first half of its work and throws.
struct FailingDevice {
  using Cost = support::Cutter::Cost;

  int numThreads() const { return 2; }
  template <class Work>
  void parallelFor(Index count, const Cost&, const Work& work) const {
    work(0, (count + 1) / 2);
    throw std::bad_alloc();
  }
};

template <class S>
KvCache<S> make_cache(CacheKind kind) {
  if (kind == CacheKind::Ring) {
    return KvCache<S>(kv_cache_test::ring(200, max_append, sequences));
  }
  const auto full = kv_cache_test::full_cache(capacity, sequences);
  return kind == CacheKind::Full ? KvCache<S>(full)
                                 : KvCache<S>(full, posenc::KvBlockPool({1 << 22}));
}

/// Random keys and values of a call of append(); some values are not finite.
template <class S>
struct Tokens {
  Heads<S> k, v;

  Tokens(support::Random& random, Index batch, Index count)
      : k(Heads<S>::random(random, batch, count, heads, dim)),
        v(Heads<S>::random(random, batch, count, heads, value_dim)) {
    if (count > 0 && random.integer(0, 1) == 0) {
      v.view().row(0, count / 2, 1)[17] = std::numeric_limits<S>::infinity();
    }
  }
};

/// Caches of three sequences, and what they must hold.
template <class S>
struct Caches {
  CacheKind kind;
  KvCache<S> cache = make_cache<S>(kind);
  std::array<Model<S>, sequences> models;

  bool match() const {
    for (Index n = 0; n < sequences; ++n) {
      if (!tiles_match(cache, n, models[at(n)], kind == CacheKind::Pooled)) return false;
    }
    return true;
  }

  /// Returns one or two sequences that have room for max_append keys.
  std::vector<Index> choose(support::Random& random) {
    const Index first = random.integer(0, sequences - 1);
    std::vector<Index> ids{first};
    if (random.integer(0, 1) == 0) ids.insert(ids.begin(), (first + 1) % sequences);
    for (const Index id : ids) {
      if (kind == CacheKind::Ring || models[at(id)].length() + max_append <= capacity) continue;
      cache.clear(id);
      models[at(id)] = {};
    }
    return ids;
  }

  void append_to_models(const std::vector<Index>& ids, Tokens<S>& tokens) {
    for (Index b = 0; b < static_cast<Index>(ids.size()); ++b) {
      Model<S>& model = models[at(ids[at(b)])];
      model.append(tokens.k.view(), tokens.v.view(), b);
      const Index end_of_tile = (model.length() + 127) / 128 * 128;
      model.first = std::max(model.first, end_of_tile - cache.capacity());
    }
  }

  /// Shares the memory of two sequences of a pool.
  void copy(support::Random& random) {
    const Index from = random.integer(0, sequences - 1), to = (from + 1) % sequences;
    cache.copy(from, to);
    models[at(to)] = Model<S>(models[at(from)]);
  }
};

}  // namespace

TEMPLATE_TEST_CASE(
    "KvCache: a device that splits its work writes all keys, and one that fails none",
    "[attention][cache][threads]", float, Eigen::bfloat16) {
  using S = TestType;
  support::Random random(7);
  for (const auto kind : {CacheKind::Full, CacheKind::Ring, CacheKind::Pooled}) {
    Caches<S> caches{kind, make_cache<S>(kind), {}};
    for (int step = 0; step < 60; ++step) {
      INFO("cache " << static_cast<int>(kind) << ", step " << step);
      if (random.integer(0, 4) == 0) caches.copy(random);
      const auto ids = caches.choose(random);
      const Index count = step % 3 == 0 ? 1 : random.integer(1, max_append);
      Tokens<S> tokens(random, static_cast<Index>(ids.size()), count);
      CHECK_THROWS_AS(caches.cache.append(ids, tokens.k.view(), tokens.v.view(), FailingDevice{}),
                      std::bad_alloc);
      REQUIRE(caches.match());
      caches.cache.append(ids, tokens.k.view(), tokens.v.view(),
                          support::Cutter{random.integer(1, 5)});
      caches.append_to_models(ids, tokens);
      REQUIRE(caches.match());
    }
  }
}

TEMPLATE_TEST_CASE("KvCache: an append that is not committed leaves no trace",
                   "[attention][cache][ring]", float, Eigen::bfloat16) {
  using S = TestType;
  support::Random random(8);
  posenc::detail::ScratchArenas memory;
  for (const auto kind : {CacheKind::Full, CacheKind::Ring, CacheKind::Pooled}) {
    Caches<S> caches{kind, make_cache<S>(kind), {}};
    for (int step = 0; step < 40; ++step) {
      INFO("cache " << static_cast<int>(kind) << ", step " << step);
      if (random.integer(0, 4) == 0) caches.copy(random);
      const auto ids = caches.choose(random);
      Tokens<S> tokens(random, static_cast<Index>(ids.size()), random.integer(1, max_append));
      const auto append = [&](bool commits) {
        const posenc::HeadsView<S> k = tokens.k.view(), v = tokens.v.view();
        posenc::detail::AppendTransaction<S> transaction(
            posenc::detail::CallingThread{}, caches.cache,
            posenc::detail::TokenRuns{ids, {}, k.seq}, k, v, memory);
        if (commits) transaction.commit();
      };
      append(false);
      REQUIRE(caches.match());
      append(true);
      caches.append_to_models(ids, tokens);
      REQUIRE(caches.match());
    }
  }
}

}  // namespace kv_writes_test
