// SPDX-License-Identifier: MIT
// Tests that bits do not depend on the device, its threads and its division of work.
#define EIGEN_USE_THREADS
#include "ragged_case.hpp"
#include "random_call.hpp"
#include "support/catch.hpp"
#include "support/cutter.hpp"
#include "support/devices.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/cosine.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace attention_threads_test {

using attention_test::Lse;
using attention_test::RandomCall;
using attention_test::same_bits;
using attention_test::Shape;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::Index;
using support::Heads;

namespace {

/// Calls test(device) with one, two and three threads, and with two chunk sizes.
template <class Test>
void for_each_device(const Test& test) {
  for (const int threads : {1, 2, 3}) {
    INFO(threads << " threads");
    Eigen::ThreadPool pool(threads);
    test(Eigen::ThreadPoolDevice(&pool, threads));
  }
  {
    INFO("two threads of a pool of seven");
    Eigen::ThreadPool pool(7);
    test(Eigen::ThreadPoolDevice(&pool, 2));
  }
  for (const Index part : {1, 3}) {
    INFO("parts of " << part);
    test(support::Cutter{part});
  }
}

template <class T, class Device>
void run(const Device& device, RandomCall<T>& call) {
  auto& c = call.c;
  if (call.bias) {
    posenc::attention(c.q.view(), c.k.view(), c.v.view(), c.out.view(), call.options, *call.bias,
                      call.memory, device);
  } else {
    posenc::attention(c.q.view(), c.k.view(), c.v.view(), c.out.view(), call.options, {},
                      call.memory, device);
  }
}

template <class T>
void check_devices(RandomCall<T>& call) {
  run(Eigen::DefaultDevice(), call);
  auto out = call.c.out;
  auto lse = call.lse;
  for_each_device([&](const auto& device) {
    call.c.out.for_each([](T& x) { x = static_cast<T>(7.0F); });
    call.lse.values.setConstant(7);
    run(device, call);
    CHECK(support::same_bits(call.c.out.view(), out.view()));
    CHECK(same_bits(call.lse.view(), lse.view()));
  });
}

}  // namespace

TEMPLATE_TEST_CASE("attention: the same bits on every device", "[attention][threads]", float,
                   Eigen::bfloat16) {
  support::Random random(1);
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    // Many blocks of queries, as in prefill.
    const Index kv_heads = random.integer(1, 3);
    RandomCall<TestType> call(seed, {random.integer(1, 2), kv_heads * random.integer(1, 3),
                                     kv_heads, random.integer(1, 300), random.integer(0, 300),
                                     random.integer(1, 20), random.integer(1, 20)});
    INFO("seed " << seed);
    check_devices(call);
  }
}

TEMPLATE_TEST_CASE("attention: a few queries over many keys give the same bits on every device",
                   "[attention][threads]", float, Eigen::bfloat16) {
  support::Random random(2);
  for (std::uint64_t seed = 101; seed <= 125; ++seed) {
    // Fewer blocks than threads, as in decoding: keys are distributed over threads.
    const Index group = random.integer(1, 7);
    RandomCall<TestType> call(seed, {1, group, 1, random.integer(1, 4), random.integer(100, 3000),
                                     random.integer(1, 20), random.integer(1, 40)});
    INFO("seed " << seed);
    check_devices(call);
  }
}

TEST_CASE("attention over KvCache: the same bits on every device", "[attention][threads]") {
  using S = Eigen::bfloat16;
  constexpr Index sequences = 2, heads = 4, kv_heads = 2, keys = 1000, dim = 16;
  support::Random random(3);
  posenc::KvCache<S> cache(
      {.sequences = sequences, .kv_heads = kv_heads, .head_dim = dim, .capacity = keys});
  for (Index s = 0; s < sequences; ++s) {
    auto k = Heads<S>::random(random, 1, keys - 100 * s, kv_heads, dim);
    auto v = Heads<S>::random(random, 1, keys - 100 * s, kv_heads, dim);
    cache.append(s, k.view(), v.view());
  }
  for (const Index queries : {1, 3, 90}) {
    auto q = Heads<float>::random(random, sequences, queries, heads, dim);
    Heads<float> want(sequences, queries, heads, dim);
    const std::vector<Index> rows{1, 0};
    const AttentionOptions<float> options{.causal = Causal::BottomRight};
    posenc::attention(q.view(), cache, rows, want.view(), options);
    INFO(queries << " queries");
    for_each_device([&](const auto& device) {
      Heads<float> out(sequences, queries, heads, dim);
      posenc::attention(q.view(), cache, rows, out.view(), options, {}, {}, device);
      CHECK(support::same_bits(out.view(), want.view()));
    });
  }
}

