// SPDX-License-Identifier: MIT
// Types of 2026 with layers whose keys an indexer chooses, or with partial scaling; types without a
// rotation; and lists whose length is not that of the model.
#include "interop/hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/multimodal_axes.hpp>

#include <chrono>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

namespace hf_late_types_test {

using nlohmann::json;
using posenc::Index;
using posenc::LayerKind;
using posenc::LayerWindow;
using posenc::PairingKind;
using posenc::read_hf_config;
using posenc::Unscaled;
using posenc::YarnScaling;
using support::hf::check_rejected;
using support::hf::config;
using support::hf::with;

const std::string fourier =
    "Fourier series (FoPE): sums of sines and cosines, with coefficients in ";

TEST_CASE("read_hf_config: a list must have an entry for each layer", "[interop]") {
  const std::string in = "' in the configuration has ";
  const std::string full = "full_attention", local = "sliding_attention";
  const std::vector<std::string> three(3, full), eight(8, full);
  for (const char* type : {"llama", "qwen3", "gemma3_text", "olmo3", "exaone4", "mistral"}) {
    INFO(type);
    check_rejected(config(type, {{"layer_types", three}, {"rope_theta", 1e4}}),
                   "'layer_types" + in + "3 entries for 4 layers");
    check_rejected(config(type, {{"layer_types", eight}, {"rope_theta", 1e4}}),
                   "'layer_types" + in + "8 entries for 4 layers");
    check_rejected(config(type, {{"layer_types", json::array()}, {"rope_theta", 1e4}}),
                   "'layer_types" + in + "0 entries for 4 layers");
  }
  CHECK(read_hf_config(config("llama", {{"layer_types", std::vector(4, full)}})).layer_count == 4);
  check_rejected(config("smollm3", {{"no_rope_layers", {1, 1, 1, 0, 1}}}),
                 "'no_rope_layers" + in + "5 entries for 4 layers");
  CHECK(read_hf_config(config("smollm3", {{"no_rope_layers", json::array()}}))
            .layers_without_rotary == std::vector<Index>{3});
  check_rejected(config("mimo_v2_flash", {{"hybrid_layer_pattern", {0, 1, 1}}}),
                 "'hybrid_layer_pattern" + in + "3 entries for 4 layers");
  check_rejected(config("granitemoehybrid", {{"position_embedding_type", "rope"},
                                             {"layers_block_type", {"mamba", "attention"}}}),
                 "'layers_block_type" + in + "2 entries for 4 layers");
  // Lists of these types continue for layers that predict further tokens.
  const json step = config(
      "step3p5",
      {{"num_attention_groups", 8}, {"rope_theta", 10000}, {"layer_types", std::vector(5, full)}});
  CHECK(read_hf_config(step).layer_count == 4);
}

TEST_CASE("read_hf_config: Cohere's base must be in the file", "[interop]") {
  check_rejected(config("cohere"), "the configuration must have rope_theta");
}

// Source: huggingface/transformers, qwen4_exp/configuration_qwen4_exp.py (075d0ae)
TEST_CASE("read_hf_config: Qwen4-Exp has linear layers, and layers whose keys an indexer chooses",
          "[interop]") {
  const std::string linear = "linear_attention";
  const json text = config("qwen4_exp_text",
                           {{"head_dim", 256},
                            {"num_key_value_heads", 2},
                            {"rope_parameters",
                             {{"rope_type", "default"},
                              {"rope_theta", 10000000},
                              {"partial_rotary_factor", 0.25},
                              {"mrope_interleaved", true},
                              {"mrope_section", {11, 11, 10}}}},
                            {"layer_types", {linear, linear, linear, "deepseek_sparse_attention"}},
                            {"linear_num_key_heads", 16},
                            {"indexer_n_heads", 4},
                            {"indexer_kv_heads", 1},
                            {"indexer_head_dim", 128},
                            {"indexer_budget", 2048},
                            {"indexer_compress_ratio", 4},
                            {"ple_layer_ids", {2}},
                            {"hc_count", 4}});
  const json whole = {{"model_type", "qwen4_exp"},
                      {"text_config", text},
                      {"vision_config", {{"model_type", "qwen4_exp"}}}};
  const auto model = read_hf_config(whole);
  CHECK(model.model_type == "qwen4_exp_text");
  CHECK(rotary(model).pairing == PairingKind::HalfRotate);
  CHECK(rotary(model).axes == posenc::mrope_interleaved({11, 11, 10}, posenc::MropeTail::Time));
  CHECK(rotary_dim(rotary(model)) == 64);
  CHECK(softmax_scale(model) == 1.0 / 16);
  CHECK(attention_of_layer(model, 0).kind == LayerKind::Linear);
  CHECK(rotary_of_layer(model, 0) == nullptr);
  CHECK(attention_of_layer(model, 3).kind == LayerKind::Sparse);
  CHECK(attention_of_layer(model, 3).kv_heads == 2);
  REQUIRE(model.vision.has_value());
  CHECK(model.vision->refused.empty());

  json other = text;
  // The first of these has an additional embedding.
  for (const char* name : {"hybrid_indexed", "indexed_attention", "qwen_sparse_attention"}) {
    other["layer_types"][3] = name;
    CHECK(attention_of_layer(read_hf_config(other), 3).kind == LayerKind::Sparse);
    CHECK(attention_of_layer(read_hf_config(other), 0).kind == LayerKind::Linear);
  }
  other["layer_types"][3] = "sliding_attention";
  check_rejected(
      other,
      "'layer_types' in the configuration has the type 'sliding_attention', which is unknown in "
      "this model");
  other.erase("layer_types");
  CHECK(read_hf_config(other).layer_types ==
        std::vector<std::string>{linear, linear, linear, "full_attention"});
}

TEST_CASE("read_hf_config: DeepSeek-V3.2's and GLM-5's indexers choose the keys of all layers",
          "[interop]") {
  const json latent = {{"qk_nope_head_dim", 128}, {"qk_rope_head_dim", 64},  {"v_head_dim", 128},
                       {"rope_theta", 10000},     {"rope_interleave", true}, {"index_topk", 2048}};
  for (const char* type : {"deepseek_v32", "glm_moe_dsa"}) {
    INFO(type);
    const auto model = read_hf_config(config(type, latent));
    CHECK(attention_of_layer(model, 3).kind == LayerKind::Sparse);
    CHECK(attention_of_layer(model, 3).window == LayerWindow{});
  }
  CHECK(attention_of_layer(read_hf_config(config("deepseek_v3", latent)), 3).kind ==
        LayerKind::Global);
}

// Source: huggingface/transformers, minimax_m3_vl/configuration_minimax_m3_vl.py (01a05aa)
TEST_CASE("read_hf_config: MiniMax-M3 has layers whose keys an indexer chooses", "[interop]") {
  const json text = config("minimax_m3", {{"rope_theta", 5000000},
                                          {"head_dim", 128},
                                          {"rotary_dim", 64},
                                          {"partial_rotary_factor", 0.5},
                                          {"attention_output_gate", false},
                                          {"sparse_attention_config",
                                           {{"use_sparse_attention", true},
                                            {"sparse_topk_blocks", 16},
                                            {"sparse_local_block", 1},
                                            {"sparse_attention_freq", {0, 0, 1, 1}}}}});
  const auto check = [](const posenc::ModelSettings& model) {
    CHECK(model.model_type == "minimax_m3_vl_text");
    CHECK(rotary_dim(rotary(model)) == 64);
    REQUIRE(model.attention.size() == 4);
    CHECK(model.attention[1].kind == LayerKind::Global);
    CHECK(model.attention[2].kind == LayerKind::Sparse);
  };
  check(read_hf_config(text));
  check(read_hf_config(with(text, {{"model_type", "minimax_m3_vl"}})));
  json part = text;
  part.erase("model_type");
  check(read_hf_config(json{{"model_type", "minimax_m3_vl"}, {"text_config", part}}));
  // The class builds its own text model from the part, regardless of the type that the part names
  // and of its other keys.
  json dense = with(part, {{"model_type", "minimax_m2"}});
  dense.erase("sparse_attention_config");
  const auto model = read_hf_config(json{{"model_type", "minimax_m3_vl"}, {"text_config", dense}});
  CHECK(model.model_type == "minimax_m3_vl_text");
  CHECK(model.attention[2].kind == LayerKind::Global);
}

TEST_CASE("read_hf_config: MiniCPM 4 chooses blocks of keys in all layers", "[interop]") {
  const json minicpm = config("minicpm", {{"rope_theta", 10000.0}, {"num_key_value_heads", 2}});
  const json sparse = {{"kernel_size", 32}, {"block_size", 64}, {"topk", 64}, {"dense_len", 8192}};
  const auto kind = [&minicpm](const json& part) {
    return attention_of_layer(read_hf_config(with(minicpm, {{"sparse_config", part}})), 3).kind;
  };
  CHECK(kind(sparse) == LayerKind::Sparse);
  CHECK(kind(nullptr) == LayerKind::Global);
  CHECK(attention_of_layer(read_hf_config(minicpm), 0).kind == LayerKind::Global);
  CHECK(rotary_of_layer(read_hf_config(with(minicpm, {{"sparse_config", sparse}})), 3) != nullptr);
  json uncounted = with(minicpm, {{"sparse_config", sparse}});
  uncounted.erase("num_hidden_layers");
  check_rejected(uncounted, "the configuration must have num_hidden_layers");
}

// Source: huggingface/transformers, molmo2/configuration_molmo2.py (05c6ac4)
TEST_CASE("read_hf_config: Molmo 2 may scale some layers alone", "[interop]") {
  const json text = config("molmo2_text", {{"head_dim", 128},
                                           {"num_key_value_heads", 8},
                                           {"rope_theta", 1000000},
                                           {"rope_scaling", nullptr},
                                           {"rope_scaling_layers", nullptr},
                                           {"qk_norm_type", "qwen3"},
                                           {"qkv_bias", false},
                                           {"norm_after", false}});
  const auto read = [](const json& part) {
    return read_hf_config(json{{"model_type", "molmo2"},
                               {"text_config", part},
                               {"vit_config", {{"image_patch_size", 14}}}});
  };
  const auto plain = read(text);
  CHECK(rotary(plain).pairing == PairingKind::HalfRotate);
  CHECK(std::get<Unscaled>(rotary(plain).rule).base == 1000000);
  CHECK(attention_of_layer(plain, 0).kind == LayerKind::Global);
  CHECK(attention_of_layer(plain, 0).kv_heads == 8);

  const json yarn = {
      {"rope_type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 8192}};
  const json scaled = with(text, {{"rope_scaling", yarn}});
  CHECK(std::holds_alternative<YarnScaling>(rotary(read(scaled)).rule));
  const auto some = read(with(scaled, {{"rope_scaling_layers", {3}}}));
  REQUIRE(some.layer_count == 4);
  CHECK(std::get<Unscaled>(rotary_of_layer(some, 0)->rule).base == 1000000);
  CHECK(std::get<YarnScaling>(rotary_of_layer(some, 3)->rule).base == 1000000);
  CHECK(attention_of_layer(some, 0).kind == LayerKind::Global);
  CHECK(attention_of_layer(some, 0).window == LayerWindow{});
  const json beside =
      with(scaled, {{"rope_scaling_layers", {3}}, {"original_max_position_embeddings", 4096}});
  CHECK(std::get<YarnScaling>(rotary_of_layer(read(beside), 3)->rule).original_max_position ==
        4096);
  const auto all = read(with(scaled, {{"rope_scaling_layers", {0, 1, 2, 3}}}));
  CHECK(std::holds_alternative<YarnScaling>(rotary(all).rule));
  const auto none = read(with(scaled, {{"rope_scaling_layers", json::array()}}));
  CHECK(std::holds_alternative<Unscaled>(rotary(none).rule));
  json flat = with(scaled, {{"rope_scaling_layers", {4}}});
  check_rejected(flat, "'rope_scaling_layers' in the configuration must list existing layers");
}

// Searching the list for each layer took more than a minute.
TEST_CASE("read_hf_config: a list of scaled layers is read once, not for each layer", "[interop]") {
  using std::chrono::steady_clock;
  const json file =
      config("molmo2_text", {{"rope_theta", 1000000},
                             {"num_hidden_layers", 65536},
                             {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}},
                             {"rope_scaling_layers", std::vector<int>(500000, 65535)}});
  const auto start = steady_clock::now();
  const auto model = read_hf_config(file);
  CHECK(steady_clock::now() - start < std::chrono::seconds(8));
  CHECK(std::holds_alternative<Unscaled>(rotary_of_layer(model, 65534)->rule));
  CHECK(std::holds_alternative<posenc::LinearScaling>(rotary_of_layer(model, 65535)->rule));
}

// Source: huggingface/transformers, hunyuan_vl/configuration_hunyuan_vl.py (043bb8d)
TEST_CASE("read_hf_config: XD-RoPE may be saved as dynamic, with its sections under M-RoPE's name",
          "[interop]") {
  for (const char* type : {"hunyuan_vl", "hunyuan_vl_text"}) {
    for (const char* name : {"rope_scaling", "rope_parameters"}) {
      json dict = {{"rope_type", "dynamic"},
                   {"rope_theta", 10000},
                   {"alpha", 1000},
                   {"mrope_section", {16, 16, 16, 16}}};
      const auto model = read_hf_config(config(type, {{name, dict}}));
      CHECK(rotary(model).axes == posenc::xdrope_axes({16, 16, 16, 16}));
      CHECK(std::get<posenc::AlphaNtkScaling>(rotary(model).rule).alpha == 1000);
      dict["xdrope_section"] = dict["mrope_section"];
      CHECK(rotary(read_hf_config(config(type, {{name, dict}}))).axes == rotary(model).axes);
      dict["xdrope_section"] = {24, 16, 16, 8};
      check_rejected(config(type, {{name, dict}}),
                     std::string("'mrope_section' in ") + name + " contradicts xdrope_section");
    }
  }
  // Three sections are other axes and are not supported.
  CHECK_THROWS_AS(read_hf_config(config(
                      "hunyuan_vl",
                      {{"rope_scaling",
                        {{"type", "dynamic"}, {"alpha", 1000}, {"mrope_section", {24, 24, 16}}}}})),
                  posenc::ConfigError);
}

TEST_CASE("read_hf_config: YaRN scales the frequencies of M-RoPE's pairs by their index",
          "[interop]") {
  const json yarn = {
      {"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  const auto flat = read_hf_config(config("qwen2", {{"rope_theta", 1e6}, {"rope_scaling", yarn}}));
  const auto model = read_hf_config(config(
      "qwen2_5_vl",
      {{"rope_theta", 1e6}, {"rope_scaling", with(yarn, {{"mrope_section", {16, 24, 24}}})}}));
  CHECK(rotary(model).axes == posenc::mrope_chunked({16, 24, 24}));
  CHECK(frequencies(rotary(model), 1) == frequencies(rotary(flat), 1));
}

TEST_CASE("read_hf_config: types without rotation are rejected by name", "[interop]") {
  for (const char* type : {"intern_s1_pro", "interns1_pro", "interns1_pro_text"}) {
    check_rejected(config(type), std::string("the model_type '") + type +
                                     "' is not supported: it has " + fourier + "its weights");
  }
  for (const char* key : {"fope_init_factor", "fope_sep_head", "num_inv_freq"}) {
    check_rejected(config("qwen3_moe", {{"rope_scaling", {{"rope_type", "default"}, {key, 1}}}}),
                   std::string("'") + key +
                       "' in rope_scaling selects Fourier series (FoPE): sums of sines and "
                       "cosines, with coefficients in the weights, which are not a rotation");
  }
  check_rejected(config("vjepa2"),
                 "the model_type 'vjepa2' is not supported: it has adjacent pairs whose two "
                 "channels use different angles, which is not a rotation");
  const json kimi = config("kimi_linear", {{"qk_rope_head_dim", 64}, {"mla_use_nope", true}});
  const std::string none =
      "this 'kimi_linear' has no rotary encoding: it has attention without positions between "
      "linear layers";
  check_rejected(kimi, none);
  check_rejected(json{{"model_type", "kimi_k3"}, {"text_config", kimi}}, none);
}

}  // namespace hf_late_types_test
