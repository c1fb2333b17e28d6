// SPDX-License-Identifier: MIT
// Composite files: which parts there are, which one is read, and the option that names another.
#include "interop/hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hf_parts_test {

using Catch::Matchers::Message;
using nlohmann::json;
using posenc::ConfigError;
using posenc::ModelSettings;
using posenc::PairingKind;
using posenc::read_hf_config;
using support::hf::config;

namespace {

using Names = std::vector<std::string>;

ModelSettings read_part(const json& file, std::string_view part) {
  return read_hf_config(file, {.part = part});
}

json csm() {
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 32.0},
                        {"low_freq_factor", 0.001953125},
                        {"high_freq_factor", 0.0078125},
                        {"original_max_position_embeddings", 16}};
  json backbone = scaling;
  backbone["low_freq_factor"] = 0.125;
  backbone["high_freq_factor"] = 0.5;
  backbone["original_max_position_embeddings"] = 1024;
  return config("csm", {{"rope_theta", 500000},
                        {"rope_scaling", backbone},
                        {"codec_config", {{"model_type", "mimi"}}},
                        {"depth_decoder_config",
                         {{"hidden_size", 1024},
                          {"max_position_embeddings", 33},
                          {"num_attention_heads", 8},
                          {"num_codebooks", 32},
                          {"num_hidden_layers", 4},
                          {"num_key_value_heads", 2},
                          {"rope_scaling", scaling},
                          {"rope_theta", 500000}}}});
}

}  // namespace

TEST_CASE("HfConfigOptions.part: a file of several models lists its parts, and which one was read",
          "[interop][parts]") {
  const auto backbone = read_hf_config(csm());
  CHECK(backbone.part.empty());
  CHECK(backbone.parts == Names{"codec_config", "depth_decoder_config"});
  CHECK(std::get<posenc::Llama3Scaling>(rotary(backbone).rule).original_max_position == 1024);

  const auto decoder = read_part(csm(), "depth_decoder_config");
  CHECK(decoder.part == "depth_decoder_config");
  CHECK(decoder.parts == backbone.parts);
  CHECK(decoder.model_type == "csm_depth_decoder_model");
  const auto& rule = std::get<posenc::Llama3Scaling>(rotary(decoder).rule);
  CHECK(rule.base == 500000);
  CHECK(rule.factor == 32);
  CHECK(rule.low_freq_factor == 0.001953125);
  CHECK(rule.high_freq_factor == 0.0078125);
  CHECK(rule.original_max_position == 16);
  CHECK(rotary(decoder).head_dim == 128);
  CHECK(attention_of_layer(decoder, 3).kv_heads == 2);

  CHECK(read_hf_config(config("llama")).parts.empty());
  const json dicts = config("llama", {{"quantization_config", {{"bits", 4}}}});
  CHECK(read_hf_config(dicts).parts.empty());
}

TEST_CASE("HfConfigOptions.part: the default is the text model", "[interop][parts]") {
  const json text = config("qwen2", {{"rope_theta", 5e5}});
  const json llava = {
      {"model_type", "llava"}, {"text_config", text}, {"vision_config", json::object()}};
  CHECK(read_hf_config(llava).part == "text_config");
  CHECK(read_hf_config(llava).parts == Names{"text_config", "vision_config"});
  CHECK(read_part(llava, "text_config").model_type == "qwen2");
  CHECK(read_part(llava, "text_config").part == "text_config");
}

TEST_CASE("HfConfigOptions.part: parts of models of speech", "[interop][parts]") {
  const json sections = {{"interleaved", true},
                         {"mrope_section", {24, 20, 20}},
                         {"rope_theta", 1000000},
                         {"rope_type", "default"},
                         {"type", "default"}};
  const json sizes = {{"head_dim", 128},
                      {"hidden_size", 1024},
                      {"num_attention_heads", 16},
                      {"num_key_value_heads", 2}};
  json talker_text = sizes, predictor = sizes, thinker_text = sizes;
  talker_text["rope_parameters"] = sections;
  predictor["rope_theta"] = 1000000;
  thinker_text["rope_parameters"] = sections;
  thinker_text["rope_parameters"]["mrope_interleaved"] = true;
  const json omni = {
      {"model_type", "qwen3_omni_moe"},
      {"thinker_config", {{"model_type", "qwen3_omni_moe_thinker"}, {"text_config", thinker_text}}},
      {"talker_config",
       {{"position_id_per_seconds", 13},
        {"text_config", talker_text},
        {"code_predictor_config", predictor}}}};
  const auto thinker = read_hf_config(omni);
  CHECK(thinker.model_type == "qwen3_omni_moe_text");
  CHECK(thinker.part == "thinker_config.text_config");
  CHECK(thinker.parts == Names{"talker_config", "talker_config.code_predictor_config",
                               "talker_config.text_config", "thinker_config",
                               "thinker_config.text_config"});
  for (const char* path : {"talker_config", "talker_config.text_config"}) {
    const auto talker = read_part(omni, path);
    CHECK(talker.model_type == "qwen3_omni_moe_talker_text");
    CHECK(talker.part == "talker_config.text_config");
    CHECK(rotary(talker).axes.axis(1) == 1);  // its class alternates the axes
    CHECK(rotary(talker).axes.axis(61) == 0);
  }
  const auto codes = read_part(omni, "talker_config.code_predictor_config");
  CHECK(codes.model_type == "qwen3_omni_moe_talker_code_predictor");
  CHECK(rotary(codes).axes.plain());

  const json spoken = {{"model_type", "qwen2_5_omni"},
                       {"thinker_config", json::object()},
                       {"talker_config",
                        {{"hidden_size", 896},
                         {"num_attention_heads", 12},
                         {"position_id_per_seconds", 25},
                         {"seconds_per_chunk", 2},
                         {"rope_scaling", {{"mrope_section", {16, 24, 24}}}}}}};
  const auto talker = read_part(spoken, "talker_config");
  CHECK(talker.model_type == "qwen2_5_omni_talker");
  CHECK(rotary(talker).head_dim == 128);
  CHECK(rotary(talker).axes.axis(1) == 0);
}

TEST_CASE("HfConfigOptions.part: an unknown part is rejected by name", "[interop][parts][errors]") {
  const auto refuse = [](const json& file, std::string_view part, const std::string& message) {
    CHECK_THROWS_MATCHES(read_part(file, part), ConfigError,
                         Message("posenc::read_hf_config: " + message));
  };
  refuse(csm(), "talker_config",
         "the file has no part 'talker_config'; its parts are codec_config, depth_decoder_config");
  refuse(config("llama"), "text_config", "the file has no part 'text_config'; it has none");
  const json llava = {{"model_type", "llava"}, {"vision_config", json::object()}};
  refuse(llava, "vision_config",
         "the part 'vision_config' is a vision tower, which is read together with the text model, "
         "into ModelSettings::vision");
  const json nested = {{"model_type", "other"},
                       {"a", {{"model_type", "other"}, {"b", {{"hidden_size", 1}}}}}};
  refuse(nested, "a.b", "the configuration has no model_type");
}

}  // namespace hf_parts_test
