// SPDX-License-Identifier: MIT
// Attention, cache and module when there is no memory: caches and parameters are as before, outputs too.
#include "memory/watched_device.hpp"
#include "memory/without_memory.hpp"
#include "support/catch.hpp"
#include <posenc/attention/merge.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/forgetting.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace attention_without_memory_test {

using memory_test::check_calls;
using memory_test::heads_view;
using memory_test::numbers;
using memory_test::tokens_view;
using memory_test::WatchedDevice;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::Index;
using posenc::KvCache;
using posenc::Positions;

namespace {

constexpr Index batch = 2, queries = 7, keys = 300, heads = 4, kv_heads = 2, dim = 8;

template <class S>
void append_numbers(std::vector<float>& all, const KvCache<S>& cache) {
  for (Index sequence = 0; sequence < cache.sequences(); ++sequence) {
    const Index first = cache.first(sequence), n = cache.length(sequence) - first;
    all.push_back(static_cast<float>(first));
    all.push_back(static_cast<float>(n));
    std::vector<float> k(static_cast<std::size_t>(n * cache.kv_heads() * cache.head_dim()));
    std::vector<float> v(static_cast<std::size_t>(n * cache.kv_heads() * cache.value_dim()));
    cache.copy_keys(sequence, first, heads_view(k.data(), 1, n, cache.kv_heads(), cache.head_dim()),
                    heads_view(v.data(), 1, n, cache.kv_heads(), cache.value_dim()));
    all.insert(all.end(), k.begin(), k.end());
    all.insert(all.end(), v.begin(), v.end());
  }
}

template <class S>
KvCache<S> filled(const posenc::KvCacheConfig& config, Index length, Index chunk) {
  KvCache<S> cache(config);
  const auto k = numbers(chunk * config.kv_heads * config.head_dim, 3);
  const auto x = heads_view(k.data(), 1, chunk, config.kv_heads, config.head_dim);
  for (Index sequence = 0; sequence < config.sequences; ++sequence) {
    for (Index n = 0; n < length + sequence; n += chunk) {
      const auto part = posenc::slice_seq(x, 0, std::min(chunk, length + sequence - n));
      cache.append(sequence, part, part);
    }
  }
  return cache;
}

constexpr posenc::KvCacheConfig plain{
    .sequences = 2, .kv_heads = kv_heads, .head_dim = dim, .capacity = 600};
constexpr posenc::KvCacheConfig ring{
    .sequences = 2, .kv_heads = kv_heads, .head_dim = dim, .window = 100, .max_append = 140};

template <class S>
struct Session {
  KvCache<S> cache;
  std::vector<float> out;
};

template <class S>
std::vector<float> state_of(const Session<S>& session) {
  std::vector<float> all = session.out;
  append_numbers(all, session.cache);
  return all;
}

/// A pass that failed leaves no tape; in its backward a projection's gradient is added to as a whole or not at all.
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
      {.model_dim = model_dim, .heads = heads, .kv_heads = kv_heads, .head_dim = dim},
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

  // One token and many; a ring that loses a tile, none, or is empty; sequences of two lengths.
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

TEST_CASE("attention without memory writes nothing", "[memory][attention]") {
  const auto q = numbers(batch * queries * heads * dim, 1);
  const auto k = numbers(batch * keys * kv_heads * dim, 2);
  const auto table = numbers(32 * heads, 4);
  const posenc::T5Bias<float> t5(posenc::MatrixView<const float>{table.data(), 32, heads, heads},
                                 {.direction = posenc::T5Direction::Causal});
  const posenc::Alibi alibi({.heads = heads, .form = posenc::AlibiForm::Causal});
  const auto in = heads_view(q.data(), batch, queries, heads, dim);
  const auto kv = heads_view(k.data(), batch, keys, kv_heads, dim);
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
      posenc::attention(in, kv, kv, heads_view(out.data(), batch, queries, heads, dim), options,
                        bias, memory, on...);
    };
    CHECK(check_calls(name, nothing, [&](std::vector<float>& out) { call(out); }) > 0);
    CHECK(check_calls(name + " on a pool", nothing,
                      [&](std::vector<float>& out) { call(out, WatchedDevice{*pool}); }) > 0);
  };
  check("causal", {.causal = Causal::BottomRight});
  check("ALiBi", {.causal = Causal::TopLeft}, alibi);
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

