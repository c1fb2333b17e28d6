// SPDX-License-Identifier: MIT
// Attention over a cache is bit-identical to attention over tensors with the same keys, in one call
// or in chunks.
#include "decode_case.hpp"
#include "support/catch.hpp"
#include "support/guarded.hpp"
#include "support/throws.hpp"
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace cached_attention_test {

using attention_test::Decoding;
using attention_test::same_bits;
using attention_test::Variant;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::ConfigError;
using posenc::Index;
using posenc::KvCache;
using posenc::ShapeError;
using posenc::slice_seq;
using support::Heads;
using support::message_of;

namespace {

constexpr Index sequence = 1;
const std::vector<Index> rows{sequence};

template <class T, class S>
void attend(posenc::HeadsView<T> q, const KvCache<S>& cache, posenc::HeadsView<T> out,
            const AttentionOptions<T>& options, const attention_test::AnyBias* bias = nullptr,
            const posenc::AttentionMemory<T>& memory = {}) {
  if (bias == nullptr) {
    posenc::attention(q, cache, rows, out, options, {}, memory);
  } else {
    posenc::attention(q, cache, rows, out, options, *bias, memory);
  }
}

/// Appends the keys of `chunk` tokens, then attends with their queries, chunk after chunk.
template <class T, class S>
void run_in_chunks(Decoding<T>& d, KvCache<S>& cache, Index chunk) {
  constexpr Index length = Decoding<T>::length;
  for (Index done = 0; done < length; done += chunk) {
    const Index count = std::min(chunk, length - done), seen = done + count;
    cache.append(sequence, slice_seq(d.c.k.view(), done, count),
                 slice_seq(d.c.v.view(), done, count));
    auto options = d.options(done, count, seen);
    options.causal = Causal::BottomRight;
    attend(slice_seq(d.c.q.view(), done, count), cache, slice_seq(d.c.out.view(), done, count),
           options, d.bias(), d.memory(done, count));
  }
}

template <class D>
posenc::KvCacheConfig config_of() {
  return {.sequences = 2, .kv_heads = D::kv_heads, .head_dim = D::dim, .value_dim = D::value_dim};
}

/// Rounds keys and values of `c` as the cache stores them.
template <class S, class T>
void round_keys(attention_test::Case<T>& c) {
  for (auto* x : {&c.k, &c.v}) {
    x->for_each([](T& value) {
      using Real = posenc::Compute<T>;
      value = static_cast<T>(static_cast<Real>(static_cast<S>(static_cast<Real>(value))));
    });
  }
}

}  // namespace

TEMPLATE_TEST_CASE(
    "attention over KvCache: decoding and prefill over a cache are bit-identical to tensors",
    "[attention][cache][bits]", float, Eigen::bfloat16) {
  using T = TestType;
  for (const Variant& variant : attention_test::variants()) {
    Decoding<T> whole(variant), cut(variant);
    whole.prefill();
    for (const Index chunk : {1, 3, 128, 200, 300}) {
      INFO(variant.name << ", chunks of " << chunk);
      auto config = config_of<Decoding<T>>();
      config.capacity = whole.length;
      KvCache<T> cache(config);
      cut.clear();
      run_in_chunks(cut, cache, chunk);
      CHECK(support::same_bits(cut.c.out.view(), whole.c.out.view()));
      CHECK(same_bits(cut.lse.view(), whole.lse.view()));
    }
  }
}

TEMPLATE_TEST_CASE("attention over KvCache: a ring is bit-identical to tensors within its window",
                   "[attention][cache][bits]", float, Eigen::bfloat16) {
  using T = TestType;
  for (const Variant& variant : attention_test::variants()) {
    if (variant.window.left < 0) continue;
    Decoding<T> whole(variant), cut(variant);
    whole.prefill();
    for (const Index chunk : {1, 3, 128}) {
      INFO(variant.name << ", chunks of " << chunk);
      auto config = config_of<Decoding<T>>();
      config.window = variant.window.left + 1;
      config.max_append = chunk;
      KvCache<T> cache(config);
      cut.clear();
      run_in_chunks(cut, cache, chunk);
      CHECK(support::same_bits(cut.c.out.view(), whole.c.out.view()));
      CHECK(same_bits(cut.lse.view(), whole.lse.view()));
    }
  }
}

TEMPLATE_TEST_CASE(
    "attention over KvCache: float queries over a 16-bit cache are bit-identical to rounded keys",
    "[attention][cache][bits]", Eigen::half, Eigen::bfloat16) {
  using S = TestType;
  for (const Variant& variant : attention_test::variants()) {
    INFO(variant.name);
    Decoding<float> whole(variant), cut(variant);
    auto config = config_of<Decoding<float>>();
    config.capacity = whole.length;
    KvCache<S> cache(config);
    run_in_chunks(cut, cache, 7);
    round_keys<S>(whole.c);
    whole.prefill();
    CHECK(support::same_bits(cut.c.out.view(), whole.c.out.view()));
    CHECK(same_bits(cut.lse.view(), whole.lse.view()));
  }
}

TEST_CASE("attention over KvCache: a cache of double supports double queries",
          "[attention][cache][bits]") {
  const Variant& variant = attention_test::variants().back();
  Decoding<double> whole(variant), cut(variant);
  whole.prefill();
  auto config = config_of<Decoding<double>>();
  config.capacity = whole.length;
  KvCache<double> cache(config);
  run_in_chunks(cut, cache, 50);
  CHECK(support::same_bits(cut.c.out.view(), whole.c.out.view()));
  CHECK(same_bits(cut.lse.view(), whole.lse.view()));
}

TEST_CASE("attention over KvCache: each batch row reads its own sequence at its own length",
          "[attention][cache]") {
  constexpr Index heads = 4, kv_heads = 2, dim = 8, queries = 3;
  support::Random random(1);
  KvCache<float> cache({.sequences = 3, .kv_heads = kv_heads, .head_dim = dim, .capacity = 300});
  std::vector<Heads<float>> ks, vs;
  const std::vector<Index> lengths{140, 3, 290}, order{2, 0, 1};
  for (const Index n : lengths) {
    ks.push_back(Heads<float>::random(random, 1, n, kv_heads, dim));
    vs.push_back(Heads<float>::random(random, 1, n, kv_heads, dim));
    cache.append(static_cast<Index>(ks.size()) - 1, ks.back().view(), vs.back().view());
  }
  auto q = Heads<float>::random(random, 3, queries, heads, dim);
  Heads<float> out(3, queries, heads, dim);
  posenc::attention(q.view(), cache, {2, 0, 1}, out.view(), {.causal = Causal::BottomRight});
  for (Index b = 0; b < 3; ++b) {
    const auto s = static_cast<std::size_t>(order[static_cast<std::size_t>(b)]);
    Heads<float> alone(1, queries, heads, dim);
    attention_test::attend(support::batch_row(q.view(), b), ks[s].view(), vs[s].view(),
                           alone.view(), {.causal = Causal::BottomRight});
    CHECK(support::same_bits(alone.view(), support::batch_row(out.view(), b)));
  }
}

TEST_CASE("attention over KvCache: removed keys have no effect", "[attention][cache]") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr Index dim = 8;
  const posenc::KvCacheConfig config{
      .sequences = 2, .kv_heads = 1, .head_dim = dim, .capacity = 300};
  support::Random random(2);
  auto q = Heads<float>::random(random, 1, 2, 1, dim);
  auto k = Heads<float>::random(random, 1, 150, 1, dim),
       v = Heads<float>::random(random, 1, 150, 1, dim), bad = v;
  bad.for_each([](float& x) { x = nan; });
  Heads<float> want(1, 2, 1, dim), out(1, 2, 1, dim);
  KvCache<float> fresh(config), used(config);
  fresh.append(sequence, k.view(), v.view());
  used.append(sequence, bad.view(), bad.view());
  used.clear(sequence);
  used.append(sequence, k.view(), v.view());
  used.append(sequence, bad.view(), bad.view());
  used.truncate(sequence, 150);
  const AttentionOptions<float> options{.causal = Causal::BottomRight};
  attend(q.view(), fresh, want.view(), options);
  attend(q.view(), used, out.view(), options);
  CHECK(support::same_bits(out.view(), want.view()));
}

