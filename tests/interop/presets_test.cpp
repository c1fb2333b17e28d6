// SPDX-License-Identifier: MIT
// Every preset equals the result of reading the model's config.json.
#include "interop/settings.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/presets.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace presets_test {

namespace presets = posenc::presets;
using posenc::read_hf_config;
using support::difference;

namespace {

std::string sample(const std::string& name) {
  std::string path = POSENC_SAMPLE_CONFIGS "/";
  path += name;
  std::ifstream file(path += ".json");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns the rotary part of the models' published configurations. A bare name is a file of
/// examples/configs.
const std::map<std::string, std::string>& published() {
  static const std::map<std::string, std::string> configs{
      {"gptj_6b", R"({"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_positions": 2048,
                      "rotary": true, "rotary_dim": 64})"},
      {"gpt_neox_20b", "gpt-neox-20b"},
      {"pythia_70m", R"({"model_type": "gpt_neox", "hidden_size": 512, "num_attention_heads": 8,
                         "max_position_embeddings": 2048, "rotary_emb_base": 10000,
                         "rotary_pct": 0.25})"},
      {"pythia_6_9b", R"({"model_type": "gpt_neox", "hidden_size": 4096, "num_attention_heads": 32,
                          "max_position_embeddings": 2048, "rotary_emb_base": 10000,
                          "rotary_pct": 0.25})"},
      {"chatglm_6b", R"({"model_type": "chatglm", "hidden_size": 4096, "num_attention_heads": 32,
                         "max_sequence_length": 2048, "position_encoding_2d": true})"},
      {"chatglm2_6b", R"({"model_type": "chatglm", "hidden_size": 4096, "num_attention_heads": 32,
                          "kv_channels": 128, "seq_length": 32768, "original_rope": true})"},
      {"glm4_9b", "glm-4-9b"},
      {"llama2_7b", R"({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
                        "max_position_embeddings": 4096, "rope_scaling": null})"},
      {"llama3_8b", R"({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
                        "max_position_embeddings": 8192, "rope_theta": 500000.0,
                        "rope_scaling": null})"},
      {"llama3_1_8b", "llama-3.1-8b"},
      {"llama3_2_1b", R"({"model_type": "llama", "hidden_size": 2048, "num_attention_heads": 32,
                          "head_dim": 64, "max_position_embeddings": 131072,
                          "rope_theta": 500000.0,
                          "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0,
                                           "low_freq_factor": 1.0, "rope_type": "llama3",
                                           "original_max_position_embeddings": 8192}})"},
      {"llama3_2_3b", R"({"model_type": "llama", "hidden_size": 3072, "num_attention_heads": 24,
                          "head_dim": 128, "max_position_embeddings": 131072,
                          "rope_theta": 500000.0,
                          "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0,
                                           "low_freq_factor": 1.0, "rope_type": "llama3",
                                           "original_max_position_embeddings": 8192}})"},
      {"mistral_7b_v0_1", "mistral-7b-v0.1"},
      {"mistral_7b_v0_2", R"({"model_type": "mistral", "hidden_size": 4096,
                              "num_attention_heads": 32, "max_position_embeddings": 32768,
                              "rope_theta": 1000000.0, "sliding_window": null})"},
      {"qwen2_5_7b", R"({"model_type": "qwen2", "hidden_size": 3584, "num_attention_heads": 28,
                         "max_position_embeddings": 131072, "rope_theta": 1000000.0})"},
      {"qwen2_5_7b_yarn", "qwen2.5-7b-yarn"},
      {"qwen2_vl_2b", "qwen2-vl-2b"},
      {"qwen3_vl_2b", "qwen3-vl-2b"},
      {"deepseek_v2", R"({"model_type": "deepseek_v2", "hidden_size": 2048,
                          "num_attention_heads": 16, "qk_nope_head_dim": 128,
                          "qk_rope_head_dim": 64, "v_head_dim": 128,
                          "max_position_embeddings": 163840, "rope_theta": 10000,
                          "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40,
                                           "mscale": 0.707, "mscale_all_dim": 0.707,
                                           "original_max_position_embeddings": 4096,
                                           "type": "yarn"}})"},
      {"deepseek_v3", "deepseek-v3"},
      {"deepseek_v4_flash", R"({"model_type": "deepseek_v4", "hidden_size": 4096,
                                "num_attention_heads": 64, "num_hidden_layers": 43,
                                "num_key_value_heads": 1, "head_dim": 512, "qk_rope_head_dim": 64,
                                "max_position_embeddings": 1048576, "sliding_window": 128,
                                "rope_theta": 10000, "compress_rope_theta": 160000,
                                "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 16,
                                                 "original_max_position_embeddings": 65536,
                                                 "type": "yarn"},
                                "compress_ratios": [0, 0, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4,
                                                  128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128,
                                                  4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 0]})"},
      {"gpt_oss", "gpt-oss-20b"},
      {"gemma2_9b", R"({"model_type": "gemma2", "hidden_size": 3584, "num_attention_heads": 16,
                        "head_dim": 256, "max_position_embeddings": 8192,
                        "query_pre_attn_scalar": 256, "rope_theta": 10000.0})"},
      {"gemma2_27b", R"({"model_type": "gemma2", "hidden_size": 4608, "num_attention_heads": 32,
                         "head_dim": 128, "max_position_embeddings": 8192,
                         "query_pre_attn_scalar": 144, "rope_theta": 10000.0})"},
      {"gemma3_1b", R"({"model_type": "gemma3_text", "hidden_size": 1152, "num_attention_heads": 4,
                        "head_dim": 256, "num_hidden_layers": 26,
                        "max_position_embeddings": 32768, "query_pre_attn_scalar": 256,
                        "rope_theta": 1000000, "rope_local_base_freq": 10000,
                        "rope_scaling": null, "sliding_window_pattern": 6})"},
      {"gemma3_4b", "gemma-3-4b"},
      {"gemma4", R"({"model_type": "gemma4", "text_config": {
                       "model_type": "gemma4_text", "hidden_size": 2816,
                       "num_attention_heads": 16, "head_dim": 256, "global_head_dim": 512,
                       "num_hidden_layers": 30, "max_position_embeddings": 262144,
                       "rope_parameters": {
                         "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0,
                                            "partial_rotary_factor": 0.25},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}})"},
      {"olmo_7b", R"({"model_type": "olmo", "hidden_size": 4096, "num_attention_heads": 32,
                      "max_position_embeddings": 2048, "rope_theta": 10000.0, "clip_qkv": 8.0})"},
      {"olmo2_1b", R"({"model_type": "olmo2", "hidden_size": 2048, "num_attention_heads": 16,
                       "max_position_embeddings": 4096, "rope_theta": 500000})"},
  };
  return configs;
}

}  // namespace

