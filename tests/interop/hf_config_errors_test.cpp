// SPDX-License-Identifier: MIT
// Errors of the reader of config.json, key by key. Keys that it does not know are rejected.
#include "interop/hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>

#include <string>
#include <vector>

namespace hf_config_errors_test {

using Catch::Matchers::Message;
using nlohmann::json;
using posenc::ConfigError;
using posenc::read_hf_config;

namespace {

json config(const char* model_type = "llama") {
  return {{"model_type", model_type},
          {"hidden_size", 4096},
          {"num_attention_heads", 32},
          {"max_position_embeddings", 4096},
          {"rope_theta", 10000.0}};
}

json with(json changed, const json& more) {
  changed.update(more);
  return changed;
}

void check_rejected(const json& of, const std::string& message) {
  CHECK_THROWS_MATCHES(read_hf_config(of), ConfigError, Message("posenc::" + message));
}

/// Checks that a rope dict is rejected.
void refuse_dict(const json& dict, const std::string& message, const char* model_type = "llama") {
  check_rejected(with(config(model_type), {{"rope_scaling", dict}}), message);
}

json without(json changed, const char* key) {
  changed.erase(key);
  return changed;
}

const std::string unknown =
    " is unknown, or has no effect with the other settings; remove it if it changes neither "
    "positions nor scores";

}  // namespace

TEST_CASE("read_hf_config errors: text that is no configuration is rejected", "[interop]") {
  const auto refuse_text = [](std::string_view text, const std::string& message) {
    CHECK_THROWS_MATCHES(read_hf_config(text), ConfigError,
                         Message("posenc::read_hf_config: " + message));
  };
  CHECK_NOTHROW(read_hf_config(config()));
  refuse_text(
      "",
      "the text is not JSON: the text ends where a value should begin: line 1, column 1 (its end)");
  refuse_text("{\"a\": 1",
              "the text is not JSON: a comma or } should follow: line 1, column 8 (its end)");
  refuse_text("{\"model_type\": \"llama\", \"head_dim\": 64, \"rope_theta\": 1e999}",
              "'rope_theta' in the configuration must be a finite number");
  refuse_text("{\"model_type\": \"llama\", \"head_dim\": 64, \"rope_theta\": Infinity}",
              "'rope_theta' in the configuration must be a finite number");
  CHECK_NOTHROW(read_hf_config(
      "{\"model_type\": \"llama\", \"head_dim\": 64, \"router_limit\": [1e999, NaN, -Infinity]}"));
  refuse_text(
      "{\"model_type\": \"llama\", \"a\": {\"rope_theta\": 1}, \"rope_theta\": 1, \"rope_theta\": "
      "2}",
      "the key 'rope_theta' occurs twice in one object: line 1, column 66 (byte 66)");
  refuse_text(std::string(100000, '['), "the text nests too deeply: line 1, column 65 (byte 65)");
  refuse_text("models/config.json",
              "the argument must be the text of a file, not its name, models/config.json: read it, "
              "by std::ifstream for example");
  refuse_text("[]", "the configuration must be a JSON object");
  refuse_text("7", "the configuration must be a JSON object");
  refuse_text("{}", "the configuration has no model_type");
  refuse_text("{\"model_type\": 7}", "'model_type' in the configuration must be a string");
  refuse_text("{\"model_type\": \"llama\", \"text_config\": 7}",
              "text_config must be a JSON object");
}

TEST_CASE("read_hf_config errors: unknown models and models without rotary encoding are rejected",
          "[interop]") {
  check_rejected(config("unheard-of"),
                 "read_hf_config: the model_type 'unheard-of' is unknown; to read it as a plain "
                 "rotary model, set in the options: pairing, rotary_share, softmax_scale");
  check_rejected(config("bloom"),
                 "read_hf_config: this 'bloom' has no rotary encoding: it has ALiBi");
  check_rejected(with(config("falcon"), {{"alibi", true}}),
                 "read_hf_config: this 'falcon' has no rotary encoding");
  check_rejected(with(config("esm"), {{"position_embedding_type", "absolute"}}),
                 "read_hf_config: this 'esm' has no rotary encoding");
  check_rejected(without(config("nomic_bert"), "rope_theta"),
                 "read_hf_config: the configuration must have rope_theta");
}

TEST_CASE("read_hf_config errors: unknown types and keys are rejected by name", "[interop]") {
  refuse_dict({{"rope_type", "magic"}},
              "read_hf_config: the rope type 'magic' in rope_scaling is unknown");
  refuse_dict({{"rope_type", "linear"}, {"factor", 2}, {"beta_fast", 3}},
              "read_hf_config: 'beta_fast' in rope_scaling" + unknown);
  refuse_dict({{"rope_type", "default"}, {"factor", 2}},
              "read_hf_config: 'factor' in rope_scaling" + unknown);
  refuse_dict({{"factor", 2}}, "read_hf_config: 'factor' in rope_scaling" + unknown);
  refuse_dict({{"rope_type", "yarn"}, {"factor", 2}, {"llama_4_scaling_beta", 0.1}},
              "read_hf_config: 'llama_4_scaling_beta' in rope_scaling" + unknown);
  check_rejected(with(config(), {{"rope_scaling_factor", 2}}),
                 "read_hf_config: 'rope_scaling_factor' in the configuration" + unknown);
  check_rejected(with(config(), {{"rope_local_base_freq", 10000}}),
                 "read_hf_config: 'rope_local_base_freq' in the configuration" + unknown);
  check_rejected(with(config(), {{"use_dynamic_ntk", true}}),
                 "read_hf_config: 'use_dynamic_ntk' in the configuration" + unknown);
  CHECK_NOTHROW(
      read_hf_config(with(config(), {{"property", 1}, {"rope_local_base_freq", nullptr}})));
  auto nested = config("gemma3_text");
  nested["num_hidden_layers"] = 6;
  nested["rope_parameters"] = {{"full_attention", {{"rope_type", "default"}, {"wavelength", 1}}}};
  check_rejected(nested,
                 "read_hf_config: 'wavelength' in rope_parameters.full_attention" + unknown);
}

TEST_CASE("read_hf_config errors: missing keys are named", "[interop]") {
  for (const char* key : {"hidden_size", "num_attention_heads"}) {
    check_rejected(without(config(), key),
                   std::string("read_hf_config: the configuration must have ") + key);
  }
  refuse_dict({{"rope_type", "linear"}}, "read_hf_config: rope_scaling must have factor");
  refuse_dict({{"rope_type", "dynamic"}}, "read_hf_config: rope_scaling must have factor");
  refuse_dict({{"rope_type", "longrope"}}, "read_hf_config: rope_scaling must have short_factor");
  json llama3 = {{"rope_type", "llama3"},
                 {"factor", 8},
                 {"low_freq_factor", 1},
                 {"high_freq_factor", 4},
                 {"original_max_position_embeddings", 8192}};
  for (const char* key :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    refuse_dict(without(llama3, key), std::string("read_hf_config: rope_scaling must have ") + key);
  }
  check_rejected(
      with(without(config(), "max_position_embeddings"),
           {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}}),
      "read_hf_config: the dynamic type needs max_position_embeddings, which is missing");
  check_rejected(config("gptj"), "read_hf_config: the configuration must have rotary_dim");
  check_rejected(config("deepseek_v3"),
                 "read_hf_config: the configuration must have qk_nope_head_dim");
  check_rejected(config("qwen2_vl"), "read_hf_config: rope_scaling must have mrope_section");
}

