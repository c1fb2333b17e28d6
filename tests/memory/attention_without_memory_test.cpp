// SPDX-License-Identifier: MIT
// Attention, linear layers and module without memory: outputs, caches and gradients are unchanged or complete.
#include "memory/cache_session.hpp"
#include "memory/watched_device.hpp"
#include "memory/without_memory.hpp"
#include "support/catch.hpp"
#include <posenc/attention/merge.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace attention_without_memory_test {

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
using memory_test::WatchedDevice;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::Index;
using posenc::Positions;

namespace {

constexpr Index batch = 2, queries = 7, keys = 300;

/// Checks that a failed forward pass leaves no tape, and that a failed backward pass has added the
/// gradient of each projection completely or not at all.
template <class Module>
void check_training(const std::string& name, const Module& module, Index seq) {
  const Index model_dim = module.config().model_dim;
  const auto x = numbers(batch * seq * model_dim, 1);
  std::vector<float> y = x;
  const auto in = tokens_view(x.data(), batch, seq, model_dim);
  const auto out = tokens_view(y.data(), batch, seq, model_dim);
  posenc::MultiHeadTape<float> tape;
  auto want = module.zero_gradients();
  const auto forward = [&](posenc::MultiHeadTape<float>& into) {
    module.forward(in, Positions::range(0, seq), out, into, {.causal = Causal::BottomRight});
  };
  forward(tape);
  module.backward(tape, in, out, want);
  const auto fails = [&](long allocation, const auto& call) {
    failing_memory::arm(allocation);
    bool threw = false;
    try {
      call();
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    (void)failing_memory::disarm();
    return threw;
  };
  long n = 0;
  for (bool failed = true; failed; ++n) {
    INFO(name << ", with a tape, allocation " << n << " fails");
    posenc::MultiHeadTape<float> other;
    failed = fails(n, [&] { forward(other); });
    REQUIRE(other.holds_pass() != failed);
  }
  CHECK(n > 3);
  n = 0;
  for (bool failed = true; failed; ++n) {
    INFO(name << ", backward, allocation " << n << " fails");
    const auto zeros = module.zero_gradients();
    auto gradients = zeros;
    failed = fails(n, [&] { module.backward(tape, in, out, gradients); });
    const auto is_whole = [&](auto projection) {
      const auto& weight = (gradients.*projection).weight;
      return weight == (want.*projection).weight ||
             (failed && weight == (zeros.*projection).weight);
    };
    using Gradients = decltype(gradients);
    REQUIRE((failed || gradients.bias == want.bias));
    for (const auto projection : {&Gradients::query_projection, &Gradients::key_projection,
                                  &Gradients::value_projection, &Gradients::output_projection}) {
      REQUIRE(is_whole(projection));
    }
  }
  CHECK(n > 3);
}

template <class Projection>
void check_module(const std::string& name, Index model_dim, Index seq) {
  using Rope = posenc::Rope<posenc::HalfRotate>;
  posenc::MultiHeadAttention<float, Rope, posenc::Alibi, Projection> module(
      {.model_dim = model_dim,
       .heads = heads,
       .kv_heads = kv_heads,
       .head_dim = dim,
       .qk_norm = {.over = posenc::QkNormOver::AllHeads,
                   .weight = posenc::QkNormWeight::Factor,
                   .epsilon = 1e-6}},
      Rope(posenc::Unscaled{.rotary_dim = dim, .base = 10000}),
      posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Causal}));
  module.randomize(1);
  const auto x = numbers(batch * seq * model_dim, 1), nothing = numbers(batch * seq * model_dim, 2);
  const auto in = tokens_view(x.data(), batch, seq, model_dim);
  const auto view = [&](std::vector<float>& out) {
    return tokens_view(out.data(), batch, seq, model_dim);
  };
  const auto state = [](const std::vector<float>& out) { return out; };
  const auto positions = Positions::range(0, seq);
  CHECK(check_calls(
            name + ", self attention", nothing,
            [&](std::vector<float>& out) {
              module.forward(in, positions, view(out), {.causal = Causal::BottomRight});
            },
            state) > 0);
  CHECK(check_calls(
            name + ", cross attention", nothing,
            [&](std::vector<float>& out) {
              module.forward(in, positions, in, in, positions, view(out), {.causal = Causal::No});
            },
            state) > 0);

  check_training(name, module, std::min(seq, Index{8}));

  // One token and many; a ring that evicts a tile, no tile, or is empty; sequences of two lengths.
  for (const auto& [config, length] :
       {std::pair{plain, Index{0}}, std::pair{plain, Index{127}}, std::pair{ring, Index{383}},
        std::pair{ring, Index{300}}, std::pair{ring, Index{0}}}) {
    const Session<float> session{filled<float>(config, length, 50), nothing};
    const auto at = Positions::starts({length, length + 1}, seq);
    const std::vector<Index> rows{0, 1};
    const auto window = config.window == 0 ? posenc::Window{} : posenc::sliding_window(100);
    CHECK(check_calls(
              name + ", cached, from " + std::to_string(length) +
                  (config.window == 0 ? "" : " in a ring"),
              session,
              [&](Session<float>& s) {
                module.forward(in, at, s.cache, rows, view(s.out),
                               {.causal = Causal::BottomRight, .window = window});
              },
              state_of<float>) > 0);
  }
}

}  // namespace

