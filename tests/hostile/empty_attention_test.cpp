// SPDX-License-Identifier: MIT
// Attention, forward and backward, over tensors without elements returns at once, however long
// other axes are. ctest's time limit checks this.
#include "hostile/empty_extents.hpp"
#include "support/catch.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>
#include <posenc/attention/cosine.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/nn/linear.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

#include <array>
#include <limits>
#include <vector>

namespace empty_attention_test {

using empty_extents::for_empty;
using empty_extents::make;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::EmbeddingsView;
using posenc::HeadsView;
using posenc::Index;
using posenc::Positions;

namespace {

constexpr Index huge = Index{1} << 40;

HeadsView<float> heads_of(float* data, const std::array<Index, 4>& n) {
  return {.data = data, .batch = n[0], .seq = n[1], .heads = n[2], .dim = n[3]};
}

/// True if each query has neither elements nor a row in the log-sum-exps.
bool has_no_rows(const std::array<Index, 4>& n) { return n[0] == 0 || n[1] == 0 || n[2] == 0; }

posenc::RelativeBias<float> relative_bias(HeadsView<const float> table, posenc::BeyondTable beyond,
                                          Index first = 0) {
  return {
      .table = table,
      .index = {.order = posenc::RelativeOrder::QueryMinusKey, .first = first, .beyond = beyond},
      .scale = posenc::RelativeScale::Scaled};
}

}  // namespace

TEST_CASE("attention_backward of empty tensors: mask gradients return at once", "[hostile]") {
  float number = 0;
  std::array<float, 3> mask{1, 2, 3}, sums{};
  for_empty<4>({1, 3, 1, 8}, [&](const std::array<Index, 4>& n) {
    if (!has_no_rows(n)) return;
    INFO(n[0] << ", " << n[1] << ", " << n[2] << ", " << n[3]);
    const auto q = heads_of(&number, n), k = heads_of(&number, {n[0], n[1], n[2], n[3]});
    AttentionOptions<float> options{.causal = Causal::No};
    options.additive = {mask.data(), 1, 1, 1, 1};
    const posenc::LseView<float> lse{&number, n[0], n[2], n[1]};
    posenc::AttentionGradients<float> gradients{q, k, k};
    gradients.additive = {sums.data(), 1, 1, 1, 1};
    make([&] { posenc::attention_backward<float>(q, k, k, q, lse, q, gradients, options); });
  });
  REQUIRE(sums == std::array<float, 3>{});
}

TEST_CASE("attention of empty tensors: by position, returns at once", "[hostile]") {
  float number = 0;
  for_empty<4>({1, 3, 1, 8}, [&](const std::array<Index, 4>& n) {
    if (!has_no_rows(n)) return;
    INFO(n[0] << ", " << n[1] << ", " << n[2] << ", " << n[3]);
    const auto q = heads_of(&number, n);
    make([&] {
      AttentionOptions<float> options{.causal = Causal::ByPosition};
      options.query_positions = options.key_positions = Positions::range(0, n[1]);
      posenc::attention<float>(q, q, q, q, options);
    });
    make([&] {
      AttentionOptions<float> options{.causal = Causal::ByPosition};
      options.query_positions = options.key_positions = Positions::ids(n[0], {});
      posenc::attention<float>(q, q, q, q, options);
    });
  });
}

TEST_CASE("attention of empty tensors: any number of keys without channels needs no work",
          "[hostile]") {
  float number = 0;
  std::array<float, 3> lse{};
  const auto q = heads_of(&number, {1, 3, 1, 0}), k = heads_of(&number, {1, huge, 1, 0});
  AttentionOptions<float> options{.causal = Causal::No};
  const auto run = [&] {
    posenc::attention<float>(q, k, k, q, options);
    posenc::attention<float>(k, q, q, k, options);
  };
  run();
  options.causal = Causal::ByPosition;
  options.query_positions = Positions::range(0, 3);
  options.key_positions = Positions::range(0, huge);
  posenc::attention<float>(q, k, k, q, options);
  posenc::attention_backward<float>(q, k, k, q, {lse.data(), 1, 1, 3}, q, {q, k, k}, options);
  const auto rows = heads_of(&number, {huge, 3, 1, 0}), none = heads_of(&number, {huge, 0, 1, 0});
  posenc::attention<float>(rows, none, none, rows, {.causal = Causal::No}, {},
                           {.weights = {&number, huge, 1, 3, 0}});
}

TEST_CASE("RelativeBias of empty tensors: returns at once", "[hostile]") {
  float number = 0;
  std::array<float, 40> rows{};
  for_empty<4>({1, 3, 1, 8}, [&](const std::array<Index, 4>& n) {
    if (!has_no_rows(n)) return;
    INFO(n[0] << ", " << n[1] << ", " << n[2] << ", " << n[3]);
    const auto q = heads_of(&number, n);
    AttentionOptions<float> options{.causal = Causal::BottomRight};
    const posenc::LseView<float> lse{&number, n[0], n[2], n[1]};
    for (const auto beyond : {posenc::BeyondTable::Refused, posenc::BeyondTable::Nearest}) {
      const auto table = heads_of(rows.data(), {1, 5, 1, n[3] > 8 ? 0 : n[3]});
      const auto bias = relative_bias(table, beyond);
      posenc::RelativeGradient<float> gradient{.table = table};
      make([&] { posenc::attention<float>(q, q, q, q, options, bias, {.lse = lse}); });
      make([&] {
        posenc::attention_backward<float>(q, q, q, q, lse, q, {q, q, q}, options, bias, gradient);
      });
    }
  });
}

TEST_CASE("RelativeBias of empty tensors: tables without channels may have any number of rows",
          "[hostile]") {
  std::array<float, 3> numbers{}, lse{};
  const auto q = heads_of(numbers.data(), {1, 3, 1, 0});
  for (const Index rows : {Index{1} << 31, Index{1} << 40, Index{1} << 62, ~(Index{1} << 63)}) {
    for (const Index first : {-(Index{1} << 52), Index{0}, Index{1} << 52}) {
      for (const auto order :
           {posenc::RelativeOrder::KeyMinusQuery, posenc::RelativeOrder::QueryMinusKey}) {
        const auto table = heads_of(numbers.data(), {1, rows, 1, 0});
        auto bias = relative_bias(table, posenc::BeyondTable::Nearest, first);
        bias.index.order = order;
        AttentionOptions<float> options{.causal = Causal::No};
        const posenc::LseView<float> lse_rows{lse.data(), 1, 1, 3};
        // Spread positions, so that many columns lie between them.
        options.query_positions = Positions::ids({0, 1, 2});
        options.key_positions = Positions::ids({-huge, 0, huge});
        make([&] { posenc::attention<float>(q, q, q, q, options, bias, {.lse = lse_rows}); });
        posenc::RelativeGradient<float> gradient{.table = table};
        make([&] {
          posenc::attention_backward<float>(q, q, q, q, lse_rows, q, {q, q, q}, options, bias,
                                            gradient);
        });
      }
    }
  }
}

TEST_CASE("RelativeBias of empty tensors: keys without channels are not searched", "[hostile]") {
  float number = 0;
  const auto q = heads_of(&number, {1, 3, 1, 0}), k = heads_of(&number, {1, huge, 1, 0});
  const auto table = heads_of(&number, {1, 5, 1, 0});
  const auto bias = relative_bias(table, posenc::BeyondTable::Refused);
  AttentionOptions<float> options{.causal = Causal::BottomRight};
  make([&] { posenc::attention<float>(q, k, k, q, options, bias); });
  make([&] { posenc::attention<float>(k, q, q, k, options, bias); });
}

TEST_CASE("Linear of empty tensors: projections of no tokens return at once", "[hostile]") {
  float number = 0;
  for_empty<2>({1, 3}, [&](const std::array<Index, 2>& n) {
    for (const Index in : {0, 4}) {
      for (const Index out : {0, 4}) {
        INFO(n[0] << ", " << n[1] << ", " << in << " to " << out);
        const auto run = [&]<class Layer>(Layer layer) {
          const EmbeddingsView<float> x{&number, n[0], n[1], in}, y{&number, n[0], n[1], out};
          posenc::LinearParameters<float> gradient(in, out, true);
          make([&] { layer.apply(x, y); });
          make([&] { layer.backward(x, y, x, gradient); });
        };
        run(posenc::Linear<float>(in, out, true));
        run(posenc::FixedOrderLinear<float>(in, out, true));
      }
    }
  });
}

TEST_CASE("Linear of empty tensors: layers without channels accept any number of tokens",
          "[hostile]") {
  float number = 0;
  for (const Index batch : {Index{1}, Index{1} << 31, huge, Index{1} << 62}) {
    for (const Index seq : {Index{1}, Index{1} << 31, huge, Index{1} << 62}) {
      for (const Index stride : {Index{0}, huge, std::numeric_limits<Index>::max() / 2}) {
        INFO(batch << ", " << seq << ", stride " << stride);
        const EmbeddingsView<float> x{
            stride > huge ? nullptr : &number, batch, seq, 0, seq == 1 ? 0 : stride, stride};
        const posenc::Linear<float> layer(0, 0, true);
        posenc::LinearParameters<float> gradient(0, 0, true);
        make([&] { layer.apply(x, x); });
        make([&] { layer.backward(x, x, x, gradient); });
        make([&] { posenc::FixedOrderLinear<float>(0, 0, true).apply(x, x); });
      }
    }
  }
}

TEST_CASE("Linear of empty tensors: inputs or outputs without channels accept any strides",
          "[hostile]") {
  std::vector<float> numbers(60, 0.5F), out(60);
  const EmbeddingsView<float> x{numbers.data(), 2, 6, 5}, y{out.data(), 2, 6, 5};
  for (const Index stride : {Index{32}, Index{-7}, std::numeric_limits<Index>::max() / 2}) {
    const EmbeddingsView<float> none{nullptr, 2, 6, 0, stride, stride};
    const auto run = [&](auto from_none, auto to_none) {
      auto gradient = from_none.zero_gradient();
      from_none.apply(none, y);
      from_none.backward(none, x, none, gradient);
      CHECK(gradient.bias(4) == 6);
      auto other = to_none.zero_gradient();
      to_none.apply(x, none);
      to_none.backward(x, none, y, other);
      CHECK(out[59] == 0);
    };
    run(posenc::Linear<float>(0, 5, true), posenc::Linear<float>(5, 0, true));
    run(posenc::FixedOrderLinear<float>(0, 5, true), posenc::FixedOrderLinear<float>(5, 0, true));
  }
}

TEST_CASE("MultiHeadAttention of empty tensors: empty batches return at once", "[hostile]") {
  float number = 0;
  const auto run = [&](const auto& module) {
    auto gradients = module.zero_gradients();
    for_empty<2>({1, 3}, [&](const std::array<Index, 2>& n) {
      for (const auto causal : {Causal::BottomRight, Causal::ByPosition}) {
        INFO(n[0] << ", " << n[1]);
        const EmbeddingsView<float> x{&number, n[0], n[1], 8};
        const AttentionOptions<float> options{.causal = causal};
        posenc::MultiHeadTape<float> tape;
        make([&] { module.forward(x, Positions::range(0, n[1]), x, options); });
        make([&] {
          const Positions at = Positions::range(0, n[1]);
          module.forward(x, at, x, x, at, x, options);
        });
        make([&] {
          const Positions at = Positions::range(0, n[1]);
          module.forward(x, at, x, x, at, x, tape, options);
          module.backward(tape, x, x, x, x, gradients);
        });
        make([&] {
          module.forward(x, Positions::range(0, n[1]), x, tape, options,
                         {.lse = {&number, n[0], 2, n[1]}});
          module.backward(tape, x, x, gradients);
        });
      }
    });
  };
  using Rope = posenc::Rope<posenc::HalfRotate>;
  using Linear = posenc::FixedOrderLinear<float>;
  run(posenc::MultiHeadAttention<float>({.model_dim = 8, .heads = 2}));
  run(posenc::MultiHeadAttention<float>({.model_dim = 8,
                                         .heads = 2,
                                         .qk_norm = {.over = posenc::QkNormOver::Head,
                                                     .weight = posenc::QkNormWeight::Factor,
                                                     .epsilon = 1e-6}}));
  run(posenc::MultiHeadAttention<float, Rope, posenc::Alibi, Linear>(
      {.model_dim = 8, .heads = 2}, Rope(posenc::Unscaled{.rotary_dim = 4, .base = 10000}),
      posenc::Alibi({.heads = 2, .form = posenc::AlibiForm::Symmetric})));
}

TEST_CASE("KvCache of empty tensors: returns at once", "[hostile]") {
  float number = 0;
  const posenc::MultiHeadAttention<float> module({.model_dim = 8, .heads = 1});
  for (const Index window : {0, 16}) {
    posenc::KvCache<float> cache({.sequences = 2,
                                  .kv_heads = 1,
                                  .head_dim = 8,
                                  .capacity = window == 0 ? 100 : 0,
                                  .window = window});
    const std::vector<Index> none, one{0}, offset{0}, offsets{0, 0};
    for_empty<4>({1, 3, 1, 8}, [&](const std::array<Index, 4>& n) {
      INFO(n[0] << ", " << n[1] << ", " << n[2] << ", " << n[3]);
      const auto x = heads_of(&number, n);
      for (const auto& named : {none, one}) {
        make([&] { cache.append(named, x, x); });
        make([&] { cache.append(named, named.empty() ? offset : offsets, x, x); });
        for (const auto causal : {Causal::BottomRight, Causal::ByPosition, Causal::TopLeft}) {
          AttentionOptions<float> options{.causal = causal};
          make([&] {
            options.key_positions = Positions::range(0, 0);
            options.query_positions = Positions::range(0, n[1]);
            posenc::attention<float>(x, cache, named, x, options);
          });
          options.key_positions.reset();
          options.query_positions.reset();
          make([&] { posenc::attention<float>(x, cache, named, x, options); });
          options.cu_seqlens_q = named.empty() ? offset : offsets;
          make([&] { posenc::attention<float>(x, cache, named, x, options); });
        }
      }
      make([&] { cache.copy_keys(0, 0, x, x); });
      for (const Index first : {Index{0}, huge, Index{1} << 52, Index{1} << 62}) {
        make([&] { cache.restore(0, first, x, x); });
        make([&] { cache.copy(0, 1); });
        make([&] { cache.update_keys(0, [](auto&&...) {}); });
        make([&] { cache.erase(0, first, 0, [](auto&&...) {}); });
        make([&] { cache.truncate(0, first); });
      }
      cache.clear(0);
    });
    for_empty<2>({1, 3}, [&](const std::array<Index, 2>& n) {
      const EmbeddingsView<float> x{&number, n[0], n[1], 8};
      for (const auto& named : {none, one}) {
        AttentionOptions<float> options{.causal = Causal::BottomRight};
        make([&] { module.forward(x, Positions::range(0, n[1]), cache, named, x, options); });
        options.cu_seqlens_q = named.empty() ? offset : offsets;
        make([&] { module.forward(x, Positions::range(0, n[1]), cache, named, x, options); });
      }
    });
  }
}

TEST_CASE("add_to and qk_norm of empty tensors: heads are normalised, and biases added, at once",
          "[hostile]") {
  float number = 0;
  std::array<float, 24> sums{};
  const std::array<double, 1> logits{1.0};
  for_empty<4>({1, 3, 1, 8}, [&](const std::array<Index, 4>& n) {
    INFO(n[0] << ", " << n[1] << ", " << n[2] << ", " << n[3]);
    const auto x = heads_of(&number, n);
    // A bias has neither batch nor tokens, so it may have numbers although x has none.
    const bool fits = n[2] <= 1 && n[3] <= 8;
    const auto bias =
        heads_of(sums.data(), {1, 1, n[2], n[2] == 0 || n[3] == 0 || fits ? n[3] : 0});
    make([&] { posenc::cosine_queries(x, logits); });
    make([&] { posenc::cosine_queries_backward<float>(x, logits, x); });
    make([&] { posenc::cosine_keys(x); });
    make([&] { posenc::cosine_keys_backward<float>(x, x); });
    make([&] { posenc::add_to_heads<float>(x, bias, x); });
    make([&] { posenc::add_heads_gradient<float>(x, bias); });
  });
}

}  // namespace empty_attention_test