TEST_CASE("presets: equal what the reader makes of the model's configuration", "[interop]") {
  for (const posenc::RotaryPreset& preset : presets::all()) {
    INFO(preset.name);
    REQUIRE(published().count(preset.name) == 1);
    const std::string& given = published().at(preset.name);
    const auto model = read_hf_config(given.front() == '{' ? given : sample(given));
    CHECK(difference(model, preset.model) == "");
    CHECK_NOTHROW(validate(preset.model));
    CHECK(std::string(preset.source) != "");
  }
  CHECK(presets::all().size() == published().size());
}

TEST_CASE("presets: found by name", "[interop]") {
  for (const posenc::RotaryPreset& preset : presets::all()) {
    CHECK(&presets::model(preset.name) == &preset.model);
  }
  CHECK_THROWS_AS(presets::model(""), posenc::ConfigError);
  CHECK_THROWS_WITH(
      presets::model("llama3"),
      Catch::Matchers::StartsWith(
          "posenc::presets::model: no preset has the name 'llama3'; there are gptj_6b, "));
}

TEST_CASE("presets: Gemma 4's sizes are those of its files", "[interop]") {
  const auto model = presets::gemma4(60);
  CHECK(model.trained_length == 262144);
  CHECK(presets::gemma4(42).trained_length == 131072);
  CHECK(model.softmax_scale == 1);
  CHECK(model.layer_types.size() == 60);
  CHECK(presets::gemma4(8).layer_types.back() == "full_attention");
  for (const posenc::Index layers : {posenc::Index{-1}, posenc::Index{0}, posenc::Index{35}}) {
    CHECK_THROWS_WITH(presets::gemma4(layers),
                      "posenc::presets::gemma4: layers must be 30, 42, 60, or those of a custom "
                      "model, but are " +
                          std::to_string(layers));
  }
}

TEST_CASE("presets: Phi-3's takes the divisors of its file", "[interop]") {
  std::vector<double> shorter, longer;
  for (int i = 0; i < 48; ++i) {
    shorter.push_back(1 + i / 64.0);
    longer.push_back(1 + i);
  }
  nlohmann::json config = {{"model_type", "phi3"},
                           {"hidden_size", 3072},
                           {"num_attention_heads", 32},
                           {"max_position_embeddings", 131072},
                           {"original_max_position_embeddings", 4096},
                           {"rope_theta", 10000.0}};
  const auto preset = presets::phi3_mini_128k(shorter, longer);
  for (const char* type : {"longrope", "su", "yarn"}) {
    config["rope_scaling"] = {{"type", type}, {"short_factor", shorter}, {"long_factor", longer}};
    CHECK(difference(read_hf_config(config), preset) == "");
  }
  CHECK(frequencies(rotary(preset), 4096).attention_factor() == Approx(1.19024).epsilon(1e-5));
  CHECK(frequencies(rotary(preset), 4096).inv_freq()[47] ==
        Approx(std::pow(10000.0, -94 / 96.0) / (1 + 47 / 64.0)).epsilon(1e-12));
  CHECK(frequencies(rotary(preset), 4097).inv_freq()[47] ==
        Approx(std::pow(10000.0, -94 / 96.0) / 48).epsilon(1e-12));
}

TEST_CASE("presets: presets of other encodings make their encoders", "[interop]") {
  CHECK_NOTHROW(posenc::Sinusoidal(presets::transformer_base()));
  CHECK(posenc::T5Buckets(presets::t5_encoder()).thresholds().back() == 91);
  CHECK(posenc::T5Buckets(presets::t5_decoder()).thresholds().back() == 113);
  CHECK_NOTHROW(posenc::Alibi(presets::bloom_176b()));
  CHECK_NOTHROW(posenc::Alibi(presets::mpt_7b()));
  CHECK(presets::opt(768).config.row_offset == 2);
  CHECK(presets::transformer_base().model_dim == 512);
  CHECK(presets::qwen2_vl_vision_tower().axis_count() == 2);
  CHECK(presets::qwen2_vl_vision_tower().frequencies().inv_freq()[19] ==
        Approx(std::pow(10000.0, -19 / 20.0)).epsilon(1e-12));
  CHECK(presets::bert_base().rows == 512);
  CHECK(presets::gpt2().rows == 1024);
}

}  // namespace presets_test