TEST_CASE("attention without memory: writes nothing", "[memory][attention]") {
  const auto q = numbers(batch * queries * heads * dim, 1);
  const auto k = numbers(batch * keys * kv_heads * dim, 2);
  const auto table = numbers(32 * heads, 4);
  const posenc::T5Bias<float> t5(posenc::MatrixView<const float>{table.data(), 32, heads, heads},
                                 {.direction = posenc::T5Direction::Causal});
  const posenc::Alibi alibi({.heads = heads, .form = posenc::AlibiForm::Causal});
  const auto in = heads_view(q.data(), batch, queries, heads, dim);
  const auto kv = heads_view(k.data(), batch, keys, kv_heads, dim);
  const std::vector<posenc::Bfloat16> narrow(k.begin(), k.end());
  const posenc::HeadsView<const posenc::Bfloat16> narrow_kv{narrow.data(), batch, keys, kv_heads,
                                                            dim};
  bool across_types = false;
  constexpr Index rows = batch * heads * queries;
  const std::vector<float> nothing(static_cast<std::size_t>(rows * dim + rows + rows * keys), 7.0F);
  const std::vector<Index> lengths{200, 300};
  const std::vector<float> sinks(heads, 0.5F), additive(keys, 0.25F);
  const bool mask[keys] = {true, false, true};
  const Eigen::ThreadPoolDevice* pool = nullptr;
  Eigen::ThreadPool threads(3);
  const Eigen::ThreadPoolDevice device(&threads, 3);
  pool = &device;

  const auto check = [&]<class Bias = posenc::NoBias>(
      const std::string& name, const AttentionOptions<float>& options, const Bias& bias = {}) {
    const auto call = [&](std::vector<float>& out, const auto&... on) {
      posenc::AttentionMemory<float> memory;
      memory.lse = {out.data() + rows * dim, batch, heads, queries, heads * queries, queries, 1};
      memory.weights = {out.data() + rows * dim + rows, batch,          heads, queries, keys,
                        heads * queries * keys,         queries * keys, keys,  1};
      const auto to = heads_view(out.data(), batch, queries, heads, dim);
      if (across_types) {
        posenc::attention(in, narrow_kv, narrow_kv, to, options, bias, memory, on...);
      } else {
        posenc::attention(in, kv, kv, to, options, bias, memory, on...);
      }
    };
    CHECK(check_calls(name, nothing, [&](std::vector<float>& out) { call(out); }) > 0);
    CHECK(check_calls(name + " on a pool", nothing,
                      [&](std::vector<float>& out) { call(out, WatchedDevice{*pool}); }) > 0);
  };
  check("causal", {.causal = Causal::BottomRight});
  check("ALiBi", {.causal = Causal::TopLeft}, alibi);
  across_types = true;
  check("keys of another type", {.causal = Causal::BottomRight});
  across_types = false;
  posenc::RelativeBias<float> relative;
  relative.table = {.data = table.data(), .batch = 1, .seq = 4, .heads = heads, .dim = dim};
  relative.index = {.order = posenc::RelativeOrder::QueryMinusKey,
                    .first = 0,
                    .beyond = posenc::BeyondTable::Nearest};
  relative.scale = posenc::RelativeScale::Scaled;
  relative.key_table = relative.table;
  check("a relative bias", {.causal = Causal::BottomRight}, relative);
  check("T5", {.causal = Causal::BottomRight, .window = posenc::sliding_window(20)}, t5);
  check("masks and more", {.causal = Causal::No,
                           .keep = {mask, 1, 1, 1, keys, 0, 0, 0, 1},
                           .additive = {additive.data(), 1, 1, 1, keys, 0, 0, 0, 1},
                           .key_lengths = lengths,
                           .softcap = 30,
                           .softcap_order = posenc::SoftcapOrder::BeforeBias,
                           .sinks = sinks});
  check("dropout by position", {.causal = Causal::ByPosition,
                                .dropout = {.probability = 0.3, .seed = 2},
                                .query_positions = Positions::range(keys - queries, queries),
                                .key_positions = Positions::range(0, keys)});
  CHECK(failing_memory::watched_allocations() == 0);
}

TEST_CASE("attention without memory: packed sequences", "[memory][attention]") {
  const auto q = numbers(queries * heads * dim, 1), k = numbers(keys * kv_heads * dim, 2);
  const std::vector<float> nothing(q.size(), 7.0F);
  const std::vector<Index> cu_q{0, 3, queries}, cu_k{0, 100, keys};
  CHECK(check_calls("packed", nothing, [&](std::vector<float>& out) {
          const auto kv = heads_view(k.data(), 1, keys, kv_heads, dim);
          posenc::attention(
              heads_view(q.data(), 1, queries, heads, dim), kv, kv,
              heads_view(out.data(), 1, queries, heads, dim),
              {.causal = Causal::BottomRight, .cu_seqlens_q = cu_q, .cu_seqlens_k = cu_k});
        }) > 0);
}

