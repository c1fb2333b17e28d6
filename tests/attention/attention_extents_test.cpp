// SPDX-License-Identifier: MIT
// Tests that impossible extents, counts and settings are rejected before any arithmetic with them.
#include "support/catch.hpp"
#include <posenc/attention/merge.hpp>
#include <posenc/attention/workspace.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/nn/linear.hpp>
#include <posenc/nn/multi_head_attention.hpp>

#include <array>
#include <limits>
#include <string>
#include <vector>

namespace attention_extents_test {

using posenc::AttentionOptions;
using posenc::Causal;
using posenc::ConfigError;
using posenc::EmbeddingsView;
using posenc::HeadsView;
using posenc::Index;
using posenc::KvCache;
using posenc::LseView;
using posenc::MultiHeadAttention;
using posenc::MultiHeadAttentionConfig;
using posenc::Positions;
using posenc::ScoresView;
using posenc::ShapeError;

namespace {

constexpr Index most = std::numeric_limits<Index>::max(), least = std::numeric_limits<Index>::min();
constexpr std::array<Index, 9> negative{
    -1, -2, -100, -128, -(Index{1} << 32), -(Index{1} << 62), -most, least + 1, least};
constexpr std::array<Index, 6> huge{Index{1} << 56, Index{1} << 61, most / 2,
                                    most / 2 + 1,   most - 1,       most};

std::vector<float>& numbers() {
  static std::vector<float> all(4096, 1.0F);
  return all;
}

HeadsView<float> heads_view(std::array<Index, 4> extents) {
  return {numbers().data(), extents[0], extents[1], extents[2], extents[3], 64, 16, 8};
}

template <class Call>
bool refused(const Call& call) {
  const std::vector<float> before = numbers();
  bool threw = false;
  try {
    call();
  } catch (const ShapeError&) {
    threw = true;
  } catch (const ConfigError&) {
    threw = true;
  }
  return threw && numbers() == before;
}

/// Calls with(extent, value) for each extent and each value that it must not have.
template <class Try>
void for_each_bad(std::size_t extents, const Try& with) {
  for (std::size_t n = 0; n < extents; ++n) {
    for (const Index value : negative) with(n, value);
    for (const Index value : huge) with(n, value);
  }
}

}  // namespace

TEST_CASE("attention: rejects invalid extents", "[attention][errors][extents]") {
  using Extents = std::array<Index, 4>;
  const std::array<Extents, 4> good{Extents{1, 2, 2, 4}, Extents{1, 3, 1, 4}, Extents{1, 3, 1, 5},
                                    Extents{1, 2, 2, 5}};
  const auto call = [](const std::array<Extents, 4>& e) {
    posenc::attention<float>(heads_view(e[0]), heads_view(e[1]), heads_view(e[2]), heads_view(e[3]),
                             {.causal = Causal::No});
  };
  REQUIRE_NOTHROW(call(good));
  for (std::size_t view = 0; view < 4; ++view) {
    for_each_bad(4, [&](std::size_t n, Index value) {
      INFO("view " << view << ", extent " << n << ": " << value);
      auto bad = good;
      bad[view][n] = value;
      CHECK(refused([&] { call(bad); }));
    });
  }
  // Extents that agree with each other, but are invalid.
  for (const Index value : negative) {
    INFO(value);
    CHECK(refused([&] {
      call({{{value, 2, 2, 4}, {value, 3, 1, 4}, {value, 3, 1, 5}, {value, 2, 2, 5}}});
    }));
    CHECK(refused([&] {
      call({{{1, value, 2, 4}, {1, 3, 1, 4}, {1, 3, 1, 5}, {1, value, 2, 5}}});
    }));
    CHECK(refused([&] {
      call({{{1, 2, value, 4}, {1, 3, value, 4}, {1, 3, value, 5}, {1, 2, value, 5}}});
    }));
    CHECK(refused([&] {
      call({{{1, 2, 2, value}, {1, 3, 1, value}, {1, 3, 1, 5}, {1, 2, 2, 5}}});
    }));
    CHECK(refused([&] {
      call({{{1, 2, 2, 4}, {1, value, 1, 4}, {1, value, 1, 5}, {1, 2, 2, 5}}});
    }));
    CHECK(refused([&] {
      call({{{1, 2, 2, 4}, {1, 3, 1, 4}, {1, 3, 1, value}, {1, 2, 2, value}}});
    }));
    CHECK(refused([&] {
      call({{{0, value, 2, 4}, {0, 3, 1, 4}, {0, 3, 1, 5}, {0, value, 2, 5}}});
    }));
  }
  // The number of rows must be representable even if rows are empty.
  constexpr Index many = Index{1} << 32;
  CHECK(refused([&] {
    call({{{many, many, 1, 0}, {many, 0, 1, 0}, {many, 0, 1, 0}, {many, many, 1, 0}}});
  }));
  CHECK_NOTHROW(
      call({{{1, many, many / 4, 0}, {1, 1, 1, 0}, {1, 1, 1, 0}, {1, many, many / 4, 0}}}));
}

// With a sanitizer this test also detects addresses that are computed from such a stride.
TEST_CASE("attention: the stride of an axis with one element is free", "[attention][extents]") {
  const std::vector<float> token{1, 2, 3, 4};
  for (const Index stride : {Index{1} << 62, -(Index{1} << 62), most, least}) {
    const HeadsView<const float> one{token.data(), 1, 1, 1, 4, stride, stride, stride};
    for (const Index queries : {1, 5, 20}) {
      CAPTURE(stride, queries);
      const std::vector<float> q(static_cast<std::size_t>(4 * queries), 1.0F);
      std::vector<float> out(q.size());
      posenc::attention<float>({q.data(), 1, queries, 1, 4, stride, 4, stride}, one, one,
                               {out.data(), 1, queries, 1, 4, stride, 4, stride},
                               {.causal = Causal::No});
      for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == token[i % 4]);
    }
    KvCache<float> cache({.sequences = 1, .kv_heads = 1, .head_dim = 4, .capacity = 32});
    for (int i = 0; i < 20; ++i) cache.append(0, one, one);
    std::vector<float> out(4);
    posenc::attention<float>(one, cache, {0}, {out.data(), 1, 1, 1, 4, stride, stride, stride},
                             {.causal = Causal::No});
    CHECK(out == token);
  }
}

