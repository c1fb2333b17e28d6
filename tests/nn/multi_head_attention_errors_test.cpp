// SPDX-License-Identifier: MIT
// Invalid input of MultiHeadAttention throws errors.
#include "module_case.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

#include <string>
#include <vector>

namespace multi_head_attention_errors_test {

using module_test::Embeddings;
using posenc::bsd;
using posenc::ConfigError;
using posenc::Index;
using posenc::MultiHeadAttention;
using posenc::PositionError;
using posenc::Positions;
using posenc::ShapeError;
using support::message_of;

TEST_CASE("MultiHeadAttention: rejects a rope that is wider than its heads", "[mha][errors]") {
  using Rope = posenc::Rope<posenc::HalfRotate>;
  using Module = MultiHeadAttention<float, Rope>;
  const posenc::MultiHeadAttentionConfig config{.model_dim = 8, .heads = 2};
  const auto rope = [](Index rotary_dim, Index offset = 0) {
    return Rope(posenc::Unscaled{.rotary_dim = rotary_dim, .base = 10000}, offset);
  };
  const std::string rule = "head_dim (4) must include the rotary channels [";
  CHECK(message_of<ConfigError>([&] { Module(config, rope(8)); }) ==
        "posenc::MultiHeadAttention: " + rule + "0, 8)");
  CHECK(message_of<ConfigError>([&] { Module(config, rope(4, 2)); }) ==
        "posenc::MultiHeadAttention: " + rule + "2, 6)");
  Module module(config, rope(2, 2));
  CHECK(message_of<ConfigError>([&] { module.set_rotary(rope(6)); }) ==
        "posenc::MultiHeadAttention::set_rotary: " + rule + "0, 6)");
  CHECK(module.rotary().rotary_dim() == 2);
  CHECK_NOTHROW(module.set_rotary(rope(4)));
}

TEST_CASE("MultiHeadAttention: forward checks its tensors and positions before it writes",
          "[mha][errors]") {
  using Rope = posenc::Rope<posenc::HalfRotate>;
  const Rope rope(posenc::Frequencies::from_inv_freq(std::vector{1.0, 0.5}));
  MultiHeadAttention<float, Rope> module(
      {.model_dim = 8, .heads = 2, .key_input_dim = 6, .value_input_dim = 5}, rope);
  module.randomize(1);
  struct Call {
    Embeddings<float> x{2, 3, 8}, keys{2, 4, 6}, values{2, 4, 5}, out{2, 3, 8};
    Positions queries_at = Positions::range(0, 3), keys_at = Positions::range(0, 4);
    posenc::AttentionOptions<float> options{.causal = posenc::Causal::No};
    Call() { x.setConstant(1), keys.setConstant(1), values.setConstant(1), out.setConstant(77); }
  };
  const auto run = [&](Call& c) {
    module.forward(bsd(c.x), c.queries_at, bsd(c.keys), bsd(c.values), c.keys_at, bsd(c.out),
                   c.options);
  };
  const auto shape_error = [&](const auto& spoil) {
    Call c;
    spoil(c);
    const std::string message = message_of<ShapeError>([&] { run(c); });
    for (Index n = 0; n < c.out.size(); ++n) {
      if (c.out.data()[n] != 77) return "something was written; " + message;
    }
    return message;
  };
  const auto resize = [](Embeddings<float>& x, Index batch, Index seq, Index dim) {
    x.resize(batch, seq, dim);
    x.setConstant(77);
  };
  Call good;
  CHECK_NOTHROW(run(good));
  CHECK(shape_error([&](Call& c) { resize(c.out, 2, 3, 7); }) ==
        "posenc::MultiHeadAttention::forward: out [2, 3, 7] must be [2, 3, 8]");
  CHECK(shape_error([&](Call& c) { resize(c.out, 2, 4, 8); }) ==
        "posenc::MultiHeadAttention::forward: out [2, 4, 8] must be [2, 3, 8]");
  CHECK(shape_error([&](Call& c) { resize(c.x, 2, 3, 7); }) ==
        "posenc::Linear::apply: x [2, 3, 7] and bias (8) must fit the weight [8, 8]");
  CHECK(shape_error([&](Call& c) { resize(c.keys, 2, 4, 8); }) ==
        "posenc::Linear::apply: x [2, 4, 8] and bias (8) must fit the weight [8, 6]");
  CHECK(shape_error([&](Call& c) { resize(c.values, 2, 4, 6); }) ==
        "posenc::Linear::apply: x [2, 4, 6] and bias (8) must fit the weight [8, 5]");
  CHECK(shape_error([&](Call& c) { resize(c.values, 2, 5, 5); }) ==
        "posenc::attention: v [2, 5, 2, 4] must have the batch, length and heads of k "
        "[2, 4, 2, 4]");
  CHECK(shape_error([&](Call& c) { resize(c.keys, 1, 4, 6), resize(c.values, 1, 4, 5); }) ==
        "posenc::attention: k [1, 4, 2, 4] must have the batch and head_dim of q [2, 3, 2, 4]");
  CHECK(shape_error([&](Call& c) { c.queries_at = Positions::range(0, 4); }) ==
        "posenc::MultiHeadAttention::forward: query_positions [1, 4] must be [1 or 2, 3]");
  CHECK(shape_error([&](Call& c) {
          c.keys_at = Positions::starts({0, 0, 0}, 4);
        }) == "posenc::MultiHeadAttention::forward: key_positions [3, 4] must be [1 or 2, 4]");
  Call far;
  far.keys_at = Positions::range(Index{1} << 51, 4);
  CHECK_THAT(message_of<PositionError>([&] { run(far); }),
             Catch::Matchers::StartsWith("posenc::Rope::rotate: angles must not exceed 2^50"));
  CHECK(far.out.data()[0] == 77);
  Call options;
  options.options.dropout.probability = 2;
  CHECK(message_of<ConfigError>([&] { run(options); }) ==
        "posenc::attention: the dropout probability must lie in [0, 1) but is 2");
  CHECK(options.out.data()[0] == 77);
}

TEST_CASE("MultiHeadAttention: positions must have valid extents even if nothing reads them",
          "[mha][errors]") {
  MultiHeadAttention<float> module({.model_dim = 8, .heads = 2});
  Embeddings<float> x(2, 3, 8), out(2, 3, 8);
  x.setConstant(1);
  CHECK(message_of<ShapeError>([&] {
          module.forward(bsd(x), Positions::range(0, 4), bsd(out), {.causal = posenc::Causal::No});
        }) == "posenc::MultiHeadAttention::forward: query_positions [1, 4] must be [1 or 2, 3]");
}

TEST_CASE("MultiHeadAttention: a projection of keys has a size that can be counted",
          "[mha][errors][extents]") {
  const MultiHeadAttention<float> module(
      {.model_dim = 4, .heads = 1, .head_dim = 1024, .key_input_dim = 1, .value_input_dim = 1});
  Embeddings<float> x(1, 1, 4), out(1, 1, 4);
  x.setConstant(1);
  constexpr Index many = Index{1} << 53;
  const posenc::EmbeddingsView<const float> keys{x.data(), 1, many, 1, 0, 0};
  CHECK(message_of<ShapeError>([&] {
          module.forward(bsd(x), Positions::range(0, 1), keys, keys, Positions::range(0, many),
                         bsd(out), {.causal = posenc::Causal::No});
        }) ==
        "posenc::MultiHeadAttention::forward: 1024 values for each token of [1, "
        "9007199254740992] exceed 2^63 - 1");
}

TEST_CASE("MultiHeadAttention: positions in the options are rejected", "[mha][errors]") {
  MultiHeadAttention<float> module({.model_dim = 8, .heads = 2});
  Embeddings<float> x(1, 3, 8), out(1, 3, 8);
  x.setConstant(1);
  const auto error = [&](const posenc::AttentionOptions<float>& options) {
    return message_of<ConfigError>(
        [&] { module.forward(bsd(x), Positions::range(0, 3), bsd(out), options); });
  };
  const std::string rule =
      "posenc::MultiHeadAttention::forward: positions are arguments of forward and must not be set "
      "in the options";
  CHECK(error({.causal = posenc::Causal::No, .query_positions = Positions::range(9, 3)}) == rule);
  CHECK(error({.causal = posenc::Causal::No, .key_positions = Positions::range(9, 3)}) == rule);
}

}  // namespace multi_head_attention_errors_test