TEST_CASE("read_hf_config errors: values of another type are rejected", "[interop]") {
  const std::string in = "' in the configuration must be ";
  check_rejected(with(config(), {{"hidden_size", "4096"}}),
                 "read_hf_config: 'hidden_size" + in + "an integer");
  check_rejected(with(config(), {{"hidden_size", 4096.5}}),
                 "read_hf_config: 'hidden_size" + in + "an integer");
  check_rejected(with(config(), {{"hidden_size", 18446744073709551615ULL}}),
                 "read_hf_config: 'hidden_size" + in + "an integer");
  check_rejected(with(config(), {{"rope_theta", "1e4"}}),
                 "read_hf_config: 'rope_theta" + in + "a finite number");
  check_rejected(with(config(), {{"rope_theta", {1, 2}}}),
                 "read_hf_config: 'rope_theta" + in + "a finite number");
  check_rejected(with(config(), {{"alibi", 1}}), "read_hf_config: 'alibi" + in + "true or false");
  check_rejected(with(config(), {{"rope_scaling", 2.0}}),
                 "read_hf_config: rope_scaling must be a JSON object");
  refuse_dict({{"rope_type", 3}}, "read_hf_config: 'rope_type' in rope_scaling must be a string");
  refuse_dict({{"rope_type", "longrope"}, {"short_factor", {1, "x"}}},
              "read_hf_config: 'short_factor' in rope_scaling must be a list of finite numbers");
  refuse_dict({{"mrope_section", 3}},
              "read_hf_config: 'mrope_section' in rope_scaling must be a list of integers");
}

