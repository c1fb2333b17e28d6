// SPDX-License-Identifier: MIT
// KvCache and merge() are bit-identical on every device.
#define EIGEN_USE_THREADS
#include "kv_cache_case.hpp"
#include "support/catch.hpp"
#include "support/devices.hpp"
#include "support/heads.hpp"
#include <posenc/attention/merge.hpp>
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/rotary/rerotate.hpp>

#include <limits>
#include <thread>
#include <vector>

namespace kv_cache_threads_test {

using kv_cache_test::all_of;
using posenc::Index;
using posenc::KvCache;
using support::Bytes;
using support::Heads;

namespace {

constexpr Index heads = kv_cache_test::heads, dim = kv_cache_test::dim;
constexpr Index value_dim = kv_cache_test::value_dim;

/// Returns the contents of a cache, and its tiles' flags of non-finite values.
template <class S>
void keep(Bytes& bytes, const KvCache<S>& cache) {
  for (Index sequence = 0; sequence < cache.sequences(); ++sequence) {
    const Index end = cache.length(sequence);
    bytes.add(all_of(cache, sequence));
    bytes.add(std::vector{cache.first(sequence), end});
    for (Index head = 0; head < heads && end > 0; ++head) {
      for (Index tile = cache.first(sequence) / 128; tile * 128 < end; ++tile) {
        const auto found = kv_cache_test::tile_of(cache, sequence, head, tile);
        bytes.add(std::vector<char>{found.finite});
        bytes.add(found.values, static_cast<std::size_t>((end - 1) % 128 * found.value_stride));
      }
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("KvCache: is bit-identical on every device", "[kv_cache][threads]", float,
                   Eigen::bfloat16) {
  using S = TestType;
  const posenc::Rope<posenc::Interleaved> rope(
      posenc::Frequencies::from_inv_freq(std::vector{1.0, 0.25}));
  support::check_same_on_all_devices([&](const auto&... device) {
    support::Random random(1);
    KvCache<S> cache(kv_cache_test::full_cache(700, 3));
    const std::vector<Index> both{2, 0};
    Bytes bytes;
    for (const Index n : {150, 1, 300}) {
      auto k = Heads<float>::random(random, 2, n, heads, dim);
      auto v = Heads<float>::random(random, 2, n, heads, value_dim);
      if (n == 300) v.view().row(1, 7, 1)[3] = std::numeric_limits<float>::infinity();
      cache.append(both, k.view(), v.view(), device...);
      keep(bytes, cache);
      const auto one = [](auto view) {
        return support::batch_row(posenc::slice_seq(view, 0, 1), 0);
      };
      cache.append(2, one(k.view()), one(v.view()), device...);
    }
    cache.copy(2, 1, device...);
    keep(bytes, cache);
    cache.erase(
        1, 70, 61, [&](auto k) { posenc::shift_keys(k, rope, {-61}, device...); }, device...);
    cache.update_keys(
        0,
        [&](auto k, Index first) {
          const auto p = posenc::Positions::range(first, k.seq);
          posenc::rerotate(k, rope, p, rope, posenc::Positions::range(0, k.seq), device...);
        },
        device...);
    keep(bytes, cache);
    Heads<S> k(1, 333, heads, dim), v(1, 333, heads, value_dim);
    cache.copy_keys(2, 99, k.view(), v.view(), device...);
    k.for_each([&](S& x) { bytes.add(&x, 1); });
    v.for_each([&](S& x) { bytes.add(&x, 1); });

    KvCache<S> ring(kv_cache_test::ring(200, 150));
    for (int n = 0; n < 5; ++n) {
      auto new_k = Heads<float>::random(random, 1, 147, heads, dim);
      auto new_v = Heads<float>::random(random, 1, 147, heads, value_dim);
      ring.append(0, new_k.view(), new_v.view(), device...);
      keep(bytes, ring);
    }
    return bytes;
  });
}

TEST_CASE("KvBlockPool: threads change different sequences in one pool",
          "[kv_cache][pool][threads]") {
  const posenc::KvBlockPool pool({std::size_t{1} << 30});
  const auto config = kv_cache_test::full_cache(1000, 4);
  KvCache<float> layer(config, pool), plain(config);
  KvCache<Eigen::bfloat16> other_layer(config, pool), plain_other(config);
  support::Random random(6);
  const auto prefix_k = Heads<float>::random(random, 1, 300, heads, dim);
  const auto prefix_v = Heads<float>::random(random, 1, 300, heads, value_dim);
  const auto begin = [&](auto& cache) {
    cache.append(0, Heads<float>(prefix_k).view(), Heads<float>(prefix_v).view());
    for (const Index sequence : {1, 2, 3}) cache.copy(0, sequence);
  };
  // All threads diverge from a shared prefix.
  const auto go_on = [](auto& cache, Index thread) {
    support::Random own(static_cast<std::uint64_t>(thread));
    for (int step = 0; step < 20; ++step) {
      for (const Index sequence : {2 * thread, 2 * thread + 1}) {
        auto k = Heads<float>::random(own, 1, 17, heads, dim);
        auto v = Heads<float>::random(own, 1, 17, heads, value_dim);
        cache.append(sequence, k.view(), v.view());
        cache.truncate(sequence, cache.length(sequence) - step % 9);
      }
      if (step % 7 == 3) cache.copy(2 * thread, 2 * thread + 1);
      if (step == 11) cache.erase(2 * thread, 70, 100, kv_cache_test::nothing);
    }
  };
  begin(layer);
  begin(other_layer);
  begin(plain);
  begin(plain_other);
  const auto run = [&](Index thread) {
    go_on(layer, thread);
    go_on(other_layer, thread);
  };
  std::thread second(run, 1);
  run(0);
  second.join();
  for (const Index thread : {0, 1}) {
    go_on(plain, thread);
    go_on(plain_other, thread);
  }
  Bytes got, want;
  for (Index sequence = 0; sequence < 4; ++sequence) {
    got.add(all_of(layer, sequence));
    want.add(all_of(plain, sequence));
    got.add(all_of(other_layer, sequence));
    want.add(all_of(plain_other, sequence));
    layer.clear(sequence);
    other_layer.clear(sequence);
  }
  CHECK(got == want);
  CHECK(pool.blocks() == 0);
}

TEST_CASE("merge: bit-identical on every device", "[merge][threads]") {
  constexpr Index batch = 2, seq = 9;
  support::check_same_on_all_devices([&](const auto&... device) {
    support::Random random(2);
    auto a = Heads<float>::random(random, batch, seq, heads, dim);
    auto b = Heads<float>::random(random, batch, seq, heads, dim);
    std::vector<float> lse_a(batch * seq * heads), lse_b(lse_a.size());
    random.fill_normal(std::span<float>(lse_a));
    random.fill_normal(std::span<float>(lse_b));
    lse_b[5] = -std::numeric_limits<float>::infinity();
    const auto view = [&](std::vector<float>& lse) {
      return posenc::LseView<float>{lse.data(), batch, heads, seq, heads * seq, seq};
    };
    posenc::merge(a.view(), view(lse_a), b.view(), view(lse_b), device...);
    Bytes bytes;
    a.for_each([&](float& x) { bytes.add(&x, 1); });
    bytes.add(lse_a);
    return bytes;
  });
}

}  // namespace kv_cache_threads_test