TEST_CASE("attention: rejects invalid extents of masks, weights and lengths",
          "[attention][errors][extents]") {
  const auto call = [](const AttentionOptions<float>& options,
                       const posenc::AttentionMemory<float>& memory = {}) {
    posenc::attention<float>(heads_view({1, 2, 2, 4}), heads_view({1, 3, 1, 4}),
                             heads_view({1, 3, 1, 4}), heads_view({1, 2, 2, 4}), options, {},
                             memory);
  };
  static const bool flags[64]{};
  std::vector<float> results(64, 7.0F);
  const auto kept = [&] { return results == std::vector<float>(64, 7.0F); };
  for_each_bad(4, [&](std::size_t n, Index value) {
    INFO("extent " << n << ": " << value);
    std::array<Index, 4> e{1, 2, 2, 3};
    e[n] = value;
    const auto view_of = [&](auto* data) {
      return ScoresView<std::remove_pointer_t<decltype(data)>>{data, e[0], e[1], e[2], e[3],
                                                               12,   6,    3,    1};
    };
    CHECK(refused([&] { call({.causal = Causal::No, .keep = view_of(flags)}); }));
    CHECK(refused([&] { call({.causal = Causal::No, .masked = view_of(flags)}); }));
    CHECK(refused([&] { call({.causal = Causal::No, .additive = view_of(results.data())}); }));
    CHECK(refused([&] { call({.causal = Causal::No}, {.weights = view_of(results.data())}); }));
    if (n < 3) {
      std::array<Index, 3> rows{1, 2, 2};
      rows[n] = value;
      CHECK(refused([&] {
        call({.causal = Causal::No}, {.lse = {results.data(), rows[0], rows[1], rows[2], 4, 2, 1}});
      }));
    }
  });
  const auto bad = [&](Index value) {
    INFO(value);
    const std::vector<Index> one{value}, from{0, value, 2}, of_keys{0, value, 3}, to{0, value};
    CHECK(refused([&] { call({.causal = Causal::No, .key_lengths = one}); }));
    CHECK(refused(
        [&] { call({.causal = Causal::No, .cu_seqlens_q = from, .cu_seqlens_k = of_keys}); }));
    CHECK(refused([&] { call({.causal = Causal::No, .cu_seqlens_q = to, .cu_seqlens_k = to}); }));
  };
  for (const Index value : negative) bad(value);
  for (const Index value : huge) bad(value);
  for (const Index value : {most, most - 1, Index{1} << 54, -(Index{1} << 54), least, least + 1}) {
    const std::vector<Index> one{value};
    CHECK_THROWS_AS(call({.causal = Causal::FromStart, .query_starts = one}),
                    posenc::PositionError);
  }
  for (const Index value : {Index{-2}, least, least + 1}) {
    CHECK(refused([&] { call({.causal = Causal::No, .window = {.left = value}}); }));
    CHECK(refused([&] { call({.causal = Causal::BottomRight, .window = {.right = value}}); }));
  }
  CHECK(kept());
  // A mask with elements but without memory is an error, not an omitted mask.
  CHECK(refused([&] { call({.causal = Causal::No, .keep = {nullptr, 1, 1, 2, 3, 6, 6, 3, 1}}); }));
  // Windows of any width are valid, whatever key the queries are aligned with.
  for (const Index wide : {most, most - 1}) {
    for (const Index start : {Index{1} << 53, -(Index{1} << 53), Index{0}}) {
      const std::vector<Index> one{start};
      CHECK_NOTHROW(call({.causal = Causal::FromStart,
                          .window = {.left = wide, .right = wide},
                          .query_starts = one}));
      CHECK_NOTHROW(call(
          {.causal = Causal::No, .window = {.left = wide, .right = wide}, .query_starts = one}));
    }
  }
}