TEST_CASE("read_hf_config errors: keys that contradict each other are rejected", "[interop]") {
  check_rejected(with(config(), {{"rotary_emb_base", 5000}}),
                 "read_hf_config: the configuration contradicts itself: rope_theta is 10000 but "
                 "rotary_emb_base is 5000");
  check_rejected(with(config(), {{"rotary_dim", 64}, {"partial_rotary_factor", 0.25}}),
                 "read_hf_config: rotary_dim is 64 but partial_rotary_factor makes it 32");
  refuse_dict({{"rope_type", "linear"}, {"type", "yarn"}, {"factor", 2}},
              "read_hf_config: rope_scaling contradicts itself: rope_type is 'linear' but type is "
              "'yarn'");
  check_rejected(with(config(), {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}},
                                 {"rope_parameters", {{"type", "linear"}, {"factor", 4}}}}),
                 "read_hf_config: rope_parameters and rope_scaling are both given, and differ");
  refuse_dict({{"rope_type", "yarn"}, {"factor", 2}, {"attention_factor", 1}, {"attn_factor", 1}},
              "read_hf_config: 'attn_factor' in rope_scaling contradicts attention_factor");
  refuse_dict(
      {{"rope_type", "dynamic"}, {"factor", 2}, {"original_max_position_embeddings", 2048}},
      "read_hf_config: 'original_max_position_embeddings' in rope_scaling has no effect: the "
      "dynamic type begins to scale at max_position_embeddings");
  refuse_dict({{"mrope_section", {16, 24, 24}}, {"xdrope_section", {16, 16, 16, 16}}},
              "read_hf_config: 'xdrope_section' in rope_scaling contradicts mrope_section");
  refuse_dict({{"mrope_interleaved", true}},
              "read_hf_config: 'mrope_interleaved' in rope_scaling needs mrope_section");
  refuse_dict(
      {{"mrope_section", {24, 20, 20}}, {"mrope_interleaved", false}},
      "read_hf_config: 'mrope_interleaved' in rope_scaling is false, but models of this type "
      "interleave",
      "qwen3_vl");
  check_rejected(with(config("modernbert"), {{"num_hidden_layers", 3}}),
                 "read_hf_config: 'rope_theta' in the configuration contradicts global_rope_theta");
}

TEST_CASE("read_hf_config errors: values out of range are rejected", "[interop]") {
  check_rejected(with(config(), {{"head_dim", 0}}),
                 "read_hf_config: 'head_dim' in the configuration must lie between 1 and 65536");
  check_rejected(with(config(), {{"head_dim", 1LL << 62}}),
                 "read_hf_config: 'head_dim' in the configuration must lie between 1 and 65536");
  check_rejected(with(config(), {{"num_attention_heads", 0}}),
                 "read_hf_config: hidden_size 4096 and num_attention_heads 0 do not define the "
                 "width of a head");
  CHECK_THROWS_WITH(read_hf_config(with(config(), {{"hidden_size", 0}})),
                    Catch::Matchers::ContainsSubstring("hidden_size 0 and num_attention_heads 32"));
  CHECK_NOTHROW(read_hf_config(with(config(), {{"rotary_value", false}})));
  CHECK_THROWS_AS(read_hf_config(with(config(), {{"rotary_value", true}})), ConfigError);
  const auto ernie =
      with(config("ernie4_5_vl_moe_text"),
           {{"rope_theta", 500000},
            {"rope_scaling", {{"rope_type", "default"}, {"mrope_section", {22, 22, 20}}}}});
  CHECK_NOTHROW(read_hf_config(with(ernie, {{"rope_3d", true}})));
  CHECK_THROWS_AS(read_hf_config(with(ernie, {{"rope_3d", false}})), ConfigError);
  const json dynamic = {{"type", "dynamic-yarn"}, {"original_max_position_embeddings", 1024}};
  CHECK_NOTHROW(read_hf_config(with(config(), {{"rope_scaling", with(dynamic, {{"factor", 4}})}})));
  CHECK_THROWS_AS(
      read_hf_config(with(config(), {{"rope_scaling", with(dynamic, {{"factor", "four"}})}})),
      ConfigError);
  check_rejected(with(config(), {{"partial_rotary_factor", 1.5}}),
                 "read_hf_config: partial_rotary_factor must lie in (0, 1] but is 1.5");
  const std::string dim =
      "read_hf_config: the number of rotary channels must be even, and from 2 to 128, but is ";
  check_rejected(with(config(), {{"partial_rotary_factor", 0.12}}), dim + "15");
  check_rejected(with(config(), {{"rotary_dim", 256}}), dim + "256");
  check_rejected(with(config(), {{"rotary_dim", -2}}), dim + "-2");
  check_rejected(
      with(config("gemma3_text"), {{"num_hidden_layers", 1LL << 50}}),
      "read_hf_config: 'num_hidden_layers' in the configuration must lie between 0 and 65536");
  check_rejected(
      with(config("llama4_text"), {{"no_rope_layers", {1, 2}}}),
      "read_hf_config: 'no_rope_layers' in the configuration must be a list of 0 (no rotary "
      "encoding) and 1");
  refuse_dict({{"mrope_section", {1LL << 62, 1LL << 62, 4}}},
              "read_hf_config: 'mrope_section' in rope_scaling must have no negative entry and add "
              "up to the number of pairs, 64");
  refuse_dict({{"mrope_section", {16, 24, 20}}, {"mrope_interleaved", false}},
              "RotarySettings: the table of axes is for 60 pairs but there are frequencies for 64");
  refuse_dict({{"type", "linear"}, {"factor", 0.5}},
              "LinearScaling: factor must be set, finite and at least 1, but is 0.5");
  refuse_dict({{"type", "yarn"}, {"factor", 4}, {"extrapolation_factor", 0.5}},
              "read_hf_config: 'extrapolation_factor' in rope_scaling has a value that is not "
              "supported");
  check_rejected(with(config("gemma2"), {{"query_pre_attn_scalar", 0}}),
                 "read_hf_config: 'query_pre_attn_scalar' in the configuration must be positive");
}

