// SPDX-License-Identifier: MIT
// Tests that one call for sequences of a cache, with different numbers of new tokens, has the bits
// of a call for each.
#include "ragged_case.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace attention_ragged_test {

using kv_cache_test::all_of;
using kv_cache_test::full_cache;
using kv_cache_test::ring;
using kv_cache_test::value_dim;
using posenc::Causal;
using posenc::ConfigError;
using posenc::Index;
using posenc::KvBlockPool;
using posenc::KvCache;
using posenc::MemoryLimitError;
using posenc::Positions;
using posenc::ShapeError;
using ragged_test::Call;
using support::Heads;
using support::message_of;

namespace {

constexpr Index heads = kv_cache_test::heads, dim = kv_cache_test::dim;
constexpr std::size_t no_limit = std::size_t{1} << 40;

/// Sequences in another order than the cache's, one of them without new tokens.
const std::vector<Index> sequences{3, 0, 4, 1}, counts{5, 0, 130, 1}, offsets{0, 5, 5, 135, 136};
const std::vector<Index> lengths{200, 256, 1, 300, 0};

template <class S>
void fill(KvCache<S>& cache) {
  support::Random random(1);
  for (Index sequence = 0; sequence < 5; ++sequence) {
    const Index n = lengths[static_cast<std::size_t>(sequence)];
    auto k = Heads<float>::random(random, 1, n, heads, dim);
    auto v = Heads<float>::random(random, 1, n, heads, value_dim);
    if (sequence == 3) v.view().row(0, 150, 1)[3] = std::numeric_limits<float>::infinity();
    for (Index i = 0; i < n; i += 150) {
      const Index piece = std::min(Index{150}, n - i);
      cache.append(sequence, posenc::slice_seq(k.view(), i, piece),
                   posenc::slice_seq(v.view(), i, piece));
    }
  }
}

struct NewTokens {
  Heads<float> k, v;

  NewTokens() : k(1, 0, heads, dim), v(k) {
    support::Random random(2);
    k = Heads<float>::random(random, 1, offsets.back(), heads, dim);
    v = Heads<float>::random(random, 1, offsets.back(), heads, value_dim);
  }
};

template <class S>
bool same(const KvCache<S>& a, const KvCache<S>& b) {
  bool right = true;
  for (Index n = 0; n < a.sequences(); ++n) {
    right = right && a.first(n) == b.first(n) && a.length(n) == b.length(n);
    const auto of_a = all_of(a, n), of_b = all_of(b, n);
    right = right && of_a.size() == of_b.size() &&
            support::same_bits(of_a.data(), of_b.data(), static_cast<Index>(of_a.size()));
  }
  return right;
}

}  // namespace

TEMPLATE_TEST_CASE("KvCache::append with cu_seqlens: equals an append for each sequence",
                   "[attention][cache][ragged]", float, Eigen::bfloat16) {
  using S = TestType;
  const KvBlockPool pool({no_limit});
  for (const auto& config : {full_cache(600, 5), ring(40, 150, 5)}) {
    KvCache<S> together(config), apart(config), pooled(config, pool), by_short_offsets(config);
    for (auto* cache : {&together, &apart, &pooled, &by_short_offsets}) fill(*cache);
    NewTokens tokens;
    together.append(sequences, offsets, tokens.k.view(), tokens.v.view());
    pooled.append(sequences, offsets, tokens.k.view(), tokens.v.view());
    const std::vector<std::int32_t> short_offsets(offsets.begin(), offsets.end());
    by_short_offsets.append(sequences, short_offsets, tokens.k.view(), tokens.v.view());
    for (std::size_t n = 0; n < sequences.size(); ++n) {
      apart.append(sequences[n], posenc::slice_seq(tokens.k.view(), offsets[n], counts[n]),
                   posenc::slice_seq(tokens.v.view(), offsets[n], counts[n]));
    }
    CHECK(same(together, apart));
    CHECK(same(pooled, apart));
    CHECK(same(by_short_offsets, apart));
  }
}

