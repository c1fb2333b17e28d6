// SPDX-License-Identifier: MIT
// A restored sequence continues as the saved one: key numbers, bits of attention and ring state.
#include "kv_cache_case.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace kv_cache_restore_test {

using namespace kv_cache_test;
using posenc::Causal;
using posenc::ShapeError;
using support::Heads;
using support::message_of;

namespace {

template <class T>
Heads<T> some(Index n, Index width, std::uint64_t seed) {
  support::Random random(seed);
  Heads<T> x(1, n, heads, width);
  x.for_each([&](T& value) { value = static_cast<T>(random.normal()); });
  return x;
}

/// Appends n keys, `chunk` keys per call.
template <class S>
void append(KvCache<S>& cache, Index n, Index chunk, std::uint64_t seed) {
  auto k = some<float>(n, dim, seed), v = some<float>(n, value_dim, seed + 1);
  for (Index i = 0; i < n; i += chunk) {
    const Index count = std::min(chunk, n - i);
    cache.append(0, posenc::slice_seq(k.view(), i, count), posenc::slice_seq(v.view(), i, count));
  }
}

/// Saved state of a sequence, as a program would write it to a file.
template <class S>
struct Saved {
  Index first;
  Heads<S> k, v;

  explicit Saved(const KvCache<S>& cache, Index forget = 0)
      : first(cache.first(0) + forget),
        k(1, cache.length(0) - first, heads, dim),
        v(1, cache.length(0) - first, heads, value_dim) {
    cache.copy_keys(0, first, k.view(), v.view());
  }
};

/// Returns the output of the newest queries with a window and ALiBi, which reads key numbers.
template <class S>
Heads<float> attend(const KvCache<S>& cache, Index queries, Index window) {
  auto q = some<float>(queries, dim, 77);
  Heads<float> out(1, queries, heads, value_dim);
  const std::vector<Index> rows{0};
  posenc::attention(q.view(), cache, rows, out.view(),
                    {.causal = Causal::BottomRight, .window = posenc::sliding_window(window)},
                    posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Causal}));
  return out;
}

template <class S>
bool same(const KvCache<S>& a, const KvCache<S>& b) {
  return a.length(0) == b.length(0) && a.first(0) == b.first(0) && all_of(a, 0) == all_of(b, 0);
}

}  // namespace

TEMPLATE_TEST_CASE("restore: a restored ring equals the saved ring", "[attention][cache][ring]",
                   float, Eigen::half, Eigen::bfloat16) {
  using S = TestType;
  constexpr Index window = 40, max_append = 9;
  for (const Index n : {0, 1, 127, 128, 129, 255, 256, 300, 384, 1000}) {
    INFO(n << " keys");
    KvCache<S> cache(ring(window, max_append)), again(ring(window, max_append));
    append(cache, n, max_append, 1);
    const Saved<S> saved(cache);
    // Old contents of the sequence include NaN.
    Heads<float> hostile_k(1, 200, heads, dim), hostile_v(1, 200, heads, value_dim);
    for (Index i = 0; i < 200; i += 8) {
      again.append(0, posenc::slice_seq(hostile_k.view(), i, Index{8}),
                   posenc::slice_seq(hostile_v.view(), i, Index{8}));
    }
    again.restore(0, saved.first, Heads<S>(saved.k).view(), Heads<S>(saved.v).view());
    CHECK(again.length(0) == n);
    CHECK(same(again, cache));
    if (n > 0) {
      CHECK(support::same_bits(attend(again, std::min(n, Index{5}), window).view(),
                               attend(cache, std::min(n, Index{5}), window).view()));
    }
    for (int step = 0; step < 40; ++step) {
      append(cache, 7, 7, 100 + static_cast<std::uint64_t>(step));
      append(again, 7, 7, 100 + static_cast<std::uint64_t>(step));
      REQUIRE(same(again, cache));
      REQUIRE(support::same_bits(attend(again, 7, window).view(), attend(cache, 7, window).view()));
    }
  }
}

