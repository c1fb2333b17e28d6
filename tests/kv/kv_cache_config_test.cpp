// SPDX-License-Identifier: MIT
// Settings of a cache that are rejected.
#include "kv_cache_case.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/kv/kv_cache.hpp>
#include <posenc/kv/kv_cache_config.hpp>

#include <limits>
#include <string>

namespace kv_cache_config_test {

using kv_cache_test::full_cache;
using posenc::ConfigError;
using posenc::Index;
using posenc::KvCache;
using posenc::KvCacheConfig;
using support::message_of;

TEST_CASE("KvCacheConfig: invalid settings of a cache are rejected", "[attention][cache][errors]") {
  const auto error = [](KvCacheConfig config) {
    return message_of<ConfigError>([&] { KvCache<float> cache(config); });
  };
  const KvCacheConfig good = full_cache(10);
  REQUIRE(error(good) == "nothing was thrown");
  auto bad = good;
  bad.kv_heads = 0;
  CHECK(error(bad) == "posenc::KvCache: kv_heads must be positive but is 0");
  bad = good;
  bad.head_dim = -1;
  CHECK(error(bad) == "posenc::KvCache: head_dim must be positive but is -1");
  bad = good;
  bad.sequences = 0;
  CHECK(error(bad) == "posenc::KvCache: sequences must be positive but is 0");
  bad = good;
  bad.value_dim = -3;
  CHECK(error(bad) == "posenc::KvCache: value_dim must not be negative but is -3");
  bad = good;
  bad.capacity = 0;
  bad.window = -1;
  CHECK(error(bad) == "posenc::KvCache: window must not be negative but is -1");
  bad = good;
  bad.max_append = 0;
  CHECK(error(bad) == "posenc::KvCache: max_append must be positive but is 0");
  const std::string either =
      "posenc::KvCache: either capacity or window must be set, but they are ";
  bad = good;
  bad.capacity = 0;
  CHECK(error(bad) == either + "0 and 0");
  bad.capacity = 10;
  bad.window = 20;
  CHECK(error(bad) == either + "10 and 20");
  bad = good;
  bad.capacity = std::numeric_limits<Index>::max();
  CHECK(error(bad) == "posenc::KvCache: capacity must be at most 2^40 but is 9223372036854775807");
  bad.capacity = Index{1} << 40;
  bad.head_dim = 1 << 20;
  CHECK(error(bad) ==
        "posenc::KvCache: 1 sequences of 1099511627776 keys with 2 heads of 1048576 "
        "and 19 values must fit into memory");
}

}  // namespace kv_cache_config_test