TEST_CASE("attention: concurrent calls share inputs and a pool", "[attention][threads]") {
  const Shape shape{2, 4, 2, 60, 400, 16, 20};
  RandomCall<float> call(5, shape);
  run(Eigen::DefaultDevice(), call);
  Eigen::ThreadPool pool(2);
  const Eigen::ThreadPoolDevice device(&pool, 2);
  constexpr std::size_t callers = 3;
  std::vector<Heads<float>> outs(
      callers, Heads<float>(shape.batch, shape.queries, shape.heads, shape.value_dim));
  std::vector<Lse<float>> lses(callers, Lse<float>(shape.batch, shape.heads, shape.queries));
  std::vector<std::thread> threads;
  for (std::size_t n = 0; n < callers; ++n) {
    threads.emplace_back([&, n] {
      posenc::AttentionWorkspace workspace;
      const posenc::AttentionMemory<float> memory{.lse = lses[n].view(), .workspace = &workspace};
      for (int round = 0; round < 3; ++round) {
        if (call.bias) {
          posenc::attention(call.c.q.view(), call.c.k.view(), call.c.v.view(), outs[n].view(),
                            call.options, *call.bias, memory, device);
        } else {
          posenc::attention(call.c.q.view(), call.c.k.view(), call.c.v.view(), outs[n].view(),
                            call.options, {}, memory, device);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t n = 0; n < callers; ++n) {
    CHECK(support::same_bits(outs[n].view(), call.c.out.view()));
    CHECK(same_bits(lses[n].view(), call.lse.view()));
  }
}

TEST_CASE("cosine attention: the same queries and keys on every device", "[threads]") {
  std::vector<float> x(2 * 70 * 3 * 16);
  support::Random(4).fill_normal(x);
  const std::vector<double> logit_scale{1, 2, 5};
  support::check_same_on_all_devices([&](const auto&... device) {
    auto q = x, k = x;
    posenc::cosine_queries(posenc::HeadsView<float>{q.data(), 2, 70, 3, 16}, logit_scale,
                           device...);
    posenc::cosine_keys(posenc::HeadsView<float>{k.data(), 2, 70, 3, 16}, device...);
    support::Bytes bytes;
    bytes.add(q);
    bytes.add(k);
    return bytes;
  });
}

TEST_CASE("attention with cu_seqlens_q: the same bits on every device",
          "[attention][cache][ragged][threads]") {
  posenc::KvCache<float> cache(kv_cache_test::full_cache(600, 4));
  const std::vector<Index> sequences{2, 0, 3, 1}, counts{1, 1, 0, 300};
  support::Random random(8);
  for (Index sequence = 0; sequence < 4; ++sequence) {
    auto k = Heads<float>::random(random, 1, 300 + 60 * sequence, kv_cache_test::heads,
                                  kv_cache_test::dim);
    auto v = Heads<float>::random(random, 1, 300 + 60 * sequence, kv_cache_test::heads,
                                  kv_cache_test::value_dim);
    cache.append(sequence, k.view(), v.view());
  }
  for (const auto& variant : ragged_test::variants()) {
    INFO(variant.name);
    ragged_test::Call apart(cache, sequences, counts, 4);
    apart.one_by_one(cache, variant);
    const auto want = apart.results();
    for_each_device([&](const auto& device) {
      ragged_test::Call call(cache, sequences, counts, 4);
      call.together(cache, variant, device);
      const auto got = call.results();
      CHECK(support::same_bits(got.data(), want.data(), static_cast<Index>(want.size())));
    });
  }
}

TEST_CASE("KvCache::append with cu_seqlens: the same bits on every device",
          "[kv_cache][ragged][threads]") {
  const std::vector<Index> sequences{2, 0, 1}, cu_seqlens{0, 200, 200, 203};
  support::Random random(9);
  auto k = Heads<float>::random(random, 1, 203, kv_cache_test::heads, kv_cache_test::dim);
  auto v = Heads<float>::random(random, 1, 203, kv_cache_test::heads, kv_cache_test::value_dim);
  posenc::KvCache<float> want(kv_cache_test::full_cache(600, 3));
  want.append(sequences, cu_seqlens, k.view(), v.view());
  for_each_device([&](const auto& device) {
    posenc::KvCache<float> cache(kv_cache_test::full_cache(600, 3));
    cache.append(sequences, cu_seqlens, k.view(), v.view(), device);
    for (Index sequence = 0; sequence < 3; ++sequence) {
      CHECK(kv_cache_test::all_of(cache, sequence) == kv_cache_test::all_of(want, sequence));
    }
  });
}

}  // namespace attention_threads_test
