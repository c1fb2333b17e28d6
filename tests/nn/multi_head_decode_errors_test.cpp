// SPDX-License-Identifier: MIT
// MultiHeadAttention rejects an invalid call over a cache before it appends.
#include "module_case.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

#include <functional>
#include <string>
#include <vector>

namespace multi_head_decode_errors_test {

using module_test::Embeddings;
using posenc::bsd;
using posenc::Causal;
using posenc::ConfigError;
using posenc::Index;
using posenc::KvCache;
using posenc::KvCacheConfig;
using posenc::PositionError;
using posenc::Positions;
using posenc::ShapeError;
using support::message_of;

namespace {

using Rope = posenc::Rope<posenc::HalfRotate>;
using Module = posenc::MultiHeadAttention<float, Rope, posenc::Alibi>;
const std::string name = "posenc::MultiHeadAttention::forward: ";

/// Call that appends three tokens each to two sequences of 60 and 70 keys.
struct Call {
  Module module{{.model_dim = 8, .heads = 2},
                Rope(posenc::Frequencies::from_inv_freq(std::vector{1.0, 0.5})),
                posenc::Alibi({.heads = 2, .form = posenc::AlibiForm::Causal})};
  KvCacheConfig config{.sequences = 3, .kv_heads = 2, .head_dim = 4, .capacity = 128};
  Embeddings<float> x{2, 3, 8}, out{2, 3, 8};
  std::vector<Index> lengths{60, 70}, sequences{0, 2};
  Positions positions = Positions::starts({60, 70}, 3);
  posenc::AttentionOptions<float> options{.causal = Causal::BottomRight};

  Call() { module.randomize(1); }

  /// Returns the message of the error that run() throws, and reports any write.
  template <class Error>
  std::string error() {
    KvCache<float> cache(config);
    for (std::size_t b = 0; b < 2; ++b) {
      support::Random random(1);
      auto k =
          support::Heads<float>::random(random, 1, lengths[b], config.kv_heads, config.head_dim);
      for (Index j = 0; j < lengths[b]; ++j) {
        const auto key = posenc::slice_seq(k.view(), j, 1);
        cache.append(static_cast<Index>(2 * b), key, key);
      }
    }
    const auto before = contents(cache);
    x.setConstant(1);
    out.setConstant(77);
    const std::string message = message_of<Error>(
        [&] { module.forward(bsd(x), positions, cache, sequences, bsd(out), options); });
    if (message == "nothing was thrown") return message;
    for (Index n = 0; n < out.size(); ++n) {
      if (out.data()[n] != 77) return "out was written; " + message;
    }
    return contents(cache) == before ? message : "the cache was written; " + message;
  }

