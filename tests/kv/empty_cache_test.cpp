// SPDX-License-Identifier: MIT
// Caches, biases and modules with extents of 0, next to other extents of any size.
#include "attention/empty_case.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/core/error.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/nn/multi_head_attention.hpp>

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace empty_cache_test {

using empty_case::extent;
using empty_case::fill;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::EmbeddingsView;
using posenc::HeadsView;
using posenc::Index;
using posenc::Positions;
using support::Heads;

namespace {

bool all_are(Heads<float>& x, float value) {
  bool same = true;
  x.for_each([&](float& number) { same = same && Approx(value).margin(1e-5) == number; });
  return same;
}

posenc::KvCache<float> make_cache(bool has_pool, bool is_ring, const posenc::KvBlockPool& pool) {
  const posenc::KvCacheConfig config{.sequences = 3,
                                     .kv_heads = 2,
                                     .head_dim = 1,
                                     .value_dim = 3,
                                     .capacity = is_ring ? 0 : 200,
                                     .window = is_ring ? 200 : 0,
                                     .max_append = is_ring ? 64 : 1};
  return has_pool ? posenc::KvCache<float>(config, pool) : posenc::KvCache<float>(config);
}

}  // namespace

TEST_CASE("attention over KvCache: attending before append() is an error", "[attention]") {
  auto cache = make_cache(false, false, posenc::KvBlockPool({.byte_limit = 1}));
  Heads<float> k(1, 2, 2, 1), v(1, 2, 2, 3), q(2, 3, 2, 1), out(2, 3, 2, 3);
  fill(k, 1);
  fill(v, 2);
  fill(out, 7);
  cache.append(Index{1}, k.view(), v.view());
  const auto message = [&](const std::vector<Index>& sequences,
                           const AttentionOptions<float>& options) -> std::string {
    const Index batch = options.cu_seqlens_q.empty() ? static_cast<Index>(sequences.size()) : 1;
    HeadsView<float> queries = q.view(), outputs = out.view();
    queries.batch = outputs.batch = batch;
    try {
      posenc::attention<float>(queries, cache, sequences, outputs, options);
    } catch (const posenc::ShapeError& error) {
      CHECK(all_are(out, 7));
      return error.what();
    }
    fill(out, 7);
    return "";
  };
  const std::string none =
      "posenc::attention: sequence 0 of the cache has 0 keys for 3 queries: append() the keys of "
      "the queries first, or set query_starts";
  for (const auto causal : {Causal::No, Causal::TopLeft, Causal::BottomRight}) {
    CHECK(message({0}, {.causal = causal}) == none);
    CHECK(message({1, 0}, {.causal = causal}).find("sequence ") != std::string::npos);
  }
  CHECK(message({1}, {.causal = Causal::BottomRight}) ==
        "posenc::attention: sequence 1 of the cache has 2 keys for 3 queries: append() the keys of "
        "the queries first, or set query_starts");
  CHECK(message({1}, {.causal = Causal::No}) == "");
  CHECK(message({1}, {.causal = Causal::TopLeft}) == "");
  // The caller aligns the queries, or gives an empty sequence no query.
  const std::vector<Index> starts{0, 0}, offsets{0, 0, 3}, some{0, 1, 3};
  CHECK(message({1, 0}, {.causal = Causal::FromStart, .query_starts = starts}) == "");
  CHECK(message({1, 0}, {.causal = Causal::No, .query_starts = starts}) == "");
  CHECK(message({0, 1}, {.causal = Causal::No, .cu_seqlens_q = offsets}) == "");
  CHECK(message({0, 1}, {.causal = Causal::No, .cu_seqlens_q = some})
            .find("sequence 0 of the cache has 0 keys for 1 queries") != std::string::npos);
}

TEST_CASE("attention over KvCache: a cache without keys gives zeros to aligned queries",
          "[attention]") {
  const posenc::KvBlockPool pool({.byte_limit = std::size_t{1} << 24});
  for (const bool has_pool : {false, true}) {
    for (const bool is_ring : {false, true}) {
      auto cache = make_cache(has_pool, is_ring, pool);
      for (Index queries = 0; queries <= 64; ++queries) {
        for (const Index heads : {0, 2, 6}) {
          for (const Index batch : {0, 1, 3}) {
            INFO(has_pool << is_ring << ", " << queries << " queries, " << heads << " heads, "
                          << batch << " sequences");
            const std::vector<Index> sequences(static_cast<std::size_t>(batch), 1);
            Heads<float> q(batch, queries, heads, 1), out(batch, queries, heads, 3);
            fill(out, 7);
            std::vector<float> lse(static_cast<std::size_t>(batch * heads * queries)), weights(1);
            const std::vector<Index> starts{0};
            AttentionOptions<float> options{.causal = Causal::FromStart, .query_starts = starts};
            options.window.left = is_ring ? 8 : -1;
            posenc::attention<float>(q.view(), cache, sequences, out.view(), options, {},
                                     {.lse = {lse.data(), batch, heads, queries},
                                      .weights = {weights.data(), batch, heads, queries, 0}});
            REQUIRE(all_are(out, 0));
            REQUIRE(lse == std::vector<float>(lse.size(), -std::numeric_limits<float>::infinity()));
          }
        }
      }
    }
  }
}

TEST_CASE("attention over KvCache: packed queries attend to sequences with and without keys",
          "[attention]") {
  const posenc::KvBlockPool pool({.byte_limit = std::size_t{1} << 24});
  for (const bool has_pool : {false, true}) {
    auto cache = make_cache(has_pool, false, pool);
    Heads<float> k(1, 5, 2, 1), v(1, 5, 2, 3);
    fill(k, 1);
    fill(v, 2);
    cache.append(Index{1}, k.view(), v.view());
    for (Index queries = 0; queries <= 64; ++queries) {
      INFO(has_pool << ", " << queries << " queries");
      Heads<float> q(1, 2 * queries, 2, 1), out(1, 2 * queries, 2, 3);
      fill(q, 1);
      const std::vector<Index> sequences{0, 1, 2}, offsets{0, queries, 2 * queries, 2 * queries};
      const std::vector<Index> starts(3);
      AttentionOptions<float> options{.causal = Causal::No, .query_starts = starts};
      options.cu_seqlens_q = offsets;
      posenc::attention<float>(q.view(), cache, sequences, out.view(), options);
      bool is_right = true;
      for (Index i = 0; i < 2 * queries; ++i) {
        for (Index h = 0; h < 2; ++h) {
          is_right = is_right && Approx(i < queries ? 0 : 2) == out.view().row(0, i, h)[1];
        }
      }
      REQUIRE(is_right);
    }
  }
}

TEST_CASE("attention over KvCache: an append may have no keys", "[attention]") {
  const posenc::KvBlockPool pool({.byte_limit = std::size_t{1} << 24});
  for (const bool has_pool : {false, true}) {
    for (const bool is_ring : {false, true}) {
      for (Index held = 0; held <= 64; ++held) {
        INFO(has_pool << is_ring << ", " << held << " keys");
        auto cache = make_cache(has_pool, is_ring, pool);
        Heads<float> k(1, held, 2, 1), v(1, held, 2, 3), none_k(1, 0, 2, 1), none_v(1, 0, 2, 3);
        Heads<float> no_k(0, held, 2, 1), no_v(0, held, 2, 3), read_k(1, held, 2, 1),
            read_v(1, held, 2, 3);
        fill(k, 3);
        fill(v, 4);
        cache.append(Index{0}, k.view(), v.view());
        cache.append(Index{0}, none_k.view(), none_v.view());
        cache.append(std::vector<Index>{}, no_k.view(), no_v.view());
        cache.append(std::vector<Index>{0, 2}, std::vector<Index>{0, 0, 0}, none_k.view(),
                     none_v.view());
        cache.append(std::vector<Index>{}, std::vector<Index>{0}, none_k.view(), none_v.view());
        REQUIRE(cache.length(0) == held);
        cache.copy_keys(0, held, none_k.view(), none_v.view());
        cache.copy(2, 1);
        cache.copy(0, 1);
        cache.update_keys(2, [](const auto&, Index) {});
        cache.update_keys(1, [](const auto&, Index) {});
        if (!is_ring) {
          cache.erase(1, held, 0, [](const auto&) {});
          cache.erase(1, 0, held, [](const auto&) {});
          REQUIRE(cache.length(1) == 0);
        }
        cache.copy_keys(0, 0, read_k.view(), read_v.view());
        REQUIRE(all_are(read_k, 3));
        REQUIRE(all_are(read_v, 4));
        cache.restore(1, 0, read_k.view(), read_v.view());
        REQUIRE(cache.length(1) == held);
        cache.restore(1, 0, none_k.view(), none_v.view());
        REQUIRE(cache.length(1) == 0);
        cache.truncate(0, 0);
        cache.clear(1);
        REQUIRE(cache.length(0) == 0);
      }
    }
  }
}

TEST_CASE("bias over KvCache: accepts any extent of 0", "[attention]") {
  // Bits of `zeros`: batch, queries, keys, heads, kv_heads, dim, value_dim, width of the relative
  // queries.
  for (unsigned zeros = 0; zeros < 256; ++zeros) {
    for (const Index rows : {0, 1, 2, 12, 25, 33, 64}) {
      const Index b = extent(zeros, 0, 2), sq = extent(zeros, 1, rows), sk = extent(zeros, 2, 33),
                  h = extent(zeros, 3, 4), hkv = extent(zeros, 4, 2), d = extent(zeros, 5, 5),
                  dv = extent(zeros, 6, 3), w = extent(zeros, 7, 2);
      INFO("zeros " << zeros << ", rows " << rows);
      Heads<float> q(b, sq, h, d), k(b, sk, hkv, d), v(b, sk, hkv, dv), out(b, sq, h, dv);
      Heads<float> x(b, sq, h, w), grad_x(b, sq, h, w), grad(b, sq, h, dv), grad_q(b, sq, h, d),
          grad_k(b, sk, hkv, d), grad_v(b, sk, hkv, dv);
      std::vector<float> lse(static_cast<std::size_t>(b * h * sq) + 1);
      std::vector<float> weights(static_cast<std::size_t>(b * h * sq * sk) + 1);
      const AttentionOptions<float> options{.causal = Causal::BottomRight};
      const posenc::LseView<float> lse_rows{lse.data(), b, h, sq};
      fill(q, 1);
      fill(k, 1);
      fill(v, 2);
      fill(x, 1);
      fill(grad, 1);
      const auto run = [&](const auto& bias, auto&& gradient) {
        fill(out, 7);
        fill(grad_x, 7);
        fill(grad_q, 7);
        fill(grad_k, 7);
        fill(grad_v, 7);
        try {
          posenc::attention<float>(q.view(), k.view(), v.view(), out.view(), options, bias,
                                   {.lse = lse_rows, .weights = {weights.data(), b, h, sq, sk}});
          for (Index n = 0; n < b * h * sq; ++n) {
            // The mean of equal values, if the query sees a key.
            const bool sees = lse[static_cast<std::size_t>(n)] > -1e30F;
            const Index i = n % sq, head = n / sq % h, row = n / sq / h;
            for (Index c = 0; c < dv; ++c) {
              REQUIRE(out.view().row(row, i, head)[c] == Approx(sees ? 2 : 0));
            }
          }
          posenc::attention_backward<float>(
              q.view(), k.view(), v.view(), out.view(), lse_rows, grad.view(),
              {grad_q.view(), grad_k.view(), grad_v.view()}, options, bias, gradient);
          // Equal values give scores no gradient.
          REQUIRE(all_are(grad_q, 0));
          REQUIRE(all_are(grad_k, 0));
        } catch (const posenc::ShapeError&) {
          REQUIRE((hkv == 0 || h == 0));
        } catch (const posenc::ConfigError&) {
          // Tables without channels and without memory are absent.
          REQUIRE((w == 0 && d == 0));
        }
      };
      posenc::NoGradient no_gradient;
      run(posenc::Alibi({.heads = 4, .form = posenc::AlibiForm::Symmetric}), no_gradient);
      for (const auto beyond : {posenc::BeyondTable::Nearest, posenc::BeyondTable::Nothing}) {
        for (const Index entries : {1, 70}) {
          Heads<float> table(1, entries, 1, w), key_table(1, entries, 1, d);
          Heads<float> grad_table(1, entries, 1, w), grad_key_table(1, entries, 1, d);
          for (auto* all : {&table, &key_table, &grad_table, &grad_key_table}) fill(*all, 0);
          const posenc::RelativeBias<float> bias{
              .table = table.view(),
              .index = {.order = posenc::RelativeOrder::QueryMinusKey,
                        .first = 0,
                        .beyond = beyond},
              .scale = posenc::RelativeScale::Scaled,
              .queries = x.view(),
              .key_table = key_table.view()};
          posenc::RelativeGradient<float> gradient{.table = grad_table.view(),
                                                   .key_table = grad_key_table.view(),
                                                   .queries = grad_x.view()};
          run(bias, gradient);
          if (b != 0 && hkv != 0 && h != 0) REQUIRE(all_are(grad_x, 0));
          REQUIRE(all_are(grad_table, 0));
          REQUIRE(all_are(grad_key_table, 0));
        }
      }
    }
  }
}

TEST_CASE("RelativeBias over KvCache: a table has at least one row", "[attention]") {
  Heads<float> q(1, 3, 1, 0), table(1, 0, 1, 0);
  const posenc::RelativeBias<float> bias{.table = {table.view().data, 1, 0, 1, 0},
                                         .index = {.order = posenc::RelativeOrder::QueryMinusKey,
                                                   .first = 0,
                                                   .beyond = posenc::BeyondTable::Nearest},
                                         .scale = posenc::RelativeScale::Scaled};
  REQUIRE_THROWS(posenc::attention<float>(q.view(), q.view(), q.view(), q.view(),
                                          {.causal = Causal::No}, bias));
}

TEST_CASE("MultiHeadAttention over KvCache: the smallest module accepts any number of tokens",
          "[attention]") {
  posenc::MultiHeadAttention<float> module({.model_dim = 1, .heads = 1});
  module.randomize(1);
  module.output_projection.bias.fill(0.5F);
  auto gradients = module.zero_gradients();
  for (Index tokens = 0; tokens <= 64; ++tokens) {
    for (const Index batch : {0, 1, 2}) {
      for (const Index keys : {Index{0}, tokens}) {
        INFO(batch << " rows of " << tokens << " tokens, " << keys << " keys");
        const auto view = [&](std::vector<float>& data, Index count) {
          return EmbeddingsView<float>{data.data(), batch, count, 1};
        };
        const auto size = static_cast<std::size_t>(batch * tokens);
        std::vector<float> x(size + 1, 1), y(size + 1), z(size + 1), other(size + 1, 1);
        const AttentionOptions<float> options{.causal = Causal::No};
        const auto at = Positions::range(0, tokens), keys_at = Positions::range(0, keys);
        module.forward(view(x, tokens), at, view(other, keys), view(other, keys), keys_at,
                       view(y, tokens), options);
        posenc::MultiHeadTape<float> tape;
        module.forward(view(x, tokens), at, view(other, keys), view(other, keys), keys_at,
                       view(z, tokens), tape, options);
        REQUIRE(y == z);
        if (keys == 0) {
          for (std::size_t n = 0; n < size; ++n) REQUIRE(y[n] == 0.5F);
        }
        std::vector<float> grad_keys(size + 1, 7);
        module.backward(tape, view(y, tokens), view(z, tokens), view(grad_keys, keys),
                        EmbeddingsView<float>{}, gradients);
        posenc::MultiHeadTape<float> self;
        module.forward(view(x, tokens), at, view(z, tokens), self, options);
        module.backward(self, view(y, tokens), view(z, tokens), gradients);
        posenc::KvCache<float> cache(
            {.sequences = 2, .kv_heads = 1, .head_dim = 1, .capacity = 64});
        const std::vector<Index> all{0, 1};
        const std::vector<Index> sequences(all.begin(), all.begin() + batch);
        module.forward(view(x, tokens), at, view(z, tokens), options);
        module.forward(view(x, tokens), at, cache, sequences, view(y, tokens), options);
        for (std::size_t n = 0; n < size; ++n) REQUIRE(y[n] == Approx(z[n]));
        REQUIRE(cache.length(0) == (batch == 0 ? 0 : tokens));
      }
    }
  }
}

}  // namespace empty_cache_test