TEST_CASE("KvCache: rejects invalid extents", "[attention][cache][errors][extents]") {
  for (const bool is_ring : {false, true}) {
    KvCache<float> cache({.sequences = 2,
                          .kv_heads = 1,
                          .head_dim = 4,
                          .capacity = is_ring ? 0 : 128,
                          .window = is_ring ? 16 : 0,
                          .max_append = 8});
    cache.append(0, heads_view({1, 3, 1, 4}), heads_view({1, 3, 1, 4}));
    const std::vector<Index> rows{0};
    const auto q = heads_view({1, 2, 1, 4});
    for_each_bad(4, [&](std::size_t n, Index value) {
      INFO((is_ring ? "ring" : "no ring") << ", extent " << n << ": " << value);
      std::array<Index, 4> e{1, 2, 1, 4};
      e[n] = value;
      const auto x = heads_view(e), good = heads_view({1, 2, 1, 4});
      CHECK(refused([&] { cache.append(0, x, x); }));
      CHECK(refused([&] { cache.append(0, x, good); }));
      CHECK(refused([&] { cache.append(0, good, x); }));
      CHECK(refused([&] { cache.restore(0, 0, x, x); }));
      CHECK(refused([&] { cache.restore(0, 0, good, x); }));
      CHECK(refused([&] { cache.copy_keys(0, 0, x, x); }));
      CHECK(refused([&] { cache.copy_keys(0, 0, good, x); }));
      CHECK(refused(
          [&] { posenc::attention<float>(x, cache, rows, x, {.causal = Causal::BottomRight}); }));
      CHECK(refused(
          [&] { posenc::attention<float>(q, cache, rows, x, {.causal = Causal::BottomRight}); }));
      CHECK(cache.length(0) == 3);
      CHECK(cache.length(1) == 0);
    });
    const auto bad = [&](Index value) {
      INFO(value);
      const std::vector<Index> sequence{value};
      CHECK(refused([&] { (void)cache.length(value); }));
      CHECK(refused([&] { cache.truncate(0, value); }));
      CHECK(refused([&] { cache.truncate(value, 0); }));
      CHECK(refused([&] { cache.erase(0, value, 1, [](auto) {}); }));
      CHECK(refused([&] { cache.erase(0, 1, value, [](auto) {}); }));
      CHECK(refused([&] { cache.copy(0, value); }));
      CHECK(refused([&] { cache.copy_keys(0, value, q, q); }));
      CHECK(refused([&] { cache.restore(value, 0, q, q); }));
      CHECK(refused([&] { cache.restore(0, value, q, q); }));
      CHECK(refused([&] {
        posenc::attention<float>(q, cache, sequence, heads_view({1, 2, 1, 4}),
                                 {.causal = Causal::BottomRight});
      }));
      CHECK(refused([&] {
        KvCache<float>({.sequences = value, .kv_heads = 1, .head_dim = 4, .capacity = 4});
      }));
      CHECK(refused([&] { KvCache<float>({.kv_heads = value, .head_dim = 4, .capacity = 4}); }));
      CHECK(refused([&] { KvCache<float>({.kv_heads = 1, .head_dim = value, .capacity = 4}); }));
      CHECK(refused([&] {
        KvCache<float>({.kv_heads = 1, .head_dim = 4, .value_dim = value, .capacity = 4});
      }));
      CHECK(refused([&] { KvCache<float>({.kv_heads = 1, .head_dim = 4, .capacity = value}); }));
      CHECK(refused([&] { KvCache<float>({.kv_heads = 1, .head_dim = 4, .window = value}); }));
      CHECK(refused([&] {
        KvCache<float>({.kv_heads = 1, .head_dim = 4, .window = 4, .max_append = value});
      }));
    };
    for (const Index value : negative) bad(value);
    for (const Index value : huge) bad(value);
    CHECK(cache.length(0) == 3);
  }
}

