// SPDX-License-Identifier: MIT
// Tests that outputs of attention and related calls must not overlap themselves, and that inputs
// may.
#include "support/catch.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/merge.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/nn/linear.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <limits>
#include <string>
#include <vector>

namespace strides_test {

using posenc::AttentionOptions;
using posenc::Causal;
using posenc::EmbeddingsView;
using posenc::HeadsView;
using posenc::Index;
using posenc::LseView;
using posenc::Positions;
using posenc::ScoresView;
using posenc::ShapeError;

namespace {

template <class Write>
void refuses(const std::vector<float>& memory, const std::string& name, const std::string& stride,
             const Write& write) {
  const std::vector<float> before = memory;
  INFO(name << ", " << stride);
  try {
    write();
    FAIL("nothing was thrown");
  } catch (const ShapeError& error) {
    const std::string message = error.what();
    INFO(message);
    CHECK(message.find(name + " is an output") != std::string::npos);
    CHECK(message.find("its " + stride + " is") != std::string::npos);
  }
  CHECK(memory == before);
}

HeadsView<float> heads_of(std::vector<float>& memory) {
  return {.data = memory.data(), .batch = 1, .seq = 3, .heads = 2, .dim = 4};
}

HeadsView<float> without_seq_stride(HeadsView<float> x) {
  x.seq_stride = 0;
  return x;
}

}  // namespace

TEST_CASE("attention: rejects outputs whose rows share memory", "[attention][strides]") {
  std::vector<float> data(24, 1.0F), out(24, 7.0F);
  const HeadsView<float> q = heads_of(data), good = heads_of(out);
  const HeadsView<float> flat = without_seq_stride(good);
  refuses(out, "out", "seq_stride",
          [&] { attention(q, q, q, flat, {.causal = Causal::BottomRight}); });
  ScoresView<float> weights{.data = out.data(), .batch = 1, .heads = 2, .queries = 3, .keys = 3};
  weights.query_stride = 0;
  std::vector<float> other(24);
  refuses(out, "weights", "query_stride", [&] {
    attention(q, q, q, heads_of(other), {.causal = Causal::BottomRight}, {}, {.weights = weights});
  });
  LseView<float> lse{.data = out.data(), .batch = 1, .heads = 2, .queries = 3};
  lse.head_stride = 2;
  refuses(out, "lse", "head_stride", [&] {
    attention(q, q, q, heads_of(other), {.causal = Causal::BottomRight}, {}, {.lse = lse});
  });

  posenc::KvCache<float> cache({.kv_heads = 2, .head_dim = 4, .capacity = 8});
  cache.append(0, q, q);
  const std::array<Index, 1> sequences{0};
  refuses(out, "out", "seq_stride",
          [&] { attention(q, cache, sequences, flat, {.causal = Causal::BottomRight}); });
  refuses(out, "k", "seq_stride", [&] { cache.copy_keys(0, 0, flat, heads_of(other)); });
  refuses(out, "v", "seq_stride", [&] { cache.copy_keys(0, 0, heads_of(other), flat); });

  const LseView<float> good_lse{.data = other.data(), .batch = 1, .heads = 2, .queries = 3};
  refuses(out, "out_a", "seq_stride", [&] { merge(flat, good_lse, q, good_lse); });
  refuses(out, "lse_a", "head_stride", [&] { merge(heads_of(other), lse, q, good_lse); });
}

TEST_CASE("attention: the stride of a single key is free", "[attention][strides]") {
  std::vector<float> data(16);
  for (std::size_t n = 0; n < data.size(); ++n) data[n] = static_cast<float>(n);
  std::vector<float> dense(16), out(16);
  const auto heads = [](std::vector<float>& memory) {
    return HeadsView<float>{.data = memory.data(), .batch = 1, .seq = 1, .heads = 4, .dim = 4};
  };
  attention(heads(data), heads(data), heads(data), heads(dense), {.causal = Causal::No});
  for (const Index stride : {std::numeric_limits<Index>::max() / 2, Index{0}, Index{-1}}) {
    HeadsView<float> wide = heads(data);
    wide.seq_stride = stride;
    attention(heads(data), wide, wide, heads(out), {.causal = Causal::No});
    CHECK(out == dense);
  }
}

TEST_CASE("attention: reads broadcast keys and values", "[attention][strides]") {
  std::vector<float> data(24), out(24), expected(24), repeated;
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 5) - 2;
  for (Index s = 0; s < 3; ++s) repeated.insert(repeated.end(), data.begin(), data.begin() + 8);
  const HeadsView<float> k = without_seq_stride(heads_of(data));
  attention(heads_of(data), k, k, heads_of(out), {.causal = Causal::BottomRight});
  attention(heads_of(data), heads_of(repeated), heads_of(repeated), heads_of(expected),
            {.causal = Causal::BottomRight});
  CHECK(out == expected);
}

TEMPLATE_TEST_CASE("Linear and MultiHeadAttention: reject tokens that share memory",
                   "[attention][strides]", posenc::Linear<float>, posenc::FixedOrderLinear<float>) {
  std::vector<float> data(24, 1.0F), out(24, 7.0F);
  const EmbeddingsView<float> x{.data = data.data(), .batch = 1, .seq = 3, .dim = 8};
  EmbeddingsView<float> flat{.data = out.data(), .batch = 1, .seq = 3, .dim = 8};
  flat.seq_stride = 4;
  TestType projection(8, 8, true);
  projection.randomize(1);
  refuses(out, "out", "seq_stride", [&] { projection.apply(x, flat); });
  posenc::MultiHeadAttention<float, posenc::NoRotation, posenc::NoBias, TestType> module(
      {.model_dim = 8, .heads = 2});
  module.randomize(1);
  const auto positions = Positions::range(0, 3);
  refuses(out, "out", "seq_stride",
          [&] { module.forward(x, positions, flat, {.causal = Causal::BottomRight}); });
  posenc::KvCache<float> cache({.kv_heads = 2, .head_dim = 4, .capacity = 8});
  const std::array<Index, 1> sequences{0};
  refuses(out, "out", "seq_stride", [&] {
    module.forward(x, positions, cache, sequences, flat, {.causal = Causal::BottomRight});
  });
  CHECK(cache.length(0) == 0);

  // Negative strides, and strides of 0: correct results or an exception, but no abort.
  std::vector<float> expected(24), reversed(24);
  EmbeddingsView<float> dense{.data = expected.data(), .batch = 1, .seq = 3, .dim = 8};
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 7);
  projection.apply(x, dense);
  EmbeddingsView<float> back{
      .data = data.data() + 16, .batch = 1, .seq = 3, .dim = 8, .seq_stride = -8};
  EmbeddingsView<float> back_out = back;
  back_out.data = reversed.data() + 16;
  projection.apply(back, back_out);
  CHECK(reversed == expected);
  EmbeddingsView<float> repeated = x;
  repeated.seq_stride = 0;
  projection.apply(repeated, dense);
  for (std::size_t i = 0; i < 8; ++i) CHECK(expected[16 + i] == expected[i]);
}

}  // namespace strides_test