 private:
  static std::vector<float> contents(const KvCache<float>& cache) {
    std::vector<float> all;
    for (Index sequence = 0; sequence < cache.sequences(); ++sequence) {
      const Index first = cache.first(sequence), count = cache.length(sequence) - first;
      all.push_back(static_cast<float>(first));
      all.push_back(static_cast<float>(count));
      support::Heads<float> k(1, count, cache.kv_heads(), cache.head_dim()), v = k;
      cache.copy_keys(sequence, first, k.view(), v.view());
      k.for_each([&](float value) { all.push_back(value); });
      v.for_each([&](float value) { all.push_back(value); });
    }
    return all;
  }
};

template <class Error>
std::string error(const std::function<void(Call&)>& spoil) {
  Call call;
  spoil(call);
  return call.error<Error>();
}

}  // namespace

TEST_CASE("MultiHeadAttention over KvCache: a valid call throws nothing", "[mha][cache][errors]") {
  CHECK(error<ShapeError>([](Call&) {}) == "nothing was thrown");
}

TEST_CASE("MultiHeadAttention over KvCache: rejects mismatches with its cache before it appends",
          "[mha][cache][errors]") {
  CHECK(error<ShapeError>([](Call& c) {
          c.config.capacity = 100;
          c.x.resize(2, 59, 8), c.out.resize(2, 59, 8);
          c.positions = Positions::starts({60, 70}, 59);
        }) ==
        "posenc::KvCache::append: sequence 2 holds 70 keys, and with 59 more would exceed the "
        "capacity of 128");
  CHECK(error<ShapeError>([](Call& c) { c.sequences = {2, 2}; }) != "nothing was thrown");
  CHECK(error<ShapeError>([](Call& c) {
          c.sequences = {2, 2};
          c.positions = Positions::starts({70, 70}, 3);
        }) == "posenc::KvCache::append: sequence 2 is listed twice");
  CHECK(error<ShapeError>([](Call& c) {
          c.sequences = {0, 3};
        }) == name + "sequences must lie within the cache's 3 but one is 3");
  CHECK(error<ShapeError>([](Call& c) { c.sequences = {0}; }) ==
        name + "sequences must have one entry for each of the 2 batch rows but has 1");
  CHECK(error<ShapeError>([](Call& c) { c.config.kv_heads = 1; }) ==
        "posenc::KvCache::append: k [2, 3, 2, 4] must be [2, n, 1, 4]");
  CHECK(error<ShapeError>([](Call& c) { c.config.head_dim = 6; }) ==
        name + "q [2, 3, 2, 4] must have the cache's head_dim 6 and a multiple of its 2 heads");
}

TEST_CASE("MultiHeadAttention over KvCache: rejects invalid input before it appends",
          "[mha][cache][errors]") {
  CHECK(error<ShapeError>([](Call& c) { c.out.resize(2, 3, 7); }) ==
        name + "out [2, 3, 7] must be [2, 3, 8]");
  CHECK(error<ShapeError>([](Call& c) { c.positions = Positions::range(60, 2); }) ==
        name + "positions [1, 2] must be [1 or 2, 3]");
  CHECK_THAT(
      error<PositionError>([](Call& c) { c.positions = Positions::range(Index{1} << 52, 3); }),
      Catch::Matchers::StartsWith("posenc::Rope::rotate: angles must not exceed 2^50"));
  CHECK(error<ShapeError>([](Call& c) { c.module.output_projection.bias.resize(1, 5); }) ==
        name + "x [2, 3, 8] and bias (5) must fit the weight [8, 8]");
}

TEST_CASE("MultiHeadAttention over KvCache: rejects invalid options before it appends",
          "[mha][cache][errors]") {
  CHECK(error<ConfigError>([](Call& c) { c.options.dropout.probability = 2; }) ==
        name + "the dropout probability must lie in [0, 1) but is 2");
  CHECK(error<ConfigError>([](Call& c) { c.options.query_positions = Positions::range(0, 3); }) ==
        name + "positions are arguments of forward and must not be set in the options");
  const std::vector<Index> lengths{3, 3};
  CHECK(error<ConfigError>([&](Call& c) { c.options.key_lengths = lengths; }) ==
        name + "key_lengths and cu_seqlens_k must not be set, because the cache has the lengths");
  // The longest sequence will have 73 keys.
  attention_test::Mask<bool> keep(1, 1, 3, 72);
  CHECK(error<ShapeError>([&](Call& c) { c.options.keep = keep.view(); }) ==
        name + "keep [1, 1, 3, 72] must broadcast to [2, 2, 3, 73]");
  attention_test::Mask<bool> right(1, 1, 3, 73);
  CHECK(error<ShapeError>([&](Call& c) { c.options.keep = right.view(); }) == "nothing was thrown");
  CHECK(error<ShapeError>([](Call& c) { c.options.key_positions = Positions::range(0, 70); }) ==
        name + "key_positions [1, 70] must be [1 or 2, 73]");
}

TEST_CASE("MultiHeadAttention over KvCache: a bias needs the positions of cached keys",
          "[mha][cache][errors]") {
  CHECK(error<ConfigError>([](Call& c) { c.positions = Positions::range(60, 3); }) ==
        name +
            "options.key_positions must be set if positions differ from key indices: token 0 of "
            "batch "
            "row 1 has position 60 but becomes key 70");
  const auto third = error<ConfigError>([](Call& c) {
    c.positions = Positions::ids(2, {60, 61, 5, 70, 71, 72});
  });
  for (const char* part : {"token 2 ", "batch row 0 ", " 5 ", "key 62"}) {
    CHECK_THAT(third, Catch::Matchers::ContainsSubstring(part));
  }
  CHECK(error<ConfigError>([](Call& c) {
          c.positions = Positions::range(60, 3);
          c.options.key_positions = Positions::range(0, 73);
        }) == "nothing was thrown");
}

TEST_CASE(
    "MultiHeadAttention over KvCache: positions of cached keys are needed only where attention "
    "reads positions",
    "[mha][cache]") {
  using Plain = posenc::MultiHeadAttention<float, Rope>;
  Plain module({.model_dim = 8, .heads = 2},
               Rope(posenc::Frequencies::from_inv_freq(std::vector{1.0, 0.5})));
  module.randomize(1);
  Embeddings<float> x(1, 3, 8), out(1, 3, 8);
  x.setConstant(1);
  const auto message = [&](const posenc::AttentionOptions<float>& options) {
    KvCache<float> cache({.kv_heads = 2, .head_dim = 4, .capacity = 128});
    const std::vector<Index> sequences{0};
    return message_of<ConfigError>([&] {
      module.forward(bsd(x), Positions::range(60, 3), cache, sequences, bsd(out), options);
    });
  };
  CHECK(message({.causal = Causal::BottomRight}) == "nothing was thrown");
  CHECK(message({.causal = Causal::BottomRight, .dropout = {.probability = 0.5, .seed = 1}}) !=
        "nothing was thrown");
}

TEST_CASE(
    "MultiHeadAttention over KvCache: a window that reaches evicted keys is rejected before the "
    "ring evicts more",
    "[mha][cache][errors]") {
  const auto spoil = [](Call& c) {
    c.config = {.sequences = 3, .kv_heads = 2, .head_dim = 4, .window = 20, .max_append = 3};
    c.options.window = posenc::sliding_window(20);
    // The ring has evicted nothing so far. Three more keys evict a tile.
    c.lengths = {60, 255};
    c.positions = Positions::starts({60, 255}, 3);
  };
  CHECK(error<ConfigError>(spoil) == "nothing was thrown");
  CHECK(error<ConfigError>([&](Call& c) {
          spoil(c);
          c.options.window = {};
        }) == name +
                  "the keys before 128 are evicted from the cache, but the window of the first "
                  "query, whose aligned key is 255, begins -1 before it (-1: unlimited)");
  CHECK(error<ShapeError>([&](Call& c) {
          spoil(c);
          c.config.max_append = 2;
        }) ==
        "posenc::KvCache::append: a ring (window 20) accepts at most max_append = 2 keys per call "
        "but got 3");
}

}  // namespace multi_head_decode_errors_test
