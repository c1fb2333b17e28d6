// SPDX-License-Identifier: MIT
// Settings of MultiHeadAttention from model files. examples/guide/module_layers.cpp compares such
// modules with plain loops.
#include "interop/gguf_writer.hpp"
#include "interop/hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/detail/beyond_module.hpp>
#include <posenc/interop/detail/hf_read.hpp>
#include <posenc/interop/gguf.hpp>
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/module_settings.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/tensor/eigen.hpp>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace module_settings_test {

using Catch::Matchers::Message;
using nlohmann::json;
using posenc::ConfigError;
using posenc::Index;
using posenc::ModelSettings;
using posenc::module_settings;
using posenc::QkNorm;
using posenc::read_hf_config;
using support::hf::config;

namespace {

/// Returns a narrow DeepSeek-V3, whose frequencies multiply the scale by 1.87.
json deepseek() {
  return config("deepseek_v3", {{"hidden_size", 24},
                                {"num_attention_heads", 2},
                                {"qk_nope_head_dim", 4},
                                {"qk_rope_head_dim", 8},
                                {"v_head_dim", 6},
                                {"rope_scaling",
                                 {{"type", "yarn"},
                                  {"factor", 40},
                                  {"mscale", 1.0},
                                  {"mscale_all_dim", 1.0},
                                  {"original_max_position_embeddings", 4096}}}});
}

void check_rejected(const ModelSettings& model, const std::string& message) {
  CHECK_THROWS_MATCHES(module_settings<float>(model, 0), ConfigError,
                       Message("posenc::" + message));
}

}  // namespace

TEST_CASE("module_settings: a layer of a file gives config, rope and options of a module",
          "[interop][module]") {
  const auto model = read_hf_config(config("qwen3", {{"num_key_value_heads", 8}}));
  const auto layer = module_settings<float>(model, 3);
  CHECK(layer.config.model_dim == 4096);
  CHECK(layer.config.heads == 32);
  CHECK(layer.config.kv_heads == 8);
  CHECK(layer.config.head_dim == 128);
  CHECK(layer.config.value_dim == 128);
  CHECK(layer.config.qk_norm == qk_norm_of_layer(model, 3));
  CHECK(layer.config.qk_norm.over == posenc::QkNormOver::Head);
  CHECK(layer.config.qk_norm.epsilon == 1e-6);
  CHECK(layer.rope.rotary_dim() == 128);
  CHECK(layer.rope.frequencies() == posenc::rope(model).frequencies());
  CHECK(layer.options.scale == 1 / std::sqrt(128.0));
  CHECK(layer.options.causal == posenc::Causal::Unspecified);
}

TEST_CASE("module_settings: DeepSeek's multiplier counts once in a module", "[interop][module]") {
  const auto layer = module_settings<double>(read_hf_config(deepseek()), 0);
  const double multiplier = layer.rope.softmax_scale_multiplier();
  CHECK(multiplier == Approx(1.8739).epsilon(1e-4));
  posenc::MultiHeadAttention<double, posenc::AnyRope> module(layer.config, layer.rope);
  module.randomize(1);
  Eigen::Tensor<double, 3, Eigen::RowMajor> x(1, 5, 24), from_file(1, 5, 24), by_hand(1, 5, 24);
  x.setRandom();
  const auto forward = [&](const posenc::AttentionOptions<double>& options, auto& out) {
    module.forward(posenc::bsd(std::as_const(x)), posenc::Positions::range(0, 5), posenc::bsd(out),
                   options);
  };
  auto options = layer.options;
  options.causal = posenc::Causal::BottomRight;
  forward(options, from_file);
  forward({.scale = 1 / std::sqrt(12.0), .causal = posenc::Causal::BottomRight}, by_hand);
  for (Index i = 0; i < x.size(); ++i) CHECK(from_file.data()[i] == by_hand.data()[i]);
}

TEST_CASE("module_settings: a layer without rotary encoding has a rope without channels",
          "[interop][module]") {
  const auto model = read_hf_config(config("smollm3"));
  const auto layer = module_settings<double>(model, 3);
  REQUIRE(rotary_of_layer(model, 3) == nullptr);
  CHECK(layer.rope.rotary_dim() == 0);
  auto narrow = layer.config;
  narrow.model_dim = 8, narrow.heads = 2, narrow.kv_heads = 1, narrow.head_dim = 0,
  narrow.value_dim = 0;
  posenc::MultiHeadAttention<double, posenc::AnyRope> module(narrow, layer.rope);
  posenc::MultiHeadAttention<double> without(narrow);
  module.randomize(1);
  without.randomize(1);
  Eigen::Tensor<double, 3, Eigen::RowMajor> x(1, 3, 8), a(1, 3, 8), b(1, 3, 8);
  x.setRandom();
  const posenc::AttentionOptions<double> options{.causal = posenc::Causal::BottomRight};
  const auto positions = posenc::Positions::range(7, 3);
  module.forward(posenc::bsd(std::as_const(x)), positions, posenc::bsd(a), options);
  without.forward(posenc::bsd(std::as_const(x)), positions, posenc::bsd(b), options);
  for (Index i = 0; i < x.size(); ++i) CHECK(a.data()[i] == b.data()[i]);
}

TEST_CASE("module_settings: a rule that depends on the length needs it", "[interop][module]") {
  const auto model =
      read_hf_config(config("llama", {{"rope_scaling", {{"type", "dynamic"}, {"factor", 4.0}}}}));
  check_rejected(model,
                 "frequencies: this rule's frequencies depend on the length of the sequence, which "
                 "must be set");
  for (const Index length : {100, 100000}) {
    CHECK(module_settings<float>(model, 0, length).rope.frequencies() ==
          posenc::rope(model, length).frequencies());
  }
}

TEST_CASE("module_settings: sinks of a layer are passed on", "[interop][module]") {
  const auto model = read_hf_config(config("gpt_oss", {{"hidden_size", 512}}));
  const std::vector<float> sinks(32, 0.5F);
  CHECK(module_settings<float>(model, 0, sinks).options.sinks.data() == sinks.data());
  CHECK(module_settings<float>(model, 0, 100, sinks).options.sinks.data() == sinks.data());
  check_rejected(model, "attention_options: layer 0 has sinks in its weights: pass them");
}

TEST_CASE("module_settings: a file without the sizes of a module is rejected",
          "[interop][module]") {
  auto model = read_hf_config(config("mistral", {{"num_key_value_heads", 8}}));
  const auto rejected = [&](const char* what) {
    check_rejected(model, std::string("module_settings: the file does not define the ") + what +
                              " of layer 0");
  };
  model.attention[0].value_dim.reset();
  rejected("value_dim");
  model.attention[0].kv_heads.reset();
  rejected("kv_heads");
  model.attention[0].heads.reset();
  rejected("heads");
  model.hidden_size.reset();
  rejected("hidden_size");
}

TEST_CASE("module_settings: attention with parts that no module has is rejected",
          "[interop][module]") {
  const json next = config("qwen3_next", {{"num_key_value_heads", 2}});
  CHECK_THROWS_MATCHES(module_settings<float>(read_hf_config(next), 3), ConfigError,
                       Message("posenc::module_settings: layer 3 has a gate of its output, which "
                               "MultiHeadAttention does not have"));
  check_rejected(read_hf_config(config("olmo", {{"clip_qkv", 8.0}})),
                 "module_settings: layer 0 has a bound of queries, keys and values, which "
                 "MultiHeadAttention does not have");
  CHECK_NOTHROW(module_settings<float>(read_hf_config(config("olmo", {{"clip_qkv", nullptr}})), 0));
  support::hf::check_rejected(config("olmo", {{"clip_qkv", 0}}),
                              "'clip_qkv' in the configuration must be positive");
  support::GgufWriter writer;
  writer.architecture("dbrx")
      .integer("dbrx.embedding_length", 1024)
      .integer("dbrx.attention.head_count", 8)
      .integer("dbrx.block_count", 2)
      .real("dbrx.attention.clamp_kqv", 8);
  const auto dbrx = posenc::read_gguf(writer.bytes());
  CHECK(attention_of_layer(dbrx, 1).qkv_clip == 8);
  check_rejected(dbrx,
                 "module_settings: layer 0 has a bound of queries, keys and values, which "
                 "MultiHeadAttention does not have");
}

TEST_CASE("module_settings: rows of such parts name known types", "[interop][module]") {
  for (const auto& row : posenc::detail::beyond_module) {
    posenc::detail::for_each_name(row.names, [](std::string_view name) {
      INFO(name);
      CHECK((posenc::detail::find_hf_model_type(name) != nullptr ||
             posenc::detail::find_row(posenc::detail::gguf_architectures, name) != nullptr));
    });
  }
}

}  // namespace module_settings_test
