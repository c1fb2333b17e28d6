// SPDX-License-Identifier: MIT
// Heads, window and kind of each layer, from config.json and its class.
#include "interop/hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>

#include <optional>
#include <vector>

namespace hf_attention_test {

using Catch::Matchers::Message;
using nlohmann::json;
using posenc::ConfigError;
using posenc::Index;
using posenc::LayerAttention;
using posenc::LayerKind;
using posenc::LayerWindow;
using posenc::ModelSettings;
using posenc::read_hf_config;
using posenc::WindowKind;
using support::hf::check_rejected;

json config(const char* model_type, const json& more = json::object()) {
  json result = {{"model_type", model_type},         {"hidden_size", 4096},
                 {"num_attention_heads", 32},        {"num_hidden_layers", 6},
                 {"max_position_embeddings", 32768}, {"rope_theta", 10000.0}};
  result.update(more);
  return result;
}

/// Returns a file without a base, which some classes do not read.
json plain(const char* model_type, const json& more = json::object()) {
  json result = config(model_type, more);
  result.erase("rope_theta");
  return result;
}

LayerAttention layer(const json& of, Index number = 0) {
  return attention_of_layer(read_hf_config(of), number);
}

/// Returns the window size of each layer, 0 for none. All windows must be of one kind.
std::vector<Index> windows(const json& of, WindowKind kind = WindowKind::Sliding) {
  const ModelSettings model = read_hf_config(of);
  std::vector<Index> sizes;
  for (const LayerAttention& one : model.attention) {
    REQUIRE(one.window.has_value());
    if (one.window->kind != WindowKind::None) CHECK(one.window->kind == kind);
    sizes.push_back(one.window->size);
  }
  return sizes;
}

TEST_CASE("read_hf_config attention: heads of keys are the file's or the class's", "[interop]") {
  CHECK(layer(config("llama")).heads == 32);
  CHECK(layer(config("llama")).kv_heads == 32);
  CHECK(layer(config("llama", {{"num_key_value_heads", 8}})).kv_heads == 8);
  CHECK(layer(config("mistral")).kv_heads == 8);
  CHECK(layer(config("qwen2", {{"num_attention_heads", 28}, {"hidden_size", 3584}})).kv_heads ==
        std::nullopt);  // the class's 32 does not divide the heads
  CHECK(layer(config("mistral", {{"num_key_value_heads", nullptr}})).kv_heads == std::nullopt);
  CHECK(layer(config("ernie4_5")).kv_heads == 2);
  CHECK(layer(config("bailing_moe", {{"rope_theta", 600000}})).kv_heads == std::nullopt);
  CHECK(layer(config("falcon")).kv_heads == 1);
  CHECK(layer(config("falcon", {{"multi_query", false}})).kv_heads == 32);
  CHECK(
      layer(config("falcon", {{"new_decoder_architecture", true}, {"num_kv_heads", 4}})).kv_heads ==
      4);
  const json glm = plain("chatglm", {{"multi_query_attention", true}});
  json grouped = glm;
  grouped["multi_query_group_num"] = 2;
  CHECK(layer(grouped).kv_heads == 2);
  CHECK(layer(plain("chatglm")).kv_heads == 32);
  check_rejected(
      config("llama", {{"num_key_value_heads", 5}}),
      "'num_key_value_heads' in the configuration does not divide the number of heads, 32");
  CHECK(layer(config("llama", {{"head_dim", 128},
                               {"num_attention_heads", 1 << 20},
                               {"num_key_value_heads", 1 << 20}}))
            .heads == 1 << 20);
  check_rejected(config("llama", {{"head_dim", 128}, {"num_attention_heads", (1 << 20) + 1}}),
                 "'num_attention_heads' in the configuration must lie between 1 and 1048576");
  check_rejected(config("llama", {{"num_key_value_heads", 0}}),
                 "'num_key_value_heads' in the configuration must lie between 1 and 1048576");
}

TEST_CASE(
    "read_hf_config attention: widths of heads, where layers differ and where values are narrower",
    "[interop]") {
  const auto llama = layer(config("llama"));
  CHECK(llama.head_dim == 128);
  CHECK(llama.value_dim == 128);
  CHECK(llama.sinks == false);
  CHECK(llama.kind == LayerKind::Global);

  const auto latent = layer(config("deepseek_v3", {{"qk_nope_head_dim", 128},
                                                   {"qk_rope_head_dim", 64},
                                                   {"num_key_value_heads", 32},
                                                   {"v_head_dim", 128}}));
  CHECK(latent.head_dim == 192);
  CHECK(latent.value_dim == 128);
  CHECK(latent.kv_heads == 32);
  CHECK(layer(config("deepseek_v3", {{"qk_nope_head_dim", 128},
                                     {"qk_rope_head_dim", 64},
                                     {"num_hidden_layers", 1},
                                     {"layer_types", {"full_attention"}}}))
            .kv_heads == 32);

  const json gemma = plain(
      "gemma4_text",
      {{"num_key_value_heads", 8}, {"num_global_key_value_heads", 2}, {"attention_k_eq_v", true}});
  CHECK(layer(gemma, 0).head_dim == 256);
  CHECK(layer(gemma, 0).kv_heads == 8);
  CHECK(layer(gemma, 5).head_dim == 512);
  CHECK(layer(gemma, 5).value_dim == 512);
  CHECK(layer(gemma, 5).kv_heads == 2);
  json apart = gemma;
  apart["attention_k_eq_v"] = false;
  CHECK(layer(apart, 5).kv_heads == 8);
  apart["num_global_key_value_heads"] = 0;
  CHECK_THROWS_AS(posenc::read_hf_config(apart), posenc::ConfigError);
}

TEST_CASE("read_hf_config attention: windows by type, by habit of the class, and by a switch",
          "[interop]") {
  const std::vector<Index> none(6, 0), all(6, 4096);
  CHECK(windows(config("llama")) == none);
  CHECK(windows(config("mistral")) == all);
  CHECK(windows(config("mistral", {{"sliding_window", nullptr}})) == none);
  CHECK(windows(config("mixtral")) == none);
  CHECK(windows(config("phi3", {{"sliding_window", 4096}})) == all);
  CHECK(windows(config("gemma2", {{"sliding_window", 512}})) ==
        std::vector<Index>{512, 0, 512, 0, 512, 0});
  CHECK(windows(config("gpt_oss")) == std::vector<Index>{128, 0, 128, 0, 128, 0});
  CHECK(layer(config("gpt_oss")).sinks == true);
  CHECK(windows(config("gemma3_text")) == std::vector<Index>{4096, 4096, 4096, 4096, 4096, 0});
  CHECK(windows(plain("modernbert"), WindowKind::BothSides) ==
        std::vector<Index>{0, 128, 128, 0, 128, 128});
  CHECK(windows(config("llama4_text"), WindowKind::Chunked) ==
        std::vector<Index>{8192, 8192, 8192, 0, 8192, 8192});
  CHECK(windows(config("llama4_text", {{"attention_chunk_size", nullptr}})) == none);

  const json qwen = config("qwen2", {{"sliding_window", 1024}, {"max_window_layers", 4}});
  CHECK(windows(qwen) == none);
  json switched = qwen;
  switched["use_sliding_window"] = true;
  CHECK(windows(switched) == std::vector<Index>{0, 0, 0, 0, 1024, 1024});
  // Defaults of max_window_layers.
  const auto first_windowed = [](const char* type) {
    json of = config(type, {{"num_hidden_layers", 82}, {"use_sliding_window", true}});
    if (type != std::string("qwen2")) of["rope_scaling"] = {{"mrope_section", {16, 24, 24}}};
    const auto sizes = windows(of);
    return std::find(sizes.begin(), sizes.end(), 4096) - sizes.begin();
  };
  for (const char* type : {"qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"}) {
    CHECK(first_windowed(type) == 80);
  }
  CHECK(first_windowed("qwen2") == 28);
  // transformers 4.4x: from max_window_layers on; later every second layer before that.
  switched["model_type"] = "qwen2_moe";
  check_rejected(switched,
                 "'use_sliding_window' in the configuration is true, and releases of the class "
                 "differ in the layers with a window; list the types of layers in layer_types");
  json told = switched;
  told["layer_types"] = std::vector<std::string>(6, "full_attention");
  told["layer_types"][2] = "sliding_attention";
  CHECK(windows(told) == std::vector<Index>{0, 0, 1024, 0, 0, 0});
  told = switched;
  told["use_sliding_window"] = false;
  CHECK(windows(told) == none);
  switched["model_type"] = "qwen3_moe";
  CHECK(windows(switched) == std::vector<Index>(6, 1024));
  switched["model_type"] = "smollm3";
  switched["rope_theta"] = 10000.0;
  CHECK(windows(switched) == std::vector<Index>{0, 0, 0, 1024, 0, 0});

  json listed = config("gemma2", {{"num_hidden_layers", 2}, {"sliding_window", 512}});
  listed["layer_types"] = {"full_attention", "sliding_attention"};
  CHECK(windows(listed) == std::vector<Index>{0, 512});
}

TEST_CASE("read_hf_config attention: windows on both sides belong to encoders", "[interop]") {
  const json encoder = config("gemma3_text", {{"use_bidirectional_attention", true}});
  CHECK(layer(encoder).window == LayerWindow{WindowKind::BothSides, 4096});
  CHECK(layer(encoder).kind == LayerKind::Sliding);
  const json pictures = plain("gemma4_text", {{"use_bidirectional_attention", "vision"}});
  CHECK(layer(pictures).window == LayerWindow{WindowKind::Sliding, 512});
  const json both = plain("gemma4_text", {{"use_bidirectional_attention", "all"}});
  CHECK(layer(both).window == LayerWindow{WindowKind::BothSides, 512});
  check_rejected(
      plain("gemma4_text", {{"use_bidirectional_attention", "text"}}),
      "'use_bidirectional_attention' in the configuration has a value that is not supported");
}

TEST_CASE("read_hf_config attention: a window of layers that never read it is no setting",
          "[interop]") {
  check_rejected(config("llama", {{"sliding_window", 4096}}),
                 "'sliding_window' in the configuration is read by no class of this type, whose "
                 "layers attend to all keys; remove it if the weights were trained so");
  CHECK(windows(config("llama", {{"sliding_window", 32768}})) == std::vector<Index>(6, 0));
  CHECK(windows(config("llama", {{"sliding_window", 4096}, {"use_sliding_window", false}})) ==
        std::vector<Index>(6, 0));
  check_rejected(
      config("mistral", {{"use_sliding_window", false}}),
      "'use_sliding_window' in the configuration is false, which no class of this type reads; "
      "set sliding_window to null if layers attend to all keys");
  CHECK(windows(config("mistral", {{"use_sliding_window", false}, {"sliding_window", nullptr}})) ==
        std::vector<Index>(6, 0));
  check_rejected(config("mistral", {{"sliding_window", 0}}),
                 "'sliding_window' in the configuration must be positive");
  json nowhere = config("mixtral", {{"num_hidden_layers", 1}});
  nowhere["layer_types"] = {"sliding_attention"};
  check_rejected(
      nowhere,
      "'layer_types' in the configuration has layers of the type 'sliding_attention', but there "
      "is no window");
}

TEST_CASE("read_hf_config attention: unknown settings are absent", "[interop]") {
  const posenc::HfConfigOptions half{
      .pairing = posenc::PairingKind::HalfRotate, .rotary_share = 1, .softmax_scale = 0.125};
  const auto unknown = [&](const json& more) {
    return attention_of_layer(read_hf_config(config("other", more), half), 0);
  };
  CHECK(unknown(json::object()).heads == 32);
  CHECK(unknown(json::object()).kv_heads == std::nullopt);
  CHECK(unknown(json::object()).value_dim == std::nullopt);
  CHECK(unknown(json::object()).sinks == std::nullopt);
  // A class may have a window by default.
  CHECK(unknown(json::object()).window == std::nullopt);
  CHECK(unknown({{"sliding_window", nullptr}}).window == LayerWindow{});
  CHECK(unknown({{"use_sliding_window", false}}).window == LayerWindow{});
  const json full(std::vector<std::string>(6, "full_attention"));
  CHECK(unknown({{"layer_types", full}}).window == LayerWindow{});
  CHECK(unknown({{"sliding_window", 4096}}).window == std::nullopt);
  CHECK(unknown({{"sliding_window", 4096}}).kind == std::nullopt);
}

TEST_CASE("read_hf_config attention: kinds of layers", "[interop]") {
  const auto kinds = [](const json& of) {
    std::vector<std::optional<LayerKind>> found;
    for (const LayerAttention& one : read_hf_config(of).attention) found.push_back(one.kind);
    return found;
  };
  using enum LayerKind;
  using Kinds = std::vector<std::optional<LayerKind>>;
  CHECK(kinds(config("qwen3_next", {{"num_hidden_layers", 4}})) ==
        Kinds{Linear, Linear, Linear, Global});
  CHECK(kinds(config("lfm2", {{"num_hidden_layers", 2}, {"full_attn_idxs", {1}}})) ==
        Kinds{Convolution, Global});
  CHECK(kinds(config("mllama_text_model",
                     {{"num_hidden_layers", 2}, {"cross_attention_layers", {1}}})) ==
        Kinds{Global, Cross});
  CHECK(kinds(config("cohere2", {{"num_hidden_layers", 4}})) ==
        Kinds{Sliding, Sliding, Sliding, Global});
  CHECK(kinds(config("llama4_text", {{"num_hidden_layers", 4}})) ==
        Kinds{Chunked, Chunked, Chunked, Global});
  const auto linear = layer(config("qwen3_next"));
  CHECK(linear.heads == std::nullopt);
  CHECK(linear.window == std::nullopt);
}

TEST_CASE("read_hf_config attention: layers without a number", "[interop]") {
  const auto alike = [](const char* type) {
    json of = config(type);
    of.erase("num_hidden_layers");
    return read_hf_config(of);
  };
  CHECK(alike("llama").layer_count == 0);
  CHECK(attention_of_layer(alike("llama"), 70).kv_heads == 32);
  CHECK(alike("gemma2").attention.empty());
  CHECK_THROWS_MATCHES(attention_of_layer(alike("gemma2"), 0), ConfigError,
                       Message("posenc::attention_of_layer: the attention of 0 layers is known, "
                               "not that of layer 0"));
  CHECK_THROWS_MATCHES(attention_of_layer(read_hf_config(config("llama")), 6), ConfigError,
                       Message("posenc::attention_of_layer: the layer must be one of 6 but is 6"));
}

TEST_CASE("read_hf_config attention: a temperature belongs to layers", "[interop]") {
  const auto llama = read_hf_config(config("llama4_text"));
  CHECK_FALSE(temperature_of_layer(llama, 0));
  CHECK(temperature_of_layer(llama, 3) == llama.query_temperature);
  CHECK_FALSE(temperature_of_layer(read_hf_config(config("llama")), 0));
}

}  // namespace hf_attention_test
