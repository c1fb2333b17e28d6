// SPDX-License-Identifier: MIT
// Invalid calls of a cache throw errors that name the rule, before anything is
// written.
#include "kv_cache_case.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/kv/kv_cache.hpp>

#include <limits>
#include <string>
#include <vector>

namespace kv_cache_errors_test {

using namespace kv_cache_test;
using posenc::ConfigError;
using posenc::Index;
using posenc::KvCache;
using posenc::KvCacheConfig;
using posenc::ShapeError;
using support::Heads;
using support::message_of;

TEST_CASE("KvCache: invalid calls name their rule and write nothing",
          "[attention][cache][errors]") {
  KvCache<float> cache(full_cache(256, 3)), small_ring(ring(10, 4));
  support::Random random(8);
  const auto some = [&](Index batch, Index n, Index h, Index d) {
    return Heads<float>::random(random, batch, n, h, d);
  };
  auto k = some(1, 200, heads, dim), v = some(1, 200, heads, value_dim);
  cache.append(1, k.view(), v.view());
  const auto before = all_of(cache, 1);

  const auto append = [&](auto sequences, Heads<float> keys, Heads<float> values) {
    return message_of<ShapeError>([&] { cache.append(sequences, keys.view(), values.view()); });
  };
  const std::string name = "posenc::KvCache::append: ";
  CHECK(append(Index{1}, some(2, 3, heads, dim), some(2, 3, heads, value_dim)) ==
        name + "k [2, 3, 2, 5] must be [1, n, 2, 5]");
  CHECK(append(Index{1}, some(1, 3, 1, dim), some(1, 3, 1, value_dim)) ==
        name + "k [1, 3, 1, 5] must be [1, n, 2, 5]");
  CHECK(append(Index{1}, some(1, 3, heads, 6), some(1, 3, heads, value_dim)) ==
        name + "k [1, 3, 2, 6] must be [1, n, 2, 5]");
  CHECK(append(Index{1}, some(1, 3, heads, dim), some(1, 4, heads, value_dim)) ==
        name + "v [1, 4, 2, 19] must be [1, 3, 2, 19]");
  CHECK(append(Index{1}, some(1, 3, heads, dim), some(1, 3, heads, dim)) ==
        name + "v [1, 3, 2, 5] must be [1, 3, 2, 19]");
  CHECK(append(Index{3}, some(1, 3, heads, dim), some(1, 3, heads, value_dim)) ==
        name + "sequence 3 must lie within [0, 3)");
  CHECK(append(Index{-1}, some(1, 3, heads, dim), some(1, 3, heads, value_dim)) ==
        name + "sequence -1 must lie within [0, 3)");
  CHECK(append(std::vector<Index>{0, 2, 0}, some(3, 3, heads, dim), some(3, 3, heads, value_dim)) ==
        name + "sequence 0 is listed twice");
  // Sequence 0 has enough capacity, but must stay unchanged as well.
  CHECK(append(std::vector<Index>{0, 1}, some(2, 57, heads, dim), some(2, 57, heads, value_dim)) ==
        name + "sequence 1 holds 200 keys, and with 57 more would exceed the capacity of 256");
  CHECK(message_of<ShapeError>([&] {
          small_ring.append(0, some(1, 5, heads, dim).view(), some(1, 5, heads, value_dim).view());
        }) == name + "a ring (window 10) accepts at most max_append = 4 keys per call but got 5");

  Heads<float> out_k(1, 3, heads, dim), out_v(1, 3, heads, value_dim);
  const auto copy_keys = [&](Index sequence, Index first) {
    return message_of<ShapeError>(
        [&] { cache.copy_keys(sequence, first, out_k.view(), out_v.view()); });
  };
  CHECK(copy_keys(1, 198) ==
        "posenc::KvCache::copy_keys: 3 keys from key 198 on must lie within [0, 200), the keys of "
        "sequence 1");
  CHECK(copy_keys(1, -1) != "nothing was thrown");
  CHECK(copy_keys(5, 0) == "posenc::KvCache::copy_keys: sequence 5 must lie within [0, 3)");
  CHECK(message_of<ShapeError>([&] { cache.copy_keys(1, 0, out_k.view(), out_k.view()); }) ==
        "posenc::KvCache::copy_keys: v [1, 3, 2, 5] must be [1, 3, 2, 19]");
  CHECK(out_k.surroundings_kept());

  const auto truncate = [&](Index length) {
    return message_of<ShapeError>([&] { cache.truncate(1, length); });
  };
  CHECK(
      truncate(201) ==
      "posenc::KvCache::truncate: the new length must lie within [0, 200], the keys of sequence 1, "
      "but is 201");
  CHECK(truncate(-1) != "nothing was thrown");
  CHECK(message_of<ShapeError>([&] { cache.truncate(3, 0); }) ==
        "posenc::KvCache::truncate: sequence 3 must lie within [0, 3)");

  const auto erase = [&](Index first, Index count) {
    return message_of<ShapeError>([&] { cache.erase(1, first, count, nothing); });
  };
  CHECK(erase(100, 101) ==
        "posenc::KvCache::erase: 101 keys from key 100 on must lie within [0, 200), the keys of "
        "sequence 1");
  CHECK(erase(-1, 1) != "nothing was thrown");
  CHECK(erase(3, -1) != "nothing was thrown");
  CHECK(erase(3, std::numeric_limits<Index>::max()) != "nothing was thrown");
  CHECK(message_of<ConfigError>([&] { small_ring.erase(0, 0, 0, nothing); }) ==
        "posenc::KvCache::erase: a ring (window 10) evicts its oldest keys itself; no key can be "
        "erased");

  for (const Index bad : {-1, 3}) {
    CHECK(message_of<ShapeError>([&] { cache.clear(bad); }) != "nothing was thrown");
    CHECK(message_of<ShapeError>([&] { cache.copy(bad, 0); }) != "nothing was thrown");
    CHECK(message_of<ShapeError>([&] { cache.copy(0, bad); }) != "nothing was thrown");
    CHECK(message_of<ShapeError>([&] { (void)cache.length(bad); }) != "nothing was thrown");
    CHECK(message_of<ShapeError>([&] { (void)cache.first(bad); }) != "nothing was thrown");
    CHECK(message_of<ShapeError>([&] { cache.update_keys(bad, [](auto, Index) {}); }) !=
          "nothing was thrown");
  }
  CHECK(cache.length(0) == 0);
  CHECK(all_of(cache, 1) == before);
  CHECK(small_ring.length(0) == 0);
}

}  // namespace kv_cache_errors_test