TEST_CASE("attention over KvCache: offsets of packed queries are read to their end alone",
          "[attention][cache]") {
  constexpr Index dim = 4;
  KvCache<float> cache({.sequences = 2, .kv_heads = 1, .head_dim = dim, .capacity = 100});
  support::Random random(4);
  auto x = Heads<float>::random(random, 1, 3, 1, dim), out = x;
  support::Guarded<Index> memory(3);
  Index* const offsets = memory.last(3);
  offsets[0] = 0, offsets[1] = 2, offsets[2] = 3;
  const std::vector<Index> sequences{0, 1};
  const posenc::ListView<Index> packed(offsets, 3);
  cache.append(sequences, packed, x.view(), x.view());
  // Queries are as many as keys, which gives the window its place.
  CHECK_NOTHROW(
      posenc::attention(x.view(), cache, sequences, out.view(),
                        {.causal = Causal::No, .window = {.left = 1}, .cu_seqlens_q = packed}));
}

TEST_CASE("attention over KvCache: rejects invalid calls", "[attention][cache][errors]") {
  constexpr Index dim = 8;
  KvCache<float> cache({.sequences = 2, .kv_heads = 2, .head_dim = dim, .capacity = 100});
  support::Random random(3);
  auto k = Heads<float>::random(random, 1, 5, 2, dim);
  cache.append(sequence, k.view(), k.view());
  const auto error = [&]<class Error>(
                         std::type_identity<Error>, Heads<float> q,
                         const std::vector<Index>& sequences,
                         const AttentionOptions<float>& options = {.causal = Causal::No}) {
    const auto extents = q.view().extents();
    Heads<float> out(extents[0], extents[1], extents[2], dim);
    const std::string message = message_of<Error>(
        [&] { posenc::attention(q.view(), cache, sequences, out.view(), options); });
    bool written = false;
    out.for_each([&](float& value) { written |= !std::isnan(value); });
    return written ? "something was written; " + message : message;
  };
  constexpr std::type_identity<ShapeError> shape;
  constexpr std::type_identity<ConfigError> contradiction;
  const std::string name = "posenc::attention: ";
  CHECK(error(shape, {1, 1, 2, dim + 1}, {1}).substr(0, name.size() + 2) == name + "q ");
  CHECK(error(shape, {1, 1, 3, dim}, {1}).substr(0, name.size() + 2) == name + "q ");
  CHECK(error(shape, {1, 1, 2, dim}, {2}) ==
        name + "sequences must lie within the cache's 2 but one is 2");
  CHECK(error(shape, {1, 1, 2, dim}, {-1}) ==
        name + "sequences must lie within the cache's 2 but one is -1");
  CHECK(error(shape, {2, 1, 2, dim}, {1}).substr(0, name.size()) == name);
  const std::vector<Index> lengths{3}, boundaries{0, 1};
  const std::string rule =
      name + "key_lengths and cu_seqlens_k must not be set, because the cache has the lengths";
  CHECK(error(contradiction, {1, 1, 2, dim}, {1}, {.causal = Causal::No, .key_lengths = lengths}) ==
        rule);
  CHECK(error(contradiction, {1, 1, 2, dim}, {1},
              {.causal = Causal::No, .cu_seqlens_q = boundaries, .cu_seqlens_k = boundaries}) ==
        rule);
}