TEST_CASE("read_hf_config errors: rules of single classes reject keys by name", "[interop]") {
  struct Case {
    const char* type;
    json more;
    const char* message;
  };
  const json theta = {{"rope_theta", 10000.0}};
  const json full(std::vector<std::string>(4, "full_attention"));
  const json other = {{"num_attention_heads", 64}, {"num_attention_groups", 8}};
  const json step = {{"rope_theta", 10000.0}, {"layer_types", full}, {"sliding_window", 512}};
  const json telechat = {{"base_seqlen", 8192}, {"training_seqlen", 16384}};
  const json latent = {{"qk_nope_head_dim", 64}, {"qk_rope_head_dim", 32}};
  const json plain = {{"rope_type", "default"}};
  const json longrope = {{"type", "longrope"},
                         {"attention_factor", 1.2},
                         {"short_mscale", 1.1},
                         {"long_mscale", 1.2},
                         {"short_factor", std::vector<double>(64, 1)},
                         {"long_factor", std::vector<double>(64, 1)}};
  for (const Case& c : std::vector<Case>{
           {"step3p5",
            with(step, {{"attention_other_setting", with(other, {{"attention_type", "linear"}})}}),
            "'attention_type' in attention_other_setting must be sliding_attention"},
           {"step3p5", with(step, {{"attention_other_setting", with(other, {{"head_dim", 64}})}}),
            "'head_dim' in attention_other_setting is not the head_dim of the other layers"},
           {"exaone4", with(theta, {{"sliding_window", 8}, {"sliding_window_pattern", nullptr}}),
            "'sliding_window_pattern' in the configuration is null, and there are no layer_types"},
           {"exaone4", with(step, {{"sliding_window_pattern", "LLX"}}),
            "'sliding_window_pattern' in the configuration must consist of the letters L and G"},
           {"cohere2_moe", with(theta, {{"sliding_window", 8}, {"first_k_dense_replace", 5}}),
            "'first_k_dense_replace' in the configuration must lie between 0 and the number of "
            "layers"},
           {"cohere2_moe",
            with(theta, {{"sliding_window", 8}, {"prefix_dense_sliding_window_pattern", 0}}),
            "'prefix_dense_sliding_window_pattern' in the configuration must be positive"},
           {"cohere2", with(theta, {{"sliding_window", nullptr}}),
            "'sliding_window' in the configuration is null, and no layer without a window is "
            "rotated"},
           {"nemotron-nas", with(theta, {{"block_configs", std::vector<json>(4, json::object())}}),
            "'block_configs' in the configuration must define the attention of each layer"},
           {"mimo_v2_flash", with(step, {{"hybrid_layer_pattern", {0, 1, 1, 1}}}),
            "'hybrid_layer_pattern' in the configuration must not be set together with "
            "layer_types"},
           {"mimo_v2_flash", with(theta, {{"hybrid_layer_pattern", {0, 1, 1, 2}}}),
            "'hybrid_layer_pattern' in the configuration must be a list of 0 and 1 (local layers)"},
           {"smollm3", with(theta, {{"no_rope_layer_interval", 0}}),
            "'no_rope_layer_interval' in the configuration must be positive"},
           {"smollm3", with(theta, {{"nope_layer_interval", 3}}),
            "'nope_layer_interval' in the configuration is read by no class; "
            "no_rope_layer_interval is"},
           {"telechat",
            with(telechat, {{"rope_theta", 10000.0}, {"rope_scaling", {{"type", "linear"}}}}),
            "'rope_scaling' in the configuration contradicts base_seqlen"},
           {"jetmoe", with(theta, {{"num_experts_per_tok", 4097}}),
            "'num_key_value_heads' in the configuration and num_experts_per_tok must lie between "
            "1 and 4096"},
           {"bamba", with(theta, {{"layers_block_type", {"mamba", "attention", "mamba", "gru"}}}),
            "'layers_block_type' in the configuration has an unknown type"},
           {"dinov3_vit",
            {{"hidden_size", 4158}, {"num_attention_heads", 63}},
            "a 'dinov3_vit' must rotate all channels of a head, whose number is divisible by 4, "
            "and have no scaling, but rotates 66 channels of 66"},
           {"deepseek_v4",
            {{"head_dim", 512}, {"rope_scaling", {{"main", plain}, {"local", plain}}}},
            "'rope_scaling' in the configuration must have main and compress, or neither"},
           {"deepseek_v4",
            {{"head_dim", 512}, {"rope_scaling", with(plain, theta)}},
            "'rope_scaling' in the configuration has one rope_theta, which cannot apply to both "
            "types of layers"},
           {"deepseek_v4", with(theta, {{"head_dim", 32}, {"qk_rope_head_dim", 64}}),
            "'qk_rope_head_dim' in the configuration exceeds the width of a head"},
           {"gemma4_text",
            {{"global_head_dim", nullptr}},
            "'global_head_dim' in the configuration is null, which is not supported"},
           {"gemma4_text", theta,
            "'rope_theta' in the configuration is read by no class of this type"},
           {"gemma4_text",
            {{"partial_rotary_factor", 0.5}},
            "'partial_rotary_factor' in the configuration is read by no class of this type"},
           {"qwen2_vl",
            with(theta,
                 {{"rope_scaling", {{"mrope_section", {16, 24, 24}}, {"interleaved", true}}}}),
            "'interleaved' in rope_scaling contradicts the order of the axes, which is chunks"},
           {"llama", with(theta, {{"rope_scaling", {{"xdrope_section", {16, 24, 25}}}}}),
            "'xdrope_section' in rope_scaling must have no negative entry and add up to the "
            "number of pairs, 64"},
           {"phi3", with(theta, {{"rope_scaling", longrope}}),
            "'attention_factor' in rope_scaling contradicts short_mscale or long_mscale"},
           {"minicpmv", with(theta, {{"version", 100}}),
            "'version' in the configuration is not a version of this type"},
           {"chatglm",
            {{"rope_theta", 500.0}},
            "'rope_theta' in the configuration must be 10000 in a model of this type"},
           {"minicpm3", with(latent, {{"rope_theta", 10000.0}, {"partial_rotary_factor", 0.5}}),
            "'partial_rotary_factor' in the configuration must be 1, because qk_rope_head_dim "
            "sets the rotary channels"},
       }) {
    support::hf::check_rejected(support::hf::config(c.type, c.more), c.message);
  }
  check_rejected(
      with(config("lfm2"), {{"layer_types", std::vector<std::string>(65537, "full_attention")}}),
      "read_hf_config: 'layer_types' in the configuration has more than 65536 entries");
  check_rejected({{"_class_name", "FluxTransformer2DModel"}},
                 "read_hf_config: the configuration has no model_type, but a _class_name: files of "
                 "diffusers models do not define their rotation");
}

// Bounds what a file can multiply. Without the bound, 2 KB with a hundred layer types took seconds.
TEST_CASE("read_hf_config errors: more types of layers than any model has are rejected",
          "[interop]") {
  const auto types = [](std::size_t count, int head_dim) {
    auto nested = with(config(), {{"num_hidden_layers", 6}, {"head_dim", head_dim}});
    nested.erase("rope_theta");
    for (std::size_t i = 0; i < count; ++i) {
      nested["rope_parameters"]["type_" + std::to_string(i)] = {{"rope_type", "default"},
                                                                {"rope_theta", 10000}};
    }
    return nested;
  };
  CHECK_NOTHROW(read_hf_config(types(64, 64)));
  check_rejected(types(65, 64), "ModelSettings: there are 65 types of layers; the maximum is 64");
  CHECK_NOTHROW(read_hf_config(types(4, 65536)));
  check_rejected(types(5, 65536),
                 "ModelSettings: the heads of all types of layers have 327680 channels together; "
                 "the maximum is 262144");
}

}  // namespace hf_config_errors_test
