// SPDX-License-Identifier: MIT
// Types with factors of keys, or with attention in some layers only; defaults of classes; and layer
// types under the names of several releases.
#include "interop/hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>

#include <cmath>
#include <string>
#include <variant>
#include <vector>

namespace hf_odd_types_test {

using nlohmann::json;
using posenc::Index;
using posenc::LayerKind;
using posenc::Llama3Scaling;
using posenc::ModelSettings;
using posenc::PairingKind;
using posenc::read_hf_config;
using posenc::Unscaled;
using support::hf::check_rejected;
using support::hf::config;
using support::hf::with;

const json latent = {{"qk_nope_head_dim", 128},
                     {"qk_rope_head_dim", 64},
                     {"v_head_dim", 128},
                     {"kv_lora_rank", 512}};

double base_of(const posenc::RotarySettings& settings) {
  return std::get<Unscaled>(settings.rule).base;
}

TEST_CASE("read_hf_config: Falcon-H1's factor of keys is part of the scale", "[interop]") {
  const json falcon = config("falcon_h1", {{"hidden_size", 1024},
                                           {"num_attention_heads", 8},
                                           {"num_key_value_heads", 2},
                                           {"head_dim", 64},
                                           {"rope_theta", 1e11},
                                           {"key_multiplier", 0.390625},
                                           {"attn_layer_indices", nullptr},
                                           {"attention_in_multiplier", 1.0},
                                           {"attention_out_multiplier", 0.9375},
                                           {"lm_head_multiplier", 0.0390625},
                                           {"embedding_multiplier", 5.65},
                                           {"mlp_multipliers", {0.88, 0.5}},
                                           {"ssm_in_multiplier", 1.25},
                                           {"ssm_multipliers", {0.35, 0.25}}});
  const auto model = read_hf_config(falcon);
  CHECK(softmax_scale(model) == 0.390625 / 8);
  CHECK(rotary(model).pairing == PairingKind::HalfRotate);
  CHECK(base_of(rotary(model)) == 1e11);
  CHECK(attention_of_layer(model, 0).kind == LayerKind::Global);
  CHECK(attention_of_layer(model, 0).kv_heads == 2);
  json plain = falcon;
  plain.erase("key_multiplier");
  plain["layer_types"] = {"hybrid", "hybrid", "hybrid", "hybrid"};
  CHECK(softmax_scale(read_hf_config(plain)) == 0.125);
  check_rejected(with(falcon, {{"key_multiplier", 0.0}}),
                 "'key_multiplier' in the configuration must be positive");
  // This factor multiplies queries and keys alike.
  check_rejected(with(falcon, {{"attention_in_multiplier", 0.9}}),
                 "'attention_in_multiplier' in the configuration is unknown, or has no effect with "
                 "the other settings; remove it if it changes neither positions nor scores");
  check_rejected(
      with(falcon, {{"layer_types", {"mamba"}}}),
      "'layer_types' in the configuration has the type 'mamba', which is unknown in this "
      "model");
}

TEST_CASE(
    "read_hf_config: LongCat's layers attend twice; its factor of queries is part of the scale",
    "[interop]") {
  json longcat = with(config("longcat_flash", latent), {{"attention_method", "MLA"},
                                                        {"mla_scale_q_lora", true},
                                                        {"mla_scale_kv_lora", true},
                                                        {"q_lora_rank", 1024},
                                                        {"num_layers", 28}});
  longcat.erase("num_hidden_layers");
  const auto model = read_hf_config(longcat);
  CHECK(model.layer_count == 28);
  CHECK(rotary(model).pairing == PairingKind::Interleaved);
  CHECK(base_of(rotary(model)) == 1e7);
  CHECK(rotary(model).rotary_offset == 128);
  CHECK_THAT(softmax_scale(model), Catch::Matchers::WithinRel(2 / std::sqrt(192.0), 1e-15));
  json saved = longcat;  // transformers has no switch
  saved.erase("mla_scale_q_lora");
  CHECK(softmax_scale(read_hf_config(saved)) == softmax_scale(model));
  saved.erase("q_lora_rank");
  check_rejected(saved, "the configuration must have q_lora_rank");
  for (const std::string key : {"mla_scale_q_lora", "mla_scale_kv_lora"}) {
    check_rejected(
        with(longcat, {{key, false}}),
        "'" + key +
            "' in the configuration is false, which classes of this model read differently");
    check_rejected(with(longcat, {{key, "yes"}}),
                   "'" + key + "' in the configuration must be true or false");
  }
  CHECK(attention_of_layer(model, 0).value_dim == 128);
  CHECK(read_hf_config(with(longcat, {{"num_hidden_layers", 56}})).layer_count == 28);
  json ngram_file = with(longcat, {{"model_type", "longcat_flash_ngram"}, {"rope_theta", 5e6}});
  const auto ngram = read_hf_config(ngram_file);
  ngram_file.erase("mla_scale_q_lora");
  check_rejected(ngram_file, "the configuration must have mla_scale_q_lora");
  CHECK(ngram.layer_count == 28);
  CHECK(rotary(ngram).rotary_offset == 128);
  json part = ngram_file;  // a part without a type may lack the switch
  part.erase("model_type");
  const json whole = {{"model_type", "longcat_flash_ngram"}, {"text_config", part}};
  CHECK(read_hf_config(whole).layer_count == 28);
  check_rejected(with(longcat, {{"num_hidden_layers", 30}}),
                 "'num_hidden_layers' in the configuration contradicts num_layers");
  check_rejected(with(longcat, {{"num_layers", Index{1} << 62}, {"num_hidden_layers", 0}}),
                 "'num_hidden_layers' in the configuration contradicts num_layers");
  check_rejected(with(longcat, {{"attention_method", "MHA"}}),
                 "'attention_method' in the configuration must be MLA");
}

TEST_CASE("read_hf_config: PLM's scale knows no mscale, and Megrez attends as Llama does",
          "[interop]") {
  const json yarn = {{"rope_type", "yarn"},
                     {"factor", 4.0},
                     {"original_max_position_embeddings", 4096},
                     {"mscale", 1.0},
                     {"mscale_all_dim", 1.0}};
  const auto plm =
      read_hf_config(with(config("plm", latent), {{"rope_theta", 1e5}, {"rope_scaling", yarn}}));
  CHECK(rotary(plm).pairing == PairingKind::Interleaved);
  CHECK(softmax_scale(plm) == 1 / std::sqrt(192.0));
  CHECK(frequencies(rotary(plm), 1).attention_factor() == 1);
  const auto megrez = read_hf_config(config("megrez_moe", {{"rope_theta", 5e6},
                                                           {"pre_gate", true},
                                                           {"moe_layer_freq", 1},
                                                           {"num_key_value_heads", 4}}));
  CHECK(rotary(megrez).pairing == PairingKind::HalfRotate);
  CHECK(attention_of_layer(megrez, 0).kv_heads == 4);
  const auto klear = read_hf_config(config("Klear", {{"rope_theta", 5e5}, {"num_experts", 256}}));
  CHECK(rotary(klear).pairing == PairingKind::HalfRotate);
  CHECK(rotary(klear).head_dim == 128);
}

TEST_CASE("read_hf_config: Zamba2 attends in hybrid layers, with heads twice as wide",
          "[interop]") {
  const json zamba = config("zamba2", {{"hidden_size", 2048},
                                       {"layers_block_type", {"mamba", "hybrid", "mamba", "mamba"}},
                                       {"attention_head_dim", 128},
                                       {"attention_hidden_size", 4096},
                                       {"kv_channels", 64},
                                       {"use_mem_rope", true},
                                       {"use_long_context", false},
                                       {"use_shared_attention_adapter", true}});
  const auto model = read_hf_config(zamba);
  CHECK(rotary(model).head_dim == 128);
  CHECK(rotary_dim(rotary(model)) == 128);
  CHECK(softmax_scale(model) == 0.125);
  CHECK(attention_of_layer(model, 0).kind == LayerKind::Linear);
  CHECK(rotary_of_layer(model, 0) == nullptr);
  CHECK(attention_of_layer(model, 1).kind == LayerKind::Global);
  CHECK(attention_of_layer(model, 1).kv_heads == 32);
  check_rejected(with(zamba, {{"use_mem_rope", false}}), "this 'zamba2' has no rotary encoding");
  check_rejected(
      with(zamba, {{"use_long_context", true}}),
      "'use_long_context' in the configuration is true, which releases of the class read "
      "differently");
  check_rejected(
      with(zamba, {{"hidden_size", Index{1} << 62}, {"num_attention_heads", Index{1} << 62}}),
      "'hidden_size' in the configuration and num_attention_heads do not define the width of a "
      "head");
  check_rejected(with(zamba, {{"attention_head_dim", 64}}),
                 "'attention_head_dim' in the configuration has a value that is not supported");
  check_rejected(
      with(zamba, {{"layers_block_type", {"g", "m", "m", "m"}}}),
      "'layers_block_type' in the configuration has the type 'g', which is unknown in this model");
  const json newer = {"linear_attention", "hybrid", "linear_attention", "linear_attention"};
  json alone = zamba;
  alone.erase("layers_block_type");
  check_rejected(alone, "the configuration must have layers_block_type");
  alone["layer_types"] = newer;
  CHECK(rotary_of_layer(read_hf_config(alone), 1) != nullptr);
  CHECK_NOTHROW(read_hf_config(with(zamba, {{"layer_types", newer}, {"head_dim", 128}})));
  check_rejected(
      with(alone, {{"layer_types", {"g", "m", "m", "m"}}}),
      "'layer_types' in the configuration has the type 'g', which is unknown in this model");
  check_rejected(with(zamba, {{"layer_types", {"hybrid", "mamba", "mamba", "mamba"}}}),
                 "'layer_types' in the configuration contradicts layers_block_type");
  check_rejected(with(zamba, {{"head_dim", 80}}),
                 "'hidden_size' in the configuration contradicts head_dim");
  check_rejected(with(zamba, {{"attention_hidden_size", 2048}}),
                 "'attention_hidden_size' in the configuration contradicts hidden_size");
  check_rejected(with(zamba, {{"kv_channels", 128}}),
                 "'kv_channels' in the configuration contradicts hidden_size");
  check_rejected(with(zamba, {{"position_embedding_type", "nope"}}),
                 "'use_mem_rope' in the configuration contradicts position_embedding_type");
}

TEST_CASE("read_hf_config: TeleChat3's YaRN has a magnitude of its own", "[interop]") {
  const json dict = {{"type", "telechat3-yarn"},
                     {"rope_type", "telechat3-yarn"},
                     {"factor", 4.0},
                     {"original_max_position_embeddings", 8192}};
  const auto model =
      read_hf_config(config("telechat3", {{"rope_theta", 1e6}, {"rope_scaling", dict}}));
  CHECK_THAT(frequencies(rotary(model), 1).attention_factor(),
             Catch::Matchers::WithinRel(1 + 0.07 * std::log(4.0), 1e-14));
  check_rejected(
      config("telechat3", {{"rope_theta", 1e6}, {"rope_scaling", with(dict, {{"mscale", 1.0}})}}),
      "'mscale' in rope_scaling is not supported in this type");
  check_rejected(
      config("telechat3", {{"rope_theta", 1e6}, {"rope_scaling", with(dict, {{"type", "yarn"}})}}),
      "rope_scaling contradicts itself: rope_type is 'telechat3-yarn' but type is 'yarn'");
  check_rejected(
      config("telechat3",
             {{"rope_theta", 1e6}, {"rope_scaling", with(dict, {{"rope_type", "yarn"}})}}),
      "rope_scaling contradicts itself: rope_type is 'yarn' but type is 'telechat3-yarn'");
}

TEST_CASE("read_hf_config: defaults of classes where a file is silent", "[interop]") {
  const auto rule = std::get<Llama3Scaling>(rotary(read_hf_config(config("apertus"))).rule);
  CHECK(rule.base == 12000000);
  CHECK(rule.factor == 8);
  CHECK_NOTHROW(read_hf_config(config("apertus", {{"rope_theta", 12000000}})));
  check_rejected(
      config("apertus", {{"rope_theta", 5e5}}),
      "'rope_theta' in the configuration is not 12000000, which releases of the class read "
      "differently");
  const json dict = {{"rope_type", "llama3"},
                     {"factor", 8.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 8192}};
  const auto given =
      read_hf_config(config("apertus", {{"rope_theta", 5e5}, {"rope_scaling", dict}}));
  CHECK(std::get<Llama3Scaling>(rotary(given).rule).base == 5e5);
  check_rejected(
      config("apertus", {{"rope_scaling", nullptr}}),
      "'rope_scaling' in the configuration is null, which releases of the class read differently");
  for (const auto& [type, base] :
       {std::pair("mixtral", 1e6), std::pair("ernie4_5", 5e5), std::pair("ernie4_5_moe", 5e5),
        std::pair("helium", 1e5), std::pair("phimoe", 1e6), std::pair("seed_oss", 1e4)}) {
    INFO(type);
    CHECK(base_of(rotary(read_hf_config(config(type)))) == base);
  }
  CHECK(rotary(read_hf_config(config("ernie4_5", {{"hidden_size", 2048}}))).head_dim == 128);
  // An absent key selects the class's default, null selects hidden_size / heads.
  CHECK(rotary(read_hf_config(config("seed_oss", {{"hidden_size", 2048}, {"head_dim", nullptr}})))
            .head_dim == 64);
}

TEST_CASE("read_hf_config: positions by chunks, which one program has and another has not",
          "[interop]") {
  const json chunks = {{"chunk_size", 262144}, {"local_size", 8192}};
  check_rejected(config("qwen2", {{"dual_chunk_attention_config", chunks}}),
                 "'dual_chunk_attention_config' in the configuration makes vLLM count positions by "
                 "chunks and has no effect in transformers; remove it for texts within one chunk");
  CHECK_NOTHROW(read_hf_config(config("qwen2", {{"dual_chunk_attention_config", nullptr}})));
}

TEST_CASE("read_hf_config: types of layers under the names of several releases", "[interop]") {
  for (const json& types :
       {json{"mamba", "attention"}, json{"linear_attention", "full_attention"}}) {
    INFO(types.dump());
    const json both = {{"num_hidden_layers", 2}, {"layer_types", types}, {"rope_theta", 1e4}};
    const auto granite = read_hf_config(
        with(config("granitemoehybrid", both), {{"position_embedding_type", "rope"}}));
    const auto bamba = read_hf_config(config("bamba", both));
    for (const ModelSettings& model : {granite, bamba}) {
      CHECK(attention_of_layer(model, 0).kind == LayerKind::Linear);
      CHECK(attention_of_layer(model, 1).kind == LayerKind::Global);
      CHECK(rotary_of_layer(model, 1) != nullptr);
    }
    json told = config("bamba", both);
    told["attn_layer_indices"] = {1};
    CHECK_NOTHROW(read_hf_config(told));
    told["attn_layer_indices"] = {0};
    check_rejected(told, "'layer_types' in the configuration contradicts attn_layer_indices");
  }
  for (const char* type : {"indexed_attention", "deepseek_sparse_attention"}) {
    const json file =
        with(config("deepseek_v32", latent), {{"layer_types", {type, type, type, type}}});
    CHECK(attention_of_layer(read_hf_config(file), 0).kind == LayerKind::Sparse);
  }
}

TEST_CASE("read_hf_config: towers under further names", "[interop]") {
  const auto tower = [](const json& vision) {
    return *read_hf_config(config("llama", {{"vision_config", vision}})).vision;
  };
  const auto omni = tower({{"model_type", "qwen3_omni_moe_vision_encoder"}});
  CHECK(omni.table->rows == 48);
  CHECK(omni.attention.head_dim == 72);
  CHECK(tower({{"model_type", "qwen2_5_omni_vision_encoder"}, {"hidden_size", 1280}}).window == 8);
  const auto intern = tower({{"model_type", "intern_vit_6b"}, {"image_size", 448}});
  CHECK(intern.layer_count == 48);
  CHECK(intern.attention.head_dim == 128);
  CHECK(intern.table->class_token == posenc::ClassToken::First);
}

}  // namespace hf_odd_types_test