TEST_CASE("attention over KvCache: a ring rejects windows that reach evicted keys",
          "[attention][cache][errors]") {
  constexpr Index dim = 8;
  KvCache<float> ring({.sequences = 2, .kv_heads = 1, .head_dim = dim, .window = 10});
  support::Random random(4);
  auto k = Heads<float>::random(random, 1, 1, 1, dim), q = k;
  Heads<float> out(1, 1, 1, dim);
  for (Index n = 0; n < 400; ++n) ring.append(sequence, k.view(), k.view());
  REQUIRE(ring.first(sequence) > 0);
  const auto error = [&](const AttentionOptions<float>& options) {
    return message_of<ConfigError>([&] { attend(q.view(), ring, out.view(), options); });
  };
  const std::string rule = "posenc::attention: the keys before ";
  CHECK(error({.causal = Causal::BottomRight}).substr(0, rule.size()) == rule);
  CHECK(error({.causal = Causal::BottomRight, .window = {.left = 399 - ring.first(sequence) + 1}})
            .substr(0, rule.size()) == rule);
  CHECK(std::isnan(out.view().row(0, 0, 0)[0]));
  CHECK(error({.causal = Causal::BottomRight, .window = {.left = 399 - ring.first(sequence)}}) ==
        "nothing was thrown");
}

}  // namespace cached_attention_test
