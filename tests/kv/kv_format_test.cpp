// SPDX-License-Identifier: MIT
// A cache in a KvRowFormat, one of posenc or a user's, does what a cache of its decoded rows does.
#include "decode_case.hpp"
#include "kv/four_bits.hpp"
#include "laws/kv_format_laws.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include "support/throws.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/int8_per_token_head.hpp>
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/kv/kv_format.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace kv_format_test {

using attention_test::Decoding;
using attention_test::Variant;
using posenc::Causal;
using posenc::Index;
using posenc::Int8PerTokenHead;
using posenc::KvCache;
using posenc::KvCacheConfig;
using support::Heads;

namespace {

constexpr Index kv_heads = 2, dim = 10, value_dim = 20;

/// Encodes and decodes each row.
template <class F>
void round_rows(posenc::HeadsView<float> x) {
  std::vector<std::byte> stored(static_cast<std::size_t>(F::row_bytes(x.dim)));
  for (Index b = 0; b < x.batch; ++b) {
    for (Index s = 0; s < x.seq; ++s) {
      for (Index h = 0; h < x.heads; ++h) {
        const std::span<float> row(x.row(b, s, h), static_cast<std::size_t>(x.dim));
        F::encode(row, stored);
        F::decode(stored, row);
      }
    }
  }
}

/// The same calls of a cache in format F and of a cache of float that gets decoded rows.
template <class F>
class CachePair {
 public:
  CachePair(const KvCacheConfig& config, const posenc::KvBlockPool* pool)
      : encoded_(pool ? KvCache<F>(config, *pool) : KvCache<F>(config)),
        decoded_(pool ? KvCache<float>(config, *pool) : KvCache<float>(config)) {}

  const KvCache<F>& encoded() const { return encoded_; }

  void append(Index sequence, Index count, support::Random& random) {
    auto k = Heads<float>::random(random, 1, count, kv_heads, dim);
    auto v = Heads<float>::random(random, 1, count, kv_heads, value_dim);
    if (count > 0 && random.integer(0, 3) == 0) {
      v.view().row(0, count / 2, 1)[7] = std::numeric_limits<float>::infinity();
    }
    encoded_.append(sequence, k.view(), v.view());
    round_rows<F>(k.view());
    round_rows<F>(v.view());
    decoded_.append(sequence, k.view(), v.view());
  }
  template <class Call>
  void on_both(const Call& call) {
    call(encoded_);
    call(decoded_);
  }
  void update_keys(Index sequence) {
    const auto halve = [](auto k, Index) {
      for (Index s = 0; s < k.seq; ++s) {
        for (Index h = 0; h < k.heads; ++h) {
          for (Index d = 0; d < k.dim; ++d) k.row(0, s, h)[d] *= 0.7F;
        }
      }
    };
    encoded_.update_keys(sequence, halve);
    decoded_.update_keys(sequence, [&](auto k, Index first) {
      halve(k, first);
      round_rows<F>(k);
    });
  }

  /// True if both have the same keys and values of a sequence, and the same attention over them.
  bool agree(Index sequence, support::Random& random) const {
    const Index first = encoded_.first(sequence), count = encoded_.length(sequence) - first;
    if (first != decoded_.first(sequence) || first + count != decoded_.length(sequence))
      return false;
    Heads<float> k(1, count, kv_heads, dim), v(1, count, kv_heads, value_dim), k2 = k, v2 = v;
    encoded_.copy_keys(sequence, first, k.view(), v.view());
    decoded_.copy_keys(sequence, first, k2.view(), v2.view());
    bool same = support::same_bits(k.view(), k2.view()) && support::same_bits(v.view(), v2.view());
    if (count == 0) return same;
    const Index queries = std::min(count, random.integer(1, 9));
    auto q = Heads<float>::random(random, 1, queries, 2 * kv_heads, dim);
    Heads<float> out(1, queries, 2 * kv_heads, value_dim), out2 = out;
    posenc::AttentionOptions<float> options{.causal = Causal::BottomRight};
    // A ring keeps whole windows of its newest queries only.
    options.window = posenc::sliding_window(std::min(count - queries + 1, Index{150}));
    posenc::attention(q.view(), encoded_, {sequence}, out.view(), options);
    posenc::attention(q.view(), decoded_, {sequence}, out2.view(), options);
    return same && support::same_bits(out.view(), out2.view());
  }

 private:
  KvCache<F> encoded_;
  KvCache<float> decoded_;
};

}  // namespace

TEMPLATE_TEST_CASE("KvRowFormat: obeys its laws", "[laws][cache]", FourBits, Int8PerTokenHead) {
  for (const Index channels : {2, 16, 18, 64, 130}) laws::check_kv_row_format<TestType>(channels);
}

TEMPLATE_TEST_CASE(
    "attention over KvCache: a row format is bit-identical to tensors of its decoded rows",
    "[attention][cache][bits]", FourBits, Int8PerTokenHead) {
  using F = TestType;
  for (const Variant& variant : attention_test::variants()) {
    Decoding<float> whole(variant), cut(variant);
    round_rows<F>(whole.c.k.view());
    round_rows<F>(whole.c.v.view());
    whole.prefill();
    for (const Index chunk : {3, 200}) {
      INFO(variant.name << ", chunks of " << chunk);
      KvCache<F> cache({.kv_heads = cut.kv_heads,
                        .head_dim = cut.dim,
                        .value_dim = cut.value_dim,
                        .capacity = cut.length});
      cut.clear();
      for (Index done = 0; done < cut.length; done += chunk) {
        const Index count = std::min(chunk, cut.length - done);
        const auto part = [&](auto& x) { return posenc::slice_seq(x.view(), done, count); };
        cache.append(0, part(cut.c.k), part(cut.c.v));
        auto options = cut.options(done, count, done + count);
        options.causal = Causal::BottomRight;
        const auto attend = [&](const auto& bias) {
          posenc::attention(part(cut.c.q), cache, {0}, part(cut.c.out), options, bias,
                            cut.memory(done, count));
        };
        cut.bias() == nullptr ? attend(posenc::NoBias()) : attend(*cut.bias());
      }
      CHECK(support::same_bits(cut.c.out.view(), whole.c.out.view()));
      CHECK(attention_test::same_bits(cut.lse.view(), whole.lse.view()));
    }
  }
}

TEMPLATE_TEST_CASE("KvCache: random calls of a row format do what they do to its decoded rows",
                   "[cache]", FourBits, Int8PerTokenHead) {
  constexpr Index sequences = 3, max_append = 150;
  for (const std::string kind : {"full", "ring", "pool"}) {
    KvCacheConfig config{
        .sequences = sequences, .kv_heads = kv_heads, .head_dim = dim, .value_dim = value_dim};
    kind == "ring" ? config.window = 200 : config.capacity = 700;
    config.max_append = max_append;
    const posenc::KvBlockPool pool({.byte_limit = 1 << 22});
    CachePair<TestType> caches(config, kind == "pool" ? &pool : nullptr);
    support::Random random(3);
    for (int step = 0; step < 60; ++step) {
      const Index sequence = random.integer(0, sequences - 1);
      const Index first = caches.encoded().first(sequence),
                  length = caches.encoded().length(sequence);
      const Index call = random.integer(0, 8), at = random.integer(first, length);
      INFO(kind << ", step " << step << ", call " << call);
      if (call <= 3) {
        const Index room = kind == "ring" ? max_append : caches.encoded().capacity() - length;
        caches.append(sequence, random.integer(0, std::min(room, max_append)), random);
      } else if (call == 4) {
        caches.on_both([&](auto& cache) { cache.truncate(sequence, at); });
      } else if (call == 5) {
        caches.on_both([&](auto& cache) { cache.copy(sequence, (sequence + 1) % sequences); });
      } else if (call == 6 && kind != "ring") {
        const Index count = random.integer(0, length - at);
        caches.on_both([&](auto& cache) { cache.erase(sequence, at, count, [](auto) {}); });
      } else if (call == 7) {
        caches.update_keys(sequence);
      } else if (call == 8 && random.integer(0, 3) == 0) {
        caches.on_both([&](auto& cache) { cache.clear(sequence); });
      }
      for (Index n = 0; n < sequences; ++n) REQUIRE(caches.agree(n, random));
    }
  }
}

TEMPLATE_TEST_CASE("KvCache::restore: resumes a session of a row format bit-identically", "[cache]",
                   FourBits, Int8PerTokenHead) {
  const KvCacheConfig config{
      .kv_heads = kv_heads, .head_dim = dim, .value_dim = value_dim, .window = 100};
  support::Random random(4);
  KvCache<TestType> cache(config), resumed(config);
  for (Index token = 0; token < 300; ++token) {
    auto k = Heads<float>::random(random, 1, 1, kv_heads, dim);
    auto v = Heads<float>::random(random, 1, 1, kv_heads, value_dim);
    cache.append(0, k.view(), v.view());
  }
  const Index first = cache.first(0), count = cache.length(0) - first;
  Heads<float> k(1, count, kv_heads, dim), v(1, count, kv_heads, value_dim), k2 = k, v2 = v;
  cache.copy_keys(0, first, k.view(), v.view());
  resumed.restore(0, first, k.view(), v.view());
  resumed.copy_keys(0, first, k2.view(), v2.view());
  CHECK(support::same_bits(k.view(), k2.view()));
  CHECK(support::same_bits(v.view(), v2.view()));
}

TEMPLATE_TEST_CASE("attention over KvCache: a masked NaN of a row format does not leak", "[cache]",
                   FourBits, Int8PerTokenHead) {
  constexpr Index keys = 140, queries = 2;
  support::Random random(5);
  auto k = Heads<float>::random(random, 1, keys, kv_heads, dim);
  auto v = Heads<float>::random(random, 1, keys, kv_heads, value_dim);
  auto q = Heads<float>::random(random, 1, queries, kv_heads, dim);
  // Visible to the last query alone.
  for (auto* x : {&k, &v}) x->view().row(0, keys - 1, 0)[3] = std::nanf("");
  KvCache<TestType> cache(
      {.kv_heads = kv_heads, .head_dim = dim, .value_dim = value_dim, .capacity = keys});
  cache.append(0, k.view(), v.view());
  Heads<float> out(1, queries, kv_heads, value_dim);
  posenc::attention(q.view(), cache, {0}, out.view(), {.causal = Causal::BottomRight});
  for (Index d = 0; d < value_dim; ++d) {
    CHECK(std::isfinite(out.view().row(0, 0, 0)[d]));
    CHECK(std::isnan(out.view().row(0, 1, 0)[d]));
    CHECK(std::isfinite(out.view().row(0, 1, 1)[d]));
  }
}

TEMPLATE_TEST_CASE("MultiHeadAttention: decodes over a row format, token by token as in one call",
                   "[module][cache]", FourBits, Int8PerTokenHead) {
  using Rope = posenc::Rope<posenc::HalfRotate>;
  using Module =
      posenc::MultiHeadAttention<float, Rope, posenc::NoBias, posenc::FixedOrderLinear<float>>;
  constexpr Index tokens = 150, model_dim = 24;
  Module module({.model_dim = model_dim, .heads = 4, .kv_heads = 2, .head_dim = 8},
                Rope(posenc::Unscaled{.rotary_dim = 8, .base = 10000}));
  module.randomize(1);
  std::vector<float> x(tokens * model_dim), whole(x.size()), cut(x.size());
  support::Random random(6);
  random.fill_normal(x);
  const auto run = [&](std::vector<float>& out, Index chunk) {
    KvCache<TestType> cache({.kv_heads = 2, .head_dim = 8, .capacity = tokens});
    for (Index first = 0; first < tokens; first += chunk) {
      const Index count = std::min(chunk, tokens - first), at = first * model_dim;
      module.forward(posenc::EmbeddingsView<const float>{x.data() + at, 1, count, model_dim},
                     posenc::Positions::range(first, count), cache, {0},
                     posenc::EmbeddingsView<float>{out.data() + at, 1, count, model_dim},
                     {.causal = Causal::BottomRight});
    }
    return cache.length(0);
  };
  CHECK(run(whole, tokens) == tokens);
  CHECK(run(cut, 1) == tokens);
  CHECK(whole == cut);
}

TEST_CASE("KvCache: a row format may reject a number of channels", "[cache]") {
  CHECK(support::message_of<posenc::ConfigError>([] {
          KvCache<FourBits>({.kv_heads = 1, .head_dim = 7, .capacity = 1});
        }) == "FourBits: odd number of channels");
}

TEST_CASE("KvCache: a row format allocates the bytes of its rows", "[cache]") {
  const KvCacheConfig config{
      .sequences = 2, .kv_heads = 3, .head_dim = 64, .value_dim = 32, .capacity = 128};
  const std::size_t flags_and_ranges = 2 * 3 + 2 * 16, rows = std::size_t{2} * 3 * 128;
  CHECK(KvCache<FourBits>(config).bytes() == rows * (33 + 17) + flags_and_ranges);
  CHECK(KvCache<Int8PerTokenHead>(config).bytes() == rows * (66 + 34) + flags_and_ranges);
}

}  // namespace kv_format_test