TEST_CASE("merge: rejects invalid extents", "[attention][merge][errors][extents]") {
  std::vector<float> lse(16, 1.0F);
  for_each_bad(3, [&](std::size_t n, Index value) {
    INFO("extent " << n << ": " << value);
    std::array<Index, 4> e{1, 2, 2, 4};
    e[n] = value;
    const auto x = heads_view(e);
    const LseView<float> rows{lse.data(), e[0], e[2], e[1], 4, 2, 1};
    CHECK(refused([&] { posenc::merge<float>(x, rows, x, rows); }));
  });
  CHECK(refused([&] {
    const auto x = heads_view({1, 2, 2, -4});
    const LseView<float> rows{lse.data(), 1, 2, 2, 4, 2, 1};
    posenc::merge<float>(x, rows, x, rows);
  }));
}

TEST_CASE("Linear and MultiHeadAttention: reject dimensions beyond memory",
          "[mha][errors][extents]") {
  const auto bad = [&](Index value) {
    INFO(value);
    CHECK(refused([&] { posenc::Linear<float>(value, 4, true); }));
    CHECK(refused([&] { posenc::Linear<float>(4, value, true); }));
    CHECK(refused([&] { posenc::FixedOrderLinear<float>(value, value, false); }));
    for (const MultiHeadAttentionConfig& config :
         {MultiHeadAttentionConfig{.model_dim = value, .heads = 1},
          MultiHeadAttentionConfig{.model_dim = 4, .heads = value, .head_dim = 4},
          MultiHeadAttentionConfig{.model_dim = 4, .heads = 1, .kv_heads = value},
          MultiHeadAttentionConfig{.model_dim = 4, .heads = 1, .head_dim = value},
          MultiHeadAttentionConfig{.model_dim = 4, .heads = 1, .value_dim = value},
          MultiHeadAttentionConfig{.model_dim = 4, .heads = 1, .key_input_dim = value},
          MultiHeadAttentionConfig{.model_dim = 4, .heads = 1, .value_input_dim = value}}) {
      CHECK_THROWS_AS(MultiHeadAttention<float>(config), ConfigError);
    }
    CHECK(refused([&] { (void)posenc::sliding_window(value < 0 ? value : 0); }));
  };
  for (const Index value : negative) bad(value);
  for (const Index value : huge) bad(value);
  constexpr Index wide = Index{1} << 32;
  CHECK_THROWS_WITH(MultiHeadAttention<float>({.model_dim = 4, .heads = wide, .head_dim = wide}),
                    "posenc::MultiHeadAttention: the query projection of 4 times 4294967296 times "
                    "4294967296 values must fit into memory");
  CHECK_THROWS_AS(
      MultiHeadAttention<float>({.model_dim = wide, .heads = 1 << 16, .head_dim = 1 << 16}),
      ConfigError);

  const posenc::Linear<float> linear(4, 6, true);
  const posenc::FixedOrderLinear<float> fixed(4, 6, true);
  const MultiHeadAttention<float> module({.model_dim = 4, .heads = 2});
  const auto view = [](std::array<Index, 3> e) {
    return EmbeddingsView<float>{numbers().data(), e[0], e[1], e[2], 64, 8};
  };
  for_each_bad(2, [&](std::size_t n, Index value) {
    INFO("extent " << n << ": " << value);
    std::array<Index, 3> of_x{1, 2, 4}, of_out{1, 2, 6};
    of_x[n] = of_out[n] = value;
    CHECK(refused([&] { linear.apply(view(of_x), view(of_out)); }));
    CHECK(refused([&] { fixed.apply(view(of_x), view(of_out)); }));
    CHECK(refused([&] {
      module.forward(view(of_x), Positions::range(0, 2), view(of_x), {.causal = Causal::No});
    }));
    CHECK(refused([&] {
      const auto x = view({1, 2, 4});
      module.forward(x, Positions::range(0, 2), view(of_x), view(of_x), Positions::range(0, 2), x,
                     {.causal = Causal::No});
    }));
  });
}

TEST_CASE("ScratchArenas: reject negative and endless sizes", "[attention][errors][extents]") {
  posenc::detail::ScratchArenas workspace;
  CHECK_THROWS_AS(workspace.reserve(-1, 64), ShapeError);
  CHECK_THROWS_AS(workspace.reserve(least, 64), ShapeError);
  constexpr auto all = static_cast<std::size_t>(-1);
  for (const std::size_t bytes : {all, all / 2, all - 63}) {
    CHECK_THROWS_AS(workspace.reserve(1, bytes), std::bad_alloc);
    CHECK_THROWS_AS(workspace.reserve(1, 64, bytes), std::bad_alloc);
  }
  CHECK_THROWS_AS(workspace.reserve(most, 64), std::bad_alloc);
  CHECK(workspace.bytes() == 0);
  CHECK_NOTHROW(workspace.reserve(2, 64));
}

}  // namespace attention_extents_test
