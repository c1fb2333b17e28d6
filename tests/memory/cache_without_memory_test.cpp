// SPDX-License-Identifier: MIT
// Caches and gates without memory: a call changes them completely or not at all.
#include "memory/cache_session.hpp"
#include "memory/without_memory.hpp"
#include "support/catch.hpp"
#include <posenc/bias/forget_gates.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace cache_without_memory_test {

using memory_test::check_calls;
using memory_test::dim;
using memory_test::filled;
using memory_test::heads;
using memory_test::heads_view;
using memory_test::kv_heads;
using memory_test::numbers;
using memory_test::plain;
using memory_test::ring;
using memory_test::Session;
using memory_test::state_of;
using memory_test::tokens_view;
using posenc::Index;
using posenc::KvCache;
using posenc::Positions;

constexpr Index keys = 300;

TEST_CASE("KvCache without memory: calls succeed completely or change nothing", "[memory][cache]") {
  using posenc::HeadsView;
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = dim, .base = 10000});
  const auto x = numbers(60 * kv_heads * dim, 5);
  const auto new_keys = heads_view(x.data(), 1, 60, kv_heads, dim);
  for (const auto& config : {plain, ring}) {
    const bool is_ring = config.window != 0;
    INFO((is_ring ? "ring" : "no ring"));
    const Session<float> session{filled<float>(config, keys, 50), {}};
    const auto check = [&](const std::string& name, const auto& call) {
      return check_calls(name, session, call, state_of<float>);
    };
    // The following calls allocate nothing.
    CHECK(check("append", [&](auto& s) { s.cache.append(0, new_keys, new_keys); }) == 0);
    CHECK(check("restore",
                [&](auto& s) { s.cache.restore(0, is_ring ? 128 : 0, new_keys, new_keys); }) == 0);
    CHECK(check("truncate", [&](auto& s) { s.cache.truncate(0, s.cache.length(0) - 5); }) == 0);
    CHECK(check("copy", [&](auto& s) { s.cache.copy(0, 1); }) == 0);
    CHECK(check("clear", [&](auto& s) { s.cache.clear(1); }) == 0);
    // The following calls must allocate everything before they write.
    CHECK(check("update_keys", [&](auto& s) {
            s.cache.update_keys(0, [&](HeadsView<float> k, Index first) {
              rope.rotate(k, Positions::starts(std::vector<Index>{first}, k.seq));
            });
          }) > 0);
    if (!is_ring) {
      CHECK(check("erase", [&](auto& s) {
              s.cache.erase(0, 20, 30,
                            [&](HeadsView<float> k) { posenc::shift_keys(k, rope, {-30}); });
            }) > 1);
    }
    const KvCache<float> other = filled<float>(plain, 77, 7);
    CHECK(check("assignment", [&](auto& s) { s.cache = other; }) > 1);
    CHECK(check("a cache of one's own", [&](auto& s) { s.cache = KvCache<float>(config); }) > 1);
  }
}

TEST_CASE("ForgetGates without memory: calls succeed completely or change nothing",
          "[memory][bias]") {
  const auto z = numbers(2 * 9 * heads, 5);
  posenc::ForgetGates gates(2, heads);
  gates.append(0, tokens_view(z.data(), 1, 4, heads));
  const auto state = [](const posenc::ForgetGates& g) {
    std::vector<float> all;
    for (Index s = 0; s < 2; ++s) {
      for (Index t = g.first(s); t < g.length(s); ++t) {
        for (Index h = 0; h < heads; ++h) all.push_back(static_cast<float>(g.sums(s, t)[h]));
      }
      all.push_back(static_cast<float>(g.first(s)));
    }
    return all;
  };
  CHECK(check_calls(
            "append", gates,
            [&](posenc::ForgetGates& g) {
              g.append({0, 1}, tokens_view(z.data(), 2, 9, heads));
            },
            state) > 1);
  CHECK(check_calls(
            "ragged append", gates,
            [&](posenc::ForgetGates& g) {
              g.append({0, 1}, {0, 8, 18}, tokens_view(z.data(), 1, 18, heads));
            },
            state) > 1);
  CHECK(check_calls(
            "copy", gates, [](posenc::ForgetGates& g) { g.copy(0, 1); }, state) > 0);
  const std::vector<double> sums(9 * heads);
  CHECK(check_calls(
            "restore", gates,
            [&](posenc::ForgetGates& g) {
              g.restore(0, 3, {sums.data(), 1, 9, heads});
            },
            state) > 0);
}

TEST_CASE("KvBlockPool without memory: calls on its caches succeed completely or change nothing",
          "[memory][cache]") {
  using posenc::HeadsView;
  const auto x = numbers(200 * kv_heads * dim, 5);
  const auto new_keys = heads_view(x.data(), 1, 200, kv_heads, dim);
  const posenc::KvBlockPool pool({std::size_t{1} << 30});
  for (const auto& config : {plain, ring}) {
    const bool is_ring = config.window != 0;
    INFO((is_ring ? "ring" : "no ring"));
    Session<float> session{KvCache<float>(config, pool), {}};
    for (Index n = 0; n < 300; n += 100) {
      session.cache.append(0, posenc::slice_seq(new_keys, n / 2, 100),
                           posenc::slice_seq(new_keys, n / 3, 100));
    }
    session.cache.copy(0, 1);
    const Index blocks = pool.blocks();
    // Calls are made on a copy, which shares all blocks.
    const auto check = [&](const std::string& name, const auto& call) {
      const long allocations = check_calls(name, session, call, state_of<float>);
      CHECK(pool.blocks() == blocks);
      return allocations;
    };
    const auto some = posenc::slice_seq(new_keys, 0, 130);
    const std::vector<Index> both{1, 0}, offsets{0, 120, 130};
    CHECK(check("append", [&](auto& s) { s.cache.append(0, some, some); }) > 1);
    CHECK(check("packed append", [&](auto& s) { s.cache.append(both, offsets, some, some); }) > 2);
    CHECK(check("restore", [&](auto& s) { s.cache.restore(0, 0, new_keys, new_keys); }) > 1);
    CHECK(check("copy", [&](auto& s) { s.cache.copy(0, 1); }) > 0);
    CHECK(check("update_keys", [&](auto& s) {
            s.cache.update_keys(0, [](HeadsView<float> k, Index) { k.row(0, 0, 0)[0] = 1; });
          }) > 1);
    if (!is_ring) {
      CHECK(check("erase", [&](auto& s) { s.cache.erase(0, 20, 30, [](HeadsView<float>) {}); }) >
            1);
    }
    // The following calls allocate nothing.
    CHECK(check("truncate", [&](auto& s) { s.cache.truncate(0, s.cache.length(0) - 5); }) == 0);
    CHECK(check("clear", [&](auto& s) { s.cache.clear(1); }) == 0);
    const KvCache<float> other(session.cache);
    CHECK(check("assignment", [&](auto& s) { s.cache = other; }) > 1);
  }
  CHECK(pool.blocks() == 0);
}

}  // namespace cache_without_memory_test
