// SPDX-License-Identifier: MIT
// Layers with rotary encoding, and the defaults of classes.
#include "hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>

#include <nlohmann/json.hpp>

#include <initializer_list>
#include <string>
#include <vector>

namespace hf_layers_test {

using Catch::Matchers::Message;
using nlohmann::json;
using posenc::ConfigError;
using posenc::Index;
using posenc::ModelSettings;
using posenc::read_hf_config;
using posenc::Unscaled;
using support::hf::rotary_config;

namespace {

json without(json changed, std::initializer_list<const char*> keys) {
  for (const char* key : keys) changed.erase(key);
  return changed;
}

/// Returns the layers without rotary encoding among the first 12.
std::vector<Index> layers_without_rotary(const ModelSettings& model) {
  std::vector<Index> layers;
  for (Index i = 0; i < 12; ++i) {
    if (rotary_of_layer(model, i) == nullptr) layers.push_back(i);
  }
  return layers;
}

std::vector<Index> layers_without_rotary(const json& of) {
  return layers_without_rotary(read_hf_config(of));
}

void check_rejected(const json& of, const std::string& message) {
  CHECK_THROWS_MATCHES(read_hf_config(of), ConfigError,
                       Message("posenc::read_hf_config: " + message));
}

double base_of(const json& of, Index layer) {
  const posenc::ModelSettings model = read_hf_config(of);
  const auto* rotary = rotary_of_layer(model, layer);
  return rotary == nullptr ? 0 : std::get<Unscaled>(rotary->rule).base;
}

const std::vector<Index> all_but_every_fourth{0, 1, 2, 4, 5, 6, 8, 9, 10};

}  // namespace

TEST_CASE("read_hf_config layers: linear attention has no rotation", "[interop]") {
  CHECK(layers_without_rotary(rotary_config("qwen3_next")) == all_but_every_fourth);
  CHECK(layers_without_rotary(rotary_config("qwen3_next", {{"full_attention_interval", 6}})) ==
        std::vector<Index>{0, 1, 2, 3, 4, 6, 7, 8, 9, 10});
  const json dict = {{"rope_parameters", {{"rope_theta", 1e7}, {"mrope_section", {11, 11, 10}}}}};
  const json visual = without(rotary_config("qwen3_5_text", dict), {"rope_theta"});
  CHECK(layers_without_rotary(visual) == all_but_every_fourth);
  CHECK(rotary(read_hf_config(visual)).head_dim == 256);
  CHECK(rotary_dim(rotary(read_hf_config(visual))) == 64);

  json listed = rotary_config("qwen3_next");
  listed["layer_types"] = json::array();
  for (int i = 0; i < 12; ++i) {
    listed["layer_types"].push_back(i < 2 ? "full_attention" : "linear_attention");
  }
  CHECK(layers_without_rotary(listed) == std::vector<Index>{2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(read_hf_config(listed).layer_types[1] == "full_attention");
  listed["full_attention_interval"] = 4;
  check_rejected(listed, "'full_attention_interval' in the configuration contradicts layer_types");
}

TEST_CASE(
    "read_hf_config layers: layers that attend to images, convolutions and the like have no "
    "rotation",
    "[interop]") {
  const json mllama = rotary_config("mllama_text_model", {{"cross_attention_layers", {8, 3}}});
  CHECK(layers_without_rotary(mllama) == std::vector<Index>{3, 8});
  CHECK(read_hf_config(mllama).layer_types[3] == "cross_attention");
  CHECK(layers_without_rotary(without(mllama, {"num_hidden_layers"})) == std::vector<Index>{3, 8});
  check_rejected(rotary_config("mllama_text_model"),
                 "the configuration must have cross_attention_layers");
  check_rejected(rotary_config("mllama_text_model", {{"cross_attention_layers", {12}}}),
                 "'cross_attention_layers' in the configuration must list existing layers");

  CHECK(layers_without_rotary(rotary_config("lfm2", {{"full_attn_idxs", {2, 5, 8, 10}}})) ==
        std::vector<Index>{0, 1, 3, 4, 6, 7, 9, 11});
  CHECK(base_of(without(rotary_config("lfm2", {{"full_attn_idxs", {2}}, {"theta", 5000}}),
                        {"rope_theta"}),
                2) == 5000);
  json types = rotary_config("lfm2", {{"num_hidden_layers", 2}});
  types["layer_types"] = {"conv", "full_attention"};
  CHECK(rotary_of_layer(read_hf_config(types), 0) == nullptr);
  CHECK(rotary_of_layer(read_hf_config(types), 1) != nullptr);
}

TEST_CASE("read_hf_config layers: EXAONE 4 rotates in local layers alone, if there are any",
          "[interop]") {
  CHECK(layers_without_rotary(rotary_config("exaone4")) == std::vector<Index>{3, 7, 11});
  CHECK(layers_without_rotary(rotary_config("exaone4", {{"sliding_window", nullptr}})).empty());
  CHECK(layers_without_rotary(rotary_config("exaone4", {{"sliding_window_pattern", 2}})) ==
        std::vector<Index>{1, 3, 5, 7, 9, 11});
  json letters =
      rotary_config("exaone4", {{"num_hidden_layers", 3}, {"sliding_window_pattern", "LG"}});
  check_rejected(letters, "the configuration must have layer_types");
  letters["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
  CHECK(read_hf_config(letters).layer_types.size() == 3);  // the last layer may be global
                                                           // regardless
  letters["sliding_window_pattern"] = "LLLG";
  check_rejected(letters, "'sliding_window_pattern' in the configuration contradicts layer_types");
}

TEST_CASE("read_hf_config layers: global layers are the last of their period", "[interop]") {
  CHECK(base_of(rotary_config("gemma3_text", {{"sliding_window_pattern", 4}}), 3) == 10000);
  const json gemma =
      without(rotary_config("gemma3_text", {{"sliding_window_pattern", 4}}), {"rope_theta"});
  CHECK(base_of(gemma, 3) == 1000000);
  CHECK(base_of(gemma, 1) == 10000);
  const json small = without(rotary_config("gemma3n_text"), {"rope_theta"});
  CHECK(base_of(small, 4) == 1000000);
  CHECK(base_of(small, 5) == 10000);
  CHECK(layers_without_rotary(rotary_config(
            "cohere2", {{"layer_switch", 4}, {"position_embedding_type", "rope_gptj"}})) ==
        std::vector<Index>{3, 7, 11});
  check_rejected(rotary_config("cohere2", {{"layer_switch", 3}}),
                 "'layer_switch' in the configuration contradicts the pattern of layers");
}

TEST_CASE("read_hf_config layers: types that a model does not have are rejected", "[interop]") {
  json odd = rotary_config("llama", {{"num_hidden_layers", 2}});
  odd["layer_types"] = {"full_attention", "linear_attention"};
  check_rejected(
      odd,
      "'layer_types' in the configuration has the type 'linear_attention', which is unknown in "
      "this model");
  odd["model_type"] = "qwen3_next";
  odd["layer_types"] = {"full_attention", "sliding_attention"};
  check_rejected(
      odd,
      "'layer_types' in the configuration has the type 'sliding_attention', which is unknown in "
      "this model");
  odd["layer_types"] = {"full_attention", "sliding_attention"};
  odd["model_type"] = "mistral";
  CHECK_NOTHROW(read_hf_config(odd));
}

TEST_CASE("read_hf_config layers: frequencies need no number of layers", "[interop]") {
  for (const char* type : {"gemma3_text", "gemma3n_text", "modernbert"}) {
    INFO(type);
    const auto model = read_hf_config(json{{"model_type", type}, {"head_dim", 64}});
    CHECK(rotary(model, "full_attention").head_dim == 64);
    CHECK_THROWS_AS(rotary_of_layer(model, 0), ConfigError);
  }
  for (const char* type : {"llama4_text", "smollm3", "cohere2", "exaone4", "qwen3_next"}) {
    INFO(type);
    const auto model =
        read_hf_config(json{{"model_type", type}, {"head_dim", 64}, {"rope_theta", 1e4}});
    CHECK(rotary(model).head_dim == 64);
    CHECK_THROWS_AS(rotary_of_layer(model, 0), ConfigError);
  }
}

TEST_CASE("read_hf_config layers: what a file leaves out is what its class has", "[interop]") {
  check_rejected(rotary_config("esm"), "this 'esm' has no rotary encoding");
  CHECK(rotary(read_hf_config(rotary_config("esm", {{"position_embedding_type", "rotary"}})))
            .head_dim == 128);
  const json modern = without(
      rotary_config("modernbert", {{"position_embedding_type", "absolute"}}), {"rope_theta"});
  CHECK(base_of(modern, 0) == 160000);
  CHECK(base_of(modern, 1) == 10000);
  json null = modern;
  null["local_rope_theta"] = nullptr;
  CHECK(base_of(null, 1) == 160000);

  const auto gemma = read_hf_config(json{{"model_type", "gemma4_text"}, {"num_hidden_layers", 7}});
  CHECK(rotary(gemma, "full_attention").head_dim == 512);
  CHECK(std::get<posenc::ProportionalScaling>(rotary(gemma, "full_attention").rule).base == 1e6);
  CHECK(std::get<Unscaled>(rotary(gemma, "sliding_attention").rule).base == 10000);
  CHECK(gemma.layer_types[4] == "sliding_attention");
  CHECK(gemma.layer_types[5] == "full_attention");
  CHECK(gemma.layer_types[6] == "full_attention");  // the last layer is always global
  const json beside = {{"model_type", "gemma4_text"}, {"rope_theta", 500000}};
  check_rejected(beside, "'rope_theta' in the configuration is read by no class of this type");

  const auto oss = read_hf_config(json{{"model_type", "gpt_oss"}});
  const auto& yarn = std::get<posenc::YarnScaling>(rotary(oss).rule);
  CHECK(yarn.factor == 32);
  CHECK(yarn.original_max_position == 4096);
  CHECK_FALSE(yarn.truncate);
  check_rejected(
      json{{"model_type", "gpt_oss"}, {"rope_scaling", nullptr}},
      "'rope_scaling' in the configuration is null, which releases of the class read differently");
  check_rejected(
      rotary_config("ministral3"),
      "the configuration must have rope_parameters: the class of 'ministral3' scales by default");
  const std::vector<double> divisors(64, 2);
  const auto phi = read_hf_config(rotary_config(
      "phi3", {{"max_position_embeddings", 131072},
               {"rope_scaling",
                {{"type", "longrope"}, {"short_factor", divisors}, {"long_factor", divisors}}}}));
  CHECK(std::get<posenc::LongRopeScaling>(rotary(phi).rule).original_max_position == 4096);
  const json first =
      without(rotary_config("chatglm", {{"inner_hidden_size", 16384}}), {"rope_theta"});
  CHECK(rotary(read_hf_config(first)).chatglm_halves);
}

TEST_CASE("read_hf_config layers: dicts by type of layer are for all types of the model",
          "[interop]") {
  const json plain = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  check_rejected(rotary_config("gemma3_text", {{"rope_parameters", {{"full_attention", plain}}}}),
                 "'rope_parameters' in the configuration must have sliding_attention");
  check_rejected(
      rotary_config("llama4_text", {{"rope_parameters",
                                     {{"full_attention", plain}, {"chunked_attention", plain}}}}),
      "'rope_parameters' in the configuration has a dict per type of layer, but this model's "
      "layers share one");
  check_rejected(
      without(rotary_config("gemma4_text", {{"rope_parameters", plain}}), {"rope_theta"}),
      "'rope_parameters' in the configuration must have a dict for each type of layer in this "
      "model");
}

TEST_CASE("read_hf_config layers: YaRN whose ends cross is read as Hugging Face has it",
          "[interop]") {
  const json dict = {
      {"rope_type", "yarn"}, {"factor", 16}, {"original_max_position_embeddings", 4}};
  const auto model = read_hf_config(rotary_config("llama", {{"rope_scaling", dict}}));
  const auto plain = frequencies(Unscaled{.rotary_dim = 128, .base = 10000});
  CHECK(frequencies(rotary(model)).inv_freq() == plain.inv_freq());
  const json dynamic = {{"type", "dynamic-yarn"}, {"original_max_position_embeddings", 4}};
  const auto growing = read_hf_config(rotary_config("llama", {{"rope_scaling", dynamic}}));
  CHECK(frequencies(rotary(growing), 64).inv_freq() == plain.inv_freq());
}

}  // namespace hf_layers_test