TEST_CASE("attention without memory for packed sequences", "[memory][attention]") {
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

TEST_CASE("attention over a cache without memory", "[memory][attention][cache]") {
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

TEST_CASE("a ragged batch over a cache without memory", "[memory][attention][cache][mha]") {
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

TEST_CASE("what is done to a cache without memory is done or not", "[memory][cache]") {
  using posenc::HeadsView;
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = dim, .base = 10000});
  const auto x = numbers(60 * kv_heads * dim, 5);
  const auto new_keys = heads_view(x.data(), 1, 60, kv_heads, dim);
  for (const auto& config : {plain, ring}) {
    const bool is_ring = config.window != 0;
    INFO((is_ring ? "ring" : "no ring"));
    const Session<float> session{filled<float>(config, keys, 50), {}};
    const auto check = [&](const std::string& name, const auto& call) {
      return check_calls(name, session, call, state_of<float>);
    };
    // These take none.
    CHECK(check("append", [&](auto& s) { s.cache.append(0, new_keys, new_keys); }) == 0);
    CHECK(check("restore",
                [&](auto& s) { s.cache.restore(0, is_ring ? 128 : 0, new_keys, new_keys); }) == 0);
    CHECK(check("truncate", [&](auto& s) { s.cache.truncate(0, s.cache.length(0) - 5); }) == 0);
    CHECK(check("copy", [&](auto& s) { s.cache.copy(0, 1); }) == 0);
    CHECK(check("clear", [&](auto& s) { s.cache.clear(1); }) == 0);
    // And these must have it all before they write.
    CHECK(check("update_keys", [&](auto& s) {
            s.cache.update_keys(0, [&](HeadsView<float> k, Index first) {
              rope.rotate(k, Positions::starts(std::vector<Index>{first}, k.seq));
            });
          }) > 0);
    if (!is_ring) {
      CHECK(check("erase", [&](auto& s) {
              s.cache.erase(0, 20, 30,
                            [&](HeadsView<float> k) { posenc::shift_keys(k, rope, {-30}); });
            }) > 1);
    }
    const KvCache<float> other = filled<float>(plain, 77, 7);
    CHECK(check("assignment", [&](auto& s) { s.cache = other; }) > 1);
    CHECK(check("a cache of one's own", [&](auto& s) { s.cache = KvCache<float>(config); }) > 1);
  }
}

TEST_CASE("gates without memory are all appended or none", "[memory][bias]") {
  const auto z = numbers(2 * 9 * heads, 5);
  posenc::ForgetGates gates(2, heads);
  gates.append(0, tokens_view(z.data(), 1, 4, heads));
  const auto state = [](const posenc::ForgetGates& g) {
    std::vector<float> all;
    for (Index s = 0; s < 2; ++s) {
      for (Index t = g.first(s); t < g.length(s); ++t) {
        for (Index h = 0; h < heads; ++h) all.push_back(static_cast<float>(g.sums(s, t)[h]));
      }
      all.push_back(static_cast<float>(g.first(s)));
    }
    return all;
  };
  CHECK(check_calls(
            "append", gates,
            [&](posenc::ForgetGates& g) {
              g.append({0, 1}, tokens_view(z.data(), 2, 9, heads));
            },
            state) > 1);
  CHECK(check_calls(
            "ragged append", gates,
            [&](posenc::ForgetGates& g) {
              g.append({0, 1}, {0, 8, 18}, tokens_view(z.data(), 1, 18, heads));
            },
            state) > 1);
  CHECK(check_calls(
            "copy", gates, [](posenc::ForgetGates& g) { g.copy(0, 1); }, state) > 0);
  const std::vector<double> sums(9 * heads);
  CHECK(check_calls(
            "restore", gates,
            [&](posenc::ForgetGates& g) {
              g.restore(0, 3, {sums.data(), 1, 9, heads});
            },
            state) > 0);
}

TEST_CASE("what is done to a cache on a pool without memory is done or not", "[memory][cache]") {
  using posenc::HeadsView;
  const auto x = numbers(200 * kv_heads * dim, 5);
  const auto new_keys = heads_view(x.data(), 1, 200, kv_heads, dim);
  const posenc::KvBlockPool pool({std::size_t{1} << 30});
  for (const auto& config : {plain, ring}) {
    const bool is_ring = config.window != 0;
    INFO((is_ring ? "ring" : "no ring"));
    Session<float> session{KvCache<float>(config, pool), {}};
    for (Index n = 0; n < 300; n += 100) {
      session.cache.append(0, posenc::slice_seq(new_keys, n / 2, 100),
                           posenc::slice_seq(new_keys, n / 3, 100));
    }
    session.cache.copy(0, 1);
    const Index blocks = pool.blocks();
    // What is called is a copy, which shares all of its blocks.
    const auto check = [&](const std::string& name, const auto& call) {
      const long allocations = check_calls(name, session, call, state_of<float>);
      CHECK(pool.blocks() == blocks);
      return allocations;
    };
    const auto some = posenc::slice_seq(new_keys, 0, 130);
    const std::vector<Index> both{1, 0}, offsets{0, 120, 130};
    CHECK(check("append", [&](auto& s) { s.cache.append(0, some, some); }) > 1);
    CHECK(check("packed append", [&](auto& s) { s.cache.append(both, offsets, some, some); }) > 2);
    CHECK(check("restore", [&](auto& s) { s.cache.restore(0, 0, new_keys, new_keys); }) > 1);
    CHECK(check("copy", [&](auto& s) { s.cache.copy(0, 1); }) > 0);
    CHECK(check("update_keys", [&](auto& s) {
            s.cache.update_keys(0, [](HeadsView<float> k, Index) { k.row(0, 0, 0)[0] = 1; });
          }) > 1);
    if (!is_ring) {
      CHECK(check("erase", [&](auto& s) { s.cache.erase(0, 20, 30, [](HeadsView<float>) {}); }) >
            1);
    }
    // These take none.
    CHECK(check("truncate", [&](auto& s) { s.cache.truncate(0, s.cache.length(0) - 5); }) == 0);
    CHECK(check("clear", [&](auto& s) { s.cache.clear(1); }) == 0);
    const KvCache<float> other(session.cache);
    CHECK(check("assignment", [&](auto& s) { s.cache = other; }) > 1);
  }
  CHECK(pool.blocks() == 0);
}

TEST_CASE("merge takes no memory", "[memory][merge]") {
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

TEST_CASE("layers without memory", "[memory][linear]") {
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

TEST_CASE("a module without memory leaves cache and output as they were", "[memory][mha][cache]") {
  check_module<posenc::Linear<float>>("Linear", 256, 140);
  check_module<posenc::Linear<float>>("Linear, a token", 32, 1);
  check_module<posenc::FixedOrderLinear<float>>("FixedOrderLinear", 32, 140);
  check_module<posenc::FixedOrderLinear<float>>("FixedOrderLinear, a token", 32, 1);
}

}  // namespace attention_without_memory_test