TEST_CASE("restore: a ring continues from its last keys, wherever they begin",
          "[attention][cache][ring]") {
  constexpr Index window = 40, max_append = 9;
  for (const Index n : {60, 130, 300}) {
    for (const Index forget : {1, 5, 11}) {
      INFO(n << " keys without the first " << forget);
      KvCache<float> cache(ring(window, max_append)), again(ring(window, max_append));
      append(cache, n, max_append, 1);
      Heads<float> nan_k(1, 200, heads, dim), nan_v(1, 200, heads, value_dim);
      for (Index i = 0; i < 200; i += 8) {
        again.append(0, posenc::slice_seq(nan_k.view(), i, Index{8}),
                     posenc::slice_seq(nan_v.view(), i, Index{8}));
      }
      Saved<float> saved(cache, forget);
      again.restore(0, saved.first, saved.k.view(), saved.v.view());
      CHECK(again.first(0) == saved.first);
      CHECK(again.length(0) == n);
      CHECK(support::same_bits(attend(again, 3, window).view(), attend(cache, 3, window).view()));
      for (int step = 0; step < 40; ++step) {
        append(cache, 7, 7, 100 + static_cast<std::uint64_t>(step));
        append(again, 7, 7, 100 + static_cast<std::uint64_t>(step));
        REQUIRE(
            support::same_bits(attend(again, 7, window).view(), attend(cache, 7, window).view()));
      }
    }
  }
}

TEST_CASE("restore: a ring saved after a truncation, and a ring saved while empty",
          "[attention][cache][ring]") {
  KvCache<float> cache(ring(40, 9)), again(ring(40, 9));
  append(cache, 700, 9, 1);
  cache.truncate(0, 695);
  Saved<float> saved(cache);
  again.restore(0, saved.first, saved.k.view(), saved.v.view());
  CHECK(same(again, cache));
  // After removal of all keys only the numbering is left.
  cache.truncate(0, cache.first(0));
  Saved<float> nothing_left(cache);
  again.restore(0, nothing_left.first, nothing_left.k.view(), nothing_left.v.view());
  CHECK(again.length(0) == cache.length(0));
  CHECK(again.length(0) > 0);
  append(cache, 60, 9, 5);
  append(again, 60, 9, 5);
  CHECK(same(again, cache));
  CHECK(support::same_bits(attend(again, 7, 40).view(), attend(cache, 7, 40).view()));
}

TEST_CASE("restore: keys of a ring can be restored to a larger ring or to a cache without a window",
          "[attention][cache]") {
  KvCache<float> small(ring(40, 9)), large(ring(500, 100)), full(full_cache(300)),
      grown(full_cache(600));
  append(small, 700, 9, 1);
  Saved<float> of_ring(small);
  large.restore(0, of_ring.first, of_ring.k.view(), of_ring.v.view());
  CHECK(large.length(0) == 700);
  CHECK(all_of(large, 0) == all_of(small, 0));
  CHECK(support::same_bits(attend(large, 5, 40).view(), attend(small, 5, 40).view()));

  append(full, 250, 250, 3);
  Saved<float> of_full(full);
  append(grown, 9, 9, 4);
  grown.restore(0, 0, of_full.k.view(), of_full.v.view());
  CHECK(same(grown, full));
}

TEST_CASE("restore: a rejected restore leaves the sequence unchanged",
          "[attention][cache][errors]") {
  KvCache<float> rings(ring(40, 9, 2)), full(full_cache(128));
  append(rings, 300, 9, 1);
  append(full, 100, 100, 1);
  const auto before = all_of(rings, 0), full_before = all_of(full, 0);
  const std::string name = "posenc::KvCache::restore: ";
  const auto error = [&](KvCache<float>& cache, Index sequence, Index first, Index n,
                         Index width = dim) {
    auto k = some<float>(n, width, 9), v = some<float>(n, value_dim, 10);
    return message_of<ShapeError>([&] { cache.restore(sequence, first, k.view(), v.view()); });
  };
  CHECK(error(rings, 2, 0, 1) == name + "sequence 2 must lie within [0, 2)");
  CHECK(error(rings, 0, 0, 1, dim + 1) == name + "k [1, 1, 2, 6] must be [1, n, 2, 5]");
  CHECK(error(rings, 0, -1, 1) == name + "the first key must be at least 0 but is -1");
  CHECK(error(full, 0, 1, 1) ==
        name + "the first key must be 0 because the cache is not a ring but is 1");
  CHECK(error(full, 0, 0, 129) ==
        name + "sequence 0 holds 0 keys, and with 129 more would exceed the capacity of 128");
  CHECK(error(rings, 0, 0, 257) ==
        name +
            "the keys 0 to 256 are more than a sequence can store, whose oldest key would be 128");
  CHECK(
      error(rings, 0, 100, 200) ==
      name +
          "the keys 100 to 299 are more than a sequence can store, whose oldest key would be 128");
  constexpr Index most = std::numeric_limits<Index>::max();
  for (const Index first : {most, most - 1, Index{1} << 53}) {
    CHECK(error(rings, 0, first, 2) ==
          name + "sequence 0 cannot have 2 keys from key " + std::to_string(first) +
              " on: positions are doubles, which are exact up to 2^53");
  }
  CHECK(all_of(rings, 0) == before);
  CHECK(all_of(full, 0) == full_before);
  // Appending stops at the largest number as well.
  auto k = some<float>(1, dim, 9), v = some<float>(1, value_dim, 10);
  rings.restore(1, (Index{1} << 53) - 1, k.view(), v.view());
  CHECK(rings.length(1) == Index{1} << 53);
  CHECK(message_of<ShapeError>([&] { rings.append(1, k.view(), v.view()); }) !=
        "nothing was thrown");
  CHECK(rings.length(1) == Index{1} << 53);
}