TEST_CASE("attention without memory: over a cache", "[memory][attention][cache]") {
  const auto q = numbers(batch * queries * heads * dim, 1);
  const Session<float> session{filled<float>(plain, keys, 60), std::vector<float>(q.size(), 7.0F)};
  const std::vector<Index> rows{0, 1};
  Eigen::ThreadPool threads(3);
  const Eigen::ThreadPoolDevice device(&threads, 3);
  const auto call = [&](Session<float>& s, const auto&... on) {
    posenc::attention(heads_view(q.data(), batch, queries, heads, dim), s.cache, rows,
                      heads_view(s.out.data(), batch, queries, heads, dim),
                      {.causal = Causal::BottomRight}, {}, {}, on...);
  };
  CHECK(check_calls(
            "cache", session, [&](Session<float>& s) { call(s); }, state_of<float>) > 0);
  CHECK(check_calls(
            "cache on a pool", session, [&](Session<float>& s) { call(s, WatchedDevice{device}); },
            state_of<float>) > 0);
  CHECK(failing_memory::watched_allocations() == 0);
}

TEST_CASE("attention without memory: a ragged batch over a cache",
          "[memory][attention][cache][mha]") {
  const auto q = numbers(queries * heads * dim, 1), x = numbers(queries * 32, 2);
  const std::vector<Index> rows{1, 0}, offsets{0, 1, queries};
  posenc::MultiHeadAttention<float> module(
      {.model_dim = 32, .heads = heads, .kv_heads = kv_heads, .head_dim = dim});
  module.randomize(1);
  for (const auto& config : {plain, ring}) {
    const auto window = config.window == 0 ? posenc::Window{} : posenc::sliding_window(100);
    const Session<float> session{filled<float>(config, 383, 50),
                                 std::vector<float>(q.size(), 7.0F)};
    CHECK(check_calls(
              "attention", session,
              [&](Session<float>& s) {
                posenc::attention(
                    heads_view(q.data(), 1, queries, heads, dim), s.cache, rows,
                    heads_view(s.out.data(), 1, queries, heads, dim),
                    {.causal = Causal::BottomRight, .window = window, .cu_seqlens_q = offsets});
              },
              state_of<float>) > 0);
    CHECK(check_calls(
              "module", session,
              [&](Session<float>& s) {
                module.forward(
                    tokens_view(x.data(), 1, queries, 32), Positions::packed(offsets, {384, 383}),
                    s.cache, rows, tokens_view(s.out.data(), 1, queries, 32),
                    {.causal = Causal::BottomRight, .window = window, .cu_seqlens_q = offsets});
              },
              state_of<float>, [&](Session<float>& s) { s.out.assign(q.size(), 7.0F); }) > 0);
  }
}

TEST_CASE("merge without memory: allocates nothing", "[memory][merge]") {
  const auto other = numbers(queries * heads * dim + queries * heads, 6);
  CHECK(check_calls("merge", numbers(queries * heads * dim + queries * heads, 5),
                    [&](std::vector<float>& x) {
                      const auto lse = [](auto* data) {
                        return posenc::LseView<std::remove_pointer_t<decltype(data)>>{
                            data + queries * heads * dim, 1, heads, queries, 0, queries, 1};
                      };
                      posenc::merge(heads_view(x.data(), 1, queries, heads, dim), lse(x.data()),
                                    heads_view(other.data(), 1, queries, heads, dim),
                                    lse(other.data()));
                    }) == 0);
}

TEST_CASE("Linear without memory: writes nothing", "[memory][linear]") {
  constexpr Index rows = 300, in = 256, out = 256;
  const auto x = numbers(rows * in, 1), nothing = numbers(rows * out, 2);
  const auto check = [&](const std::string& name, auto layer) {
    layer.randomize(1);
    return check_calls(
        name, nothing,
        [&](std::vector<float>& y) {
          layer.apply(tokens_view(x.data(), 1, rows, in), tokens_view(y.data(), 1, rows, out));
        },
        [](const std::vector<float>& y) { return y; });
  };
  CHECK(check("Linear", posenc::Linear<float>(in, out, true)) > 0);
  CHECK(check("FixedOrderLinear", posenc::FixedOrderLinear<float>(in, out, true)) > 0);
}

TEST_CASE("MultiHeadAttention without memory: cache and output are unchanged",
          "[memory][mha][cache]") {
  check_module<posenc::Linear<float>>("Linear", 256, 140);
  check_module<posenc::Linear<float>>("Linear, a token", 32, 1);
  check_module<posenc::FixedOrderLinear<float>>("FixedOrderLinear", 32, 140);
  check_module<posenc::FixedOrderLinear<float>>("FixedOrderLinear, a token", 32, 1);
}

}  // namespace attention_without_memory_test
