// SPDX-License-Identifier: MIT
// Settings of the module, which are completed or rejected.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/nn/multi_head_config.hpp>

#include <string>

namespace multi_head_config_test {

using posenc::ConfigError;
using posenc::MultiHeadAttention;
using posenc::MultiHeadAttentionConfig;
using support::message_of;

namespace {

std::string config_error(const MultiHeadAttentionConfig& config) {
  return message_of<ConfigError>([&] { MultiHeadAttention<float> module(config); });
}

}  // namespace

TEST_CASE("MultiHeadAttentionConfig: invalid settings are rejected", "[mha][errors]") {
  const std::string name = "posenc::MultiHeadAttention: ";
  CHECK(config_error({.heads = 4}) == name + "model_dim must be set and positive but is 0");
  CHECK(config_error({.model_dim = -8, .heads = 4}) ==
        name + "model_dim must be set and positive but is -8");
  CHECK(config_error({.model_dim = 8}) == name + "heads must be set and positive but is 0");
  CHECK(config_error({.model_dim = 10, .heads = 4}) ==
        name + "heads (4) must divide model_dim (10) if head_dim is not set");
  CHECK(config_error({.model_dim = 3, .heads = 4}) ==
        name + "heads (4) must divide model_dim (3) if head_dim is not set");
  CHECK(config_error({.model_dim = 16, .heads = 4, .kv_heads = 3}) ==
        name + "kv_heads (3) must divide heads (4)");
  CHECK(config_error({.model_dim = 16, .heads = 4, .kv_heads = 8}) ==
        name + "kv_heads (8) must divide heads (4)");
  CHECK(config_error({.model_dim = 16, .heads = 4, .kv_heads = -2}) ==
        name + "kv_heads (-2) must divide heads (4)");
  CHECK(config_error({.model_dim = 16, .heads = 4, .head_dim = -4}) ==
        name + "head_dim must be positive but is -4");
  CHECK(config_error({.model_dim = 16, .heads = 4, .value_dim = -1}) ==
        name + "value_dim must be positive but is -1");
  CHECK(config_error({.model_dim = 16, .heads = 4, .key_input_dim = -1}) ==
        name + "key_input_dim must be positive but is -1");
  CHECK(config_error({.model_dim = 16, .heads = 4, .value_input_dim = -1}) ==
        name + "value_input_dim must be positive but is -1");
}

TEST_CASE("MultiHeadAttentionConfig: parameters are counted, and the config is completed",
          "[mha]") {
  const MultiHeadAttention<float> plain({.model_dim = 16, .heads = 4});
  CHECK(plain.parameter_count() == 4 * (16 * 16 + 16));
  CHECK(plain.config().kv_heads == 4);
  CHECK(plain.config().head_dim == 4);
  CHECK(plain.config().value_dim == 4);
  CHECK(plain.config().key_input_dim == 16);
  CHECK(plain.config().value_input_dim == 16);

  const MultiHeadAttention<float> odd({.model_dim = 10,
                                       .heads = 6,
                                       .kv_heads = 2,
                                       .head_dim = 5,
                                       .value_dim = 7,
                                       .key_input_dim = 3,
                                       .value_input_dim = 4,
                                       .projection_bias = false});
  CHECK(odd.parameter_count() == 10 * 30 + 3 * 10 + 4 * 14 + 42 * 10);
  CHECK(odd.query_projection.weight.rows() == 30);
  CHECK(odd.key_projection.weight.cols() == 3);
  CHECK(odd.value_projection.weight.rows() == 14);
  CHECK(odd.output_projection.weight.cols() == 42);
}

}  // namespace multi_head_config_test