TEST_CASE("attention with cu_seqlens_q: the bits of a call for each sequence",
          "[attention][cache][ragged]") {
  const KvBlockPool pool({no_limit});
  KvCache<float> full(full_cache(600, 5)), pooled(full_cache(600, 5), pool);
  KvCache<float> window(ring(40, 150, 5));
  NewTokens tokens;
  for (auto* cache : {&full, &pooled, &window}) {
    fill(*cache);
    cache->append(sequences, offsets, tokens.k.view(), tokens.v.view());
    for (const auto& variant : ragged_test::variants()) {
      if (cache == &window && (variant.causal != Causal::BottomRight || variant.window == 0)) {
        continue;
      }
      INFO(variant.name);
      Call together(*cache, sequences, counts, 3), apart(*cache, sequences, counts, 3);
      together.together(*cache, variant);
      apart.one_by_one(*cache, variant);
      const auto got = together.results(), want = apart.results();
      CHECK(support::same_bits(got.data(), want.data(), static_cast<Index>(want.size())));
      CHECK(together.out.surroundings_kept());
    }
  }
}

TEST_CASE(
    "attention with cu_seqlens_q: rejected before anything is written if it does not fit its cache",
    "[attention][cache][ragged][errors]") {
  KvCache<float> cache(full_cache(600, 5));
  fill(cache);
  const KvCache<float> before(cache);
  NewTokens tokens;
  const std::string append = "posenc::KvCache::append: ", attention = "posenc::attention: ";
  const auto refused = [&](const std::vector<Index>& named, const std::vector<Index>& cu) {
    return message_of<ShapeError>(
        [&] { cache.append(named, cu, tokens.k.view(), tokens.v.view()); });
  };
  CHECK(refused({0, 1}, {0, 136}) ==
        append + "cu_seqlens must have one entry more than the 2 sequences but has 2");
  CHECK(refused({0, 1}, {}) ==
        append + "cu_seqlens must have one entry more than the 2 sequences but has 0");
  CHECK(refused({0, 1}, {0, 5, 135}) ==
        append + "cu_seqlens must begin with 0 and end with 136 but goes from 0 to 135");
  CHECK(refused({0, 1, 2}, {0, 137, 5, 136}) ==
        append + "cu_seqlens must not descend but has 5 after 137");
  CHECK(refused({0, 0}, {0, 5, 136}) == append + "sequence 0 is listed twice");
  CHECK(refused({0, 5}, {0, 5, 136}) == append + "sequence 5 must lie within [0, 5)");
  KvCache<float> small(full_cache(128, 5));
  CHECK(message_of<ShapeError>(
            [&] { small.append(sequences, offsets, tokens.k.view(), tokens.v.view()); }) ==
        append + "sequence 4 holds 0 keys, and with 130 more would exceed the capacity of 128");
  CHECK(small.length(3) == 0);
  const KvBlockPool pool({3 * cache.block_bytes()});
  KvCache<float> pooled(full_cache(600, 5), pool);
  CHECK(message_of<MemoryLimitError>([&] {
          pooled.append(sequences, offsets, tokens.k.view(), tokens.v.view());
        }).substr(0, append.size() + 8) == append + "4 blocks");
  CHECK(pool.blocks() == 0);
  CHECK(same(cache, before));

  Heads<float> out(1, 136, heads, value_dim), two(2, 68, heads, dim);
  const auto call = [&](auto type, const std::vector<Index>& named, const std::vector<Index>& cu,
                        posenc::HeadsView<float> q) {
    using Error = typename decltype(type)::type;
    Heads<float> result(q.batch, q.seq, heads, value_dim);
    const auto message = message_of<Error>([&] {
      posenc::attention(q, cache, named, result.view(),
                        {.causal = Causal::BottomRight, .cu_seqlens_q = cu});
    });
    CHECK(result.surroundings_kept());
    return message;
  };
  constexpr std::type_identity<ShapeError> shape;
  CHECK(call(shape, {0, 1}, {0, 136}, tokens.k.view()) ==
        attention + "cu_seqlens_q must have one entry more than the 2 sequences but has 2");
  CHECK(call(shape, {0, 1}, {0, 5, 99}, tokens.k.view()) ==
        attention + "cu_seqlens_q must begin with 0 and end with 136 but goes from 0 to 99");
  CHECK(call(shape, {0, 1}, {0, 5, 136}, two.view()) ==
        attention + "cu_seqlens_q requires one batch row but q is [2, 68, 2, 5]");
  CHECK(call(shape, {0, 5}, {0, 5, 136}, tokens.k.view()) ==
        attention + "sequences must lie within the cache's 5 but one is 5");
  // A window without a causal rule requires equal lengths of queries and keys in all sequences, not
  // only in one.
  CHECK(message_of<ConfigError>([&] {
          const std::vector<Index> named{3, 4}, cu{0, 136, 136};
          posenc::attention(
              tokens.k.view(), cache, named, out.view(),
              {.causal = Causal::No, .window = posenc::sliding_window(3), .cu_seqlens_q = cu});
        }).substr(0, attention.size() + 8) == attention + "a window");
}