TEST_CASE("restore: a query that sees no restored key has probabilities of 0",
          "[kv_cache][restore]") {
  KvCache<float> cache(ring(256, 1));
  auto k = some<float>(70, dim, 1), v = some<float>(70, value_dim, 2);
  cache.restore(0, 130, k.view(), v.view());  // begins inside of a tile
  auto q = some<float>(1, dim, 3), out = some<float>(1, value_dim, 4);
  const std::vector<Index> start{1000};
  const std::vector<float> sinks(heads, 0.5F);
  for (const bool with_sinks : {false, true}) {
    std::vector<float> weights(heads * 200, 7.0F);
    posenc::AttentionOptions<float> options{.causal = Causal::FromStart};
    options.query_starts = start;
    options.window.left = 10;
    if (with_sinks) options.sinks = sinks;
    attention(q.view(), cache, {0}, out.view(), options, {},
              {.weights = {weights.data(), 1, heads, 1, 200}});
    CHECK(weights == std::vector<float>(heads * 200, 0.0F));
  }
}

TEST_CASE("restore: scores of evicted keys are -inf", "[kv_cache][restore]") {
  KvCache<float> cache(ring(256, 1));
  auto k = some<float>(70, dim, 1), v = some<float>(70, value_dim, 2);
  cache.restore(0, 130, k.view(), v.view());  // begins inside of a tile
  auto q = some<float>(1, dim, 3), out = some<float>(1, value_dim, 4);
  constexpr auto lowest = -std::numeric_limits<float>::infinity();
  for (const auto stage : {posenc::ReturnedScores::Scaled, posenc::ReturnedScores::Capped}) {
    std::vector<float> weights(heads * 200, 7.0F);
    posenc::AttentionOptions<float> options{.causal = Causal::BottomRight};
    options.window = posenc::sliding_window(10);
    attention(q.view(), cache, {0}, out.view(), options, {},
              {.weights = {weights.data(), 1, heads, 1, 200}, .returned = stage});
    bool right = true;
    for (std::size_t j = 0; j < weights.size(); ++j) {
      right &= (weights[j] == lowest) == (j % 200 < 130);
    }
    CHECK(right);
  }
}

TEST_CASE("restore: a copy of a ring without keys has no contents from before its first key",
          "[kv_cache][restore]") {
  KvCache<float> cache({.sequences = 2,
                        .kv_heads = heads,
                        .head_dim = dim,
                        .value_dim = value_dim,
                        .window = 64,
                        .max_append = 128});
  auto k = some<float>(128, dim, 1), v = some<float>(128, value_dim, 2);
  v.view().row(0, 40, 1)[0] = std::numeric_limits<float>::quiet_NaN();
  cache.append(1, k.view(), v.view());
  cache.clear(1);
  cache.append(1, posenc::slice_seq(k.view(), 0, 5), posenc::slice_seq(v.view(), 0, 5));
  cache.restore(0, 50, posenc::slice_seq(k.view(), 0, 0), posenc::slice_seq(v.view(), 0, 0));
  cache.copy(0, 1);
  cache.append(1, posenc::slice_seq(k.view(), 0, 1), posenc::slice_seq(v.view(), 0, 1));
  REQUIRE(cache.first(1) == 50);
  // Scores before masks are returned for masked keys as well. Their values are multiplied by 0
  // then.
  auto q = some<float>(1, dim, 3), out = some<float>(1, value_dim, 4);
  const std::vector<Index> start{50};
  std::vector<float> weights(heads * 51);
  posenc::AttentionOptions<float> options{.causal = Causal::FromStart};
  options.query_starts = start;
  options.window = posenc::sliding_window(1);
  attention(
      q.view(), cache, {1}, out.view(), options, {},
      {.weights = {weights.data(), 1, heads, 1, 51}, .returned = posenc::ReturnedScores::Scaled});
  bool same = true;
  for (Index h = 0; h < heads; ++h) {
    for (Index d = 0; d < value_dim; ++d) {
      same &= out.view().row(0, 0, h)[d] == v.view().row(0, 0, h)[d];
    }
  }
  CHECK(same);
}

}  // namespace kv_cache_restore_test