namespace {

using Rope = posenc::Rope<posenc::HalfRotate>;
using Module =
    posenc::MultiHeadAttention<float, Rope, posenc::Alibi, posenc::FixedOrderLinear<float>>;

Module make_module() {
  Module module({.model_dim = 12,
                 .heads = 2 * heads,
                 .kv_heads = heads,
                 .head_dim = dim,
                 .value_dim = value_dim},
                Rope(posenc::Unscaled{.rotary_dim = 4, .base = 10000}),
                posenc::Alibi({.heads = 2 * heads, .form = posenc::AlibiForm::Causal}));
  module.randomize(4);
  return module;
}

std::vector<float> some_embeddings(Index count) {
  support::Random random(7);
  std::vector<float> x(static_cast<std::size_t>(count));
  random.fill_normal(std::span<float>(x));
  return x;
}

}  // namespace

TEST_CASE("MultiHeadAttention with cu_seqlens_q: equals a call for each sequence",
          "[mha][cache][ragged]") {
  const Module module = make_module();
  const Index total = offsets.back();
  const auto x = some_embeddings(total * 12), old = some_embeddings(150 * 12);
  const KvBlockPool pool({no_limit});
  const auto view = [](auto* data, Index n) {
    return posenc::EmbeddingsView<std::remove_pointer_t<decltype(data)>>{data, 1, n, 12};
  };
  for (const bool is_ring : {false, true}) {
    const posenc::KvCacheConfig config = is_ring ? ring(40, 150, 5) : full_cache(600, 5);
    KvCache<float> together(config, pool), apart(config);
    const auto window = is_ring ? posenc::sliding_window(40) : posenc::Window{};
    std::vector<float> ignored(old.size()), got(x.size()), want(x.size(), 0);
    std::vector<Index> starts;
    for (const Index sequence : {0, 1, 3}) {
      for (auto* cache : {&together, &apart}) {
        const Index n = 50 + 30 * sequence;
        module.forward(view(old.data(), n), Positions::range(0, n), *cache, {sequence},
                       view(ignored.data(), n), {.causal = Causal::BottomRight, .window = window});
      }
    }
    for (const Index sequence : sequences) starts.push_back(apart.length(sequence));
    const auto positions = Positions::packed(offsets, starts);
    // Positions that differ from cache indices are rejected. Rejected calls leave the cache
    // unchanged.
    const KvCache<float> before(together);
    CHECK(message_of<ConfigError>([&] {
            module.forward(
                view(x.data(), total), Positions::packed(offsets), together, sequences,
                view(got.data(), total),
                {.causal = Causal::BottomRight, .window = window, .cu_seqlens_q = offsets});
          }) ==
          "posenc::MultiHeadAttention::forward: options.key_positions must be set if positions "
          "differ from key indices: token 0 of batch row 0 has position 0 but becomes key " +
              std::to_string(starts[0]));
    CHECK(same(together, before));
    CHECK_THROWS_AS(module.forward(view(x.data(), total), positions, together, sequences,
                                   view(got.data(), total),
                                   {.causal = Causal::BottomRight,
                                    .window = window,
                                    .key_lengths = starts,
                                    .cu_seqlens_q = offsets}),
                    ConfigError);
    // Attention finds this error after the keys are appended.
    const std::vector<float> two_sinks(2);
    CHECK_THROWS_AS(module.forward(view(x.data(), total), positions, together, sequences,
                                   view(got.data(), total),
                                   {.causal = Causal::BottomRight,
                                    .window = window,
                                    .cu_seqlens_q = offsets,
                                    .sinks = two_sinks}),
                    ShapeError);
    CHECK(same(together, before));

    module.forward(view(x.data(), total), positions, together, sequences, view(got.data(), total),
                   {.causal = Causal::BottomRight, .window = window, .cu_seqlens_q = offsets});
    for (std::size_t n = 0; n < sequences.size(); ++n) {
      if (counts[n] == 0) continue;
      module.forward(view(x.data() + offsets[n] * 12, counts[n]),
                     Positions::range(starts[n], counts[n]), apart, {sequences[n]},
                     view(want.data() + offsets[n] * 12, counts[n]),
                     {.causal = Causal::BottomRight, .window = window});
    }
    CHECK(support::same_bits(got.data(), want.data(), static_cast<Index>(want.size())));
    CHECK(same(together, apart));
  }
}

}  // namespace attention_ragged_test
