// SPDX-License-Identifier: MIT
// Types with their own names for common keys, types whose files name another type, and their
// traits.
#include "interop/hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace hf_key_aliases_test {

using nlohmann::json;
using posenc::Index;
using posenc::LayerKind;
using posenc::LayerWindow;
using posenc::ModelSettings;
using posenc::PairingKind;
using posenc::read_hf_config;
using posenc::Unscaled;
using posenc::WindowKind;
using support::hf::check_rejected;
using support::hf::config;
using support::hf::with;

double base_of(const ModelSettings& model) { return std::get<Unscaled>(rotary(model).rule).base; }

/// Returns a file without the usual names.
json bare(const std::string& type, const json& more) {
  json result = {{"model_type", type}};
  result.update(more);
  return result;
}

TEST_CASE("read_hf_config keys: latent attention of further types, and Phi under its first names",
          "[interop]") {
  for (const char* type : {"AXK1", "axk1", "youtu_llm"}) {
    const auto model = read_hf_config(config(
        type, {{"qk_nope_head_dim", 128}, {"qk_rope_head_dim", 64}, {"rope_theta", 1600000}}));
    CHECK(rotary(model).pairing == PairingKind::Interleaved);
    CHECK(rotary(model).rotary_offset == 128);
  }
  for (const char* type : {"phi-msft", "mixformer-sequential"}) {
    const json old = bare(type, {{"n_embd", 2560},
                                 {"n_head", 32},
                                 {"n_head_kv", nullptr},
                                 {"n_layer", 32},
                                 {"n_positions", 2048},
                                 {"flash_rotary", false},
                                 {"rotary_dim", 32}});
    CHECK(rotary(read_hf_config(old)).pairing == PairingKind::HalfRotate);
    CHECK(rotary_dim(rotary(read_hf_config(old))) == 32);
    CHECK(rotary(read_hf_config(old)).head_dim == 80);
  }
}

TEST_CASE("read_hf_config keys: a class's own names", "[interop]") {
  const json dbrx = bare("dbrx", {{"d_model", 6144},
                                  {"n_heads", 48},
                                  {"n_layers", 40},
                                  {"max_seq_len", 32768},
                                  {"attn_config",
                                   {{"attn_pdrop", 0.0},
                                    {"clip_qkv", 8},
                                    {"kv_n_heads", 8},
                                    {"model_type", ""},
                                    {"rope_theta", 500000}}}});
  const auto model = read_hf_config(dbrx);
  CHECK(rotary(model).head_dim == 128);
  CHECK(base_of(model) == 500000);
  CHECK(model.layer_count == 40);
  CHECK(model.trained_length == 32768);
  CHECK(attention_of_layer(model, 39).heads == 48);
  CHECK(attention_of_layer(model, 39).kv_heads == 8);
  json odd = dbrx;
  odd["attn_config"]["softmax_scale"] = 0.5;
  check_rejected(
      odd,
      "'softmax_scale' in attn_config is unknown, or has no effect with the other settings; "
      "remove it if it changes neither positions nor scores");
  odd = dbrx;
  odd["hidden_size"] = 4096;
  check_rejected(odd, "'d_model' in the configuration contradicts hidden_size");

  const json llada = bare("llada", {{"d_model", 4096},
                                    {"n_heads", 32},
                                    {"n_kv_heads", 8},
                                    {"n_layers", 2},
                                    {"max_sequence_length", 4096},
                                    {"alibi", false},
                                    {"alibi_bias_max", 8.0},
                                    {"attention_layer_norm", false},
                                    {"block_type", "llama"},
                                    {"rope", true},
                                    {"rope_full_precision", true},
                                    {"rope_theta", 500000.0},
                                    {"scale_logits", false}});
  CHECK(base_of(read_hf_config(llada)) == 500000);
  CHECK(attention_of_layer(read_hf_config(llada), 1).kv_heads == 8);
  json still = llada;
  still["rope"] = false;
  check_rejected(still, "this 'llada' has no rotary encoding");
  still["rope"] = 1;
  check_rejected(still, "'rope' in the configuration must be true or false");
  json one_head = llada;
  one_head.erase("n_kv_heads");
  one_head["multi_query_attention"] = true;
  CHECK(attention_of_layer(read_hf_config(one_head), 0).kv_heads == 1);

  const auto openelm = read_hf_config(bare("openelm", {{"model_dim", 1280},
                                                       {"head_dim", 64},
                                                       {"num_transformer_layers", 2},
                                                       {"num_query_heads", {12, 16}},
                                                       {"num_kv_heads", {3, 4}},
                                                       {"qkv_multipliers", {0.5, 1.0}},
                                                       {"max_context_length", 2048},
                                                       {"rope_max_length", 4096},
                                                       {"rope_freq_constant", 10000}}));
  CHECK(rotary(openelm).head_dim == 64);
  CHECK(attention_of_layer(openelm, 1).heads == 16);
  CHECK(attention_of_layer(openelm, 1).kv_heads == 4);

  const auto codeshell = read_hf_config(bare("codeshell", {{"n_embd", 4096},
                                                           {"n_head", 32},
                                                           {"num_query_groups", 8},
                                                           {"group_query_attention", true}}));
  CHECK(attention_of_layer(codeshell, 0).kv_heads == 8);
  const auto deci =
      read_hf_config(config("deci", {{"num_key_value_heads_per_layer", {4, 2, 1, 4}}}));
  CHECK(attention_of_layer(deci, 2).kv_heads == 1);
  check_rejected(
      config("deci", {{"num_key_value_heads_per_layer", {4}}}),
      "'num_key_value_heads_per_layer' in the configuration must have an entry for each layer");
  CHECK_THROWS_AS(read_hf_config(config("deci", {{"num_key_value_heads_per_layer", {4, 2, 0, 4}}})),
                  posenc::ConfigError);

  // There are as many query heads as KV heads for each expert of a token.
  const auto jetmoe = read_hf_config(bare("jetmoe", {{"hidden_size", 2048},
                                                     {"num_layers", 24},
                                                     {"kv_channels", 128},
                                                     {"n_head", 16},
                                                     {"rotary_percent", 1.0},
                                                     {"moe_top_k", 2}}));
  CHECK(rotary(jetmoe).head_dim == 128);
  CHECK(attention_of_layer(jetmoe, 0).heads == 32);
  CHECK(attention_of_layer(jetmoe, 0).kv_heads == 16);

  const json lists = bare("smallthinker", {{"hidden_size", 2560},
                                           {"head_dim", 128},
                                           {"num_attention_heads", 28},
                                           {"num_hidden_layers", 4},
                                           {"num_key_value_heads", 4},
                                           {"rope_theta", 1.5e6},
                                           {"rope_layout", {0, 1, 1, 1}},
                                           {"sliding_window_size", 4096},
                                           {"sliding_window_layout", {0, 1, 0, 1}}});
  const auto thinker = read_hf_config(lists);
  CHECK(thinker.layers_without_rotary == std::vector<Index>{0});
  CHECK(attention_of_layer(thinker, 2).kind == LayerKind::Global);
  CHECK(attention_of_layer(thinker, 3).window == LayerWindow{WindowKind::Sliding, 4096});
  json silent = lists;
  silent.erase("rope_layout");
  check_rejected(silent, "the configuration must have rope_layout");

  json telechat = config("telechat2", {{"base_seqlen", 8192}, {"training_seqlen", 8192}});
  CHECK(base_of(read_hf_config(telechat)) == 10000);
  const auto alpha = [&telechat](Index base, Index trained) {
    telechat["base_seqlen"] = base;
    telechat["training_seqlen"] = trained;
    return std::get<posenc::AlphaNtkScaling>(rotary(read_hf_config(telechat)).rule).alpha;
  };
  CHECK(alpha(8192, 8193) == 3);
  CHECK(alpha(8192, 16384) == 3);
  CHECK(alpha(8192, 16385) == 7);
  CHECK(alpha(8192, 32768) == 7);
  CHECK(read_hf_config(telechat).trained_length == 32768);
  CHECK(alpha(1, Index{1} << 40) == std::ldexp(1.0, 41) - 1);
  constexpr Index longest = (std::numeric_limits<Index>::max)();
  CHECK(alpha(Index{3} << 60, longest) == 7);
  CHECK(alpha(longest - 1, longest) == 3);
}

TEST_CASE("read_hf_config keys: own names of rotations and scales", "[interop]") {
  const json phi = config("phi3small", {{"num_key_value_heads", 8},
                                        {"blocksparse_homo_head_pattern", false},
                                        {"dense_attention_every_n_layers", 2},
                                        {"ff_dim_multiplier", nullptr},
                                        {"mup_attn_multiplier", 1.0},
                                        {"mup_embedding_multiplier", 10.0},
                                        {"mup_use_scaling", true},
                                        {"mup_width_multiplier", 8.0},
                                        {"rope_embedding_base", 2000000},
                                        {"rope_position_scale", 1.0}});
  const auto model = read_hf_config(phi);
  CHECK(base_of(model) == 2000000);
  CHECK(model.softmax_scale == 1.0 / 128);
  CHECK(attention_of_layer(model, 0).kv_heads == 8);
  CHECK(attention_of_layer(model, 0).window == std::nullopt);  // it attends to blocks of keys
  json other = phi;
  other["mup_use_scaling"] = false;
  CHECK(read_hf_config(other).softmax_scale == std::nullopt);
  other["rope_position_scale"] = 0.5;
  check_rejected(other,
                 "'rope_position_scale' in the configuration has a value that is not supported");

  json internlm = config("internlm", {{"rotary", {{"base", 20000}, {"type", "dynamic"}}}});
  const auto dynamic = read_hf_config(internlm);
  CHECK(std::get<posenc::DynamicNtkScaling>(rotary(dynamic).rule).base == 20000);
  internlm["rotary"]["type"] = "origin";
  CHECK(base_of(read_hf_config(internlm)) == 20000);
  internlm["rotary"]["type"] = "other";
  check_rejected(internlm, "'type' in rotary has an unknown value");
}

TEST_CASE("read_hf_config keys: settings on which releases of a class disagree are asked for",
          "[interop]") {
  check_rejected(config("bailing_moe_v2", {{"rope_theta", 600000}}),
                 "the configuration must have rotary_dim");
  const auto ling = read_hf_config(
      config("bailing_moe_v2", {{"rope_theta", 600000}, {"partial_rotary_factor", 0.5}}));
  CHECK(rotary_dim(rotary(ling)) == 64);
  CHECK(rotary(ling).pairing == PairingKind::HalfRotate);
  check_rejected(config("telechat", {{"training_seqlen", 8192}}),
                 "'training_seqlen' in the configuration needs base_seqlen, whose default differs "
                 "between releases of the class");
  // vLLM's class has no window; Upstage's own class is unknown.
  const auto solar = read_hf_config(config("solar", {{"sliding_window", 2047}}));
  for (const auto& layer : solar.attention) CHECK(layer.window == std::nullopt);
}

TEST_CASE("read_hf_config keys: a class's own name of a key and the usual one must agree",
          "[interop]") {
  check_rejected(config("dbrx", {{"attn_config", {{"kv_n_heads", 8}}}, {"num_key_value_heads", 4}}),
                 "'kv_n_heads' in attn_config contradicts num_key_value_heads");
  check_rejected(config("internlm", {{"rope_theta", 5000}, {"rotary", {{"base", 10000}}}}),
                 "'base' in rotary contradicts rope_theta");
}

TEST_CASE("read_hf_config keys: files that have all of a class's settings", "[interop]") {
  const json molmoe = bare("molmo", {{"d_model", 2048},
                                     {"n_heads", 16},
                                     {"n_layers", 16},
                                     {"n_kv_heads", nullptr},
                                     {"rope_theta", 10000.0},
                                     {"max_position_embeddings", 4096},
                                     {"rope_impl", "llama"},
                                     {"attention_type", "sdpa"},
                                     {"float32_attention", true},
                                     {"do_random_scale", false},
                                     {"block_type", "moe"},
                                     {"query_pre_attn_scalar", 224}});
  const auto read = read_hf_config(molmoe);
  CHECK(rotary(read).head_dim == 128);
  CHECK(read.softmax_scale == std::nullopt);
  check_rejected(
      with(molmoe, {{"rope_impl", "interleave"}}),
      "'rope_impl' in the configuration is interleave, which is not supported in this model");
  check_rejected(
      with(molmoe, {{"block_type", "gemma"}}),
      "'block_type' in the configuration is gemma, which is not supported in this model");
}

TEST_CASE("read_hf_config keys: MiniMax-M3 names the second model's type", "[interop]") {
  json text = config("minimax_m2", {{"rope_theta", 5000000}, {"rotary_dim", 64}});
  text["num_hidden_layers"] = 4;
  text["sparse_attention_config"] = {{"sparse_attention_freq", {0, 0, 1, 1}}};
  const auto m3 = read_hf_config(json{{"model_type", "minimax_m3_vl"}, {"text_config", text}});
  CHECK(m3.model_type == "minimax_m3_vl_text");
  REQUIRE(m3.attention.size() == 4);
  CHECK(m3.attention[1].kind == posenc::LayerKind::Global);
  CHECK(m3.attention[2].kind == posenc::LayerKind::Sparse);
  CHECK(m3.attention[2].window == LayerWindow{});
}

TEST_CASE("read_hf_config keys: files that name another's type", "[interop]") {
  const json grok = config("git", {{"architectures", {"Grok1ForCausalLM"}},
                                   {"attn_logit_softcapping", 30},
                                   {"attn_temperature_len", 1024},
                                   {"embedding_multiplier_scale", 90.5},
                                   {"output_multiplier_scale", 0.5},
                                   {"original_max_position_embeddings", 8192},
                                   {"rope_theta", 208533496},
                                   {"rope_type", "original"},
                                   {"scaling_factor", 16.0},
                                   {"extrapolation_factor", 1.0},
                                   {"attn_factor", 1.0},
                                   {"beta_fast", 8},
                                   {"beta_slow", 1},
                                   {"sliding_window_size", -1},
                                   {"global_attn_every_n", 1}});
  const auto second = read_hf_config(grok);
  CHECK(second.model_type == "grok-2");
  CHECK(base_of(second) == 208533496);
  CHECK(second.softcap == 30);
  CHECK(second.query_temperature ==
        posenc::QueryTemperature{.formula = posenc::QueryTemperatureFormula::LogRatio,
                                 .length = 1024});
  json scaled = grok;
  scaled["rope_type"] = "yarn";
  check_rejected(scaled, "'rope_type' in the configuration has a value that is not supported");
  check_rejected(config("git"),
                 "this 'git' has no rotary encoding: it has a table of learned positions");
  const auto first = read_hf_config(config(
      "grok-1", {{"attn_output_multiplier", 0.08838834764831845}, {"max_attn_value", 30.0}}));
  CHECK(first.softmax_scale == 0.08838834764831845);
  CHECK(first.softcap == 30);
  CHECK(first.query_temperature == std::nullopt);

  const auto jina = read_hf_config(
      config("xlm-roberta", {{"position_embedding_type", "rotary"}, {"rotary_emb_base", 20000.0}}));
  CHECK(jina.model_type == "jina_embeddings_v3");
  CHECK(base_of(jina) == 20000);

  // Without latent attention, DeepSeek's attention is Llama's.
  const json plain = {{"use_mla", false},
                      {"kv_lora_rank", nullptr},
                      {"qk_nope_head_dim", 0},
                      {"qk_rope_head_dim", 0},
                      {"v_head_dim", 0}};
  for (const char* type : {"deepseek_v2", ""}) {
    const auto tiny = read_hf_config(
        json{{"model_type", "deepseek_vl_v2"}, {"language_config", config(type, plain)}});
    CHECK(tiny.model_type == "deepseek");
    CHECK(rotary(tiny).pairing == PairingKind::HalfRotate);
    CHECK(rotary(tiny).head_dim == 128);
    CHECK(attention_of_layer(tiny, 0).value_dim == 128);
  }

  const auto text_of = [](const json& more) {
    return read_hf_config(config("minicpmv", more)).model_type;
  };
  CHECK(text_of({{"scale_depth", 1.4}, {"scale_emb", 12}, {"scale_resolution", 448}}) == "minicpm");
  CHECK(text_of({{"version", 2.0}}) == "minicpm");
  CHECK(read_hf_config(config("minicpmo", {{"version", "2.6"}})).model_type == "qwen2");
  CHECK(read_hf_config(config("minicpmo", {{"version", "4.5"}})).model_type == "qwen3");

  const auto dream =
      read_hf_config(json{{"model_type", "moondream1"}, {"text_config", {{"model_type", "phi"}}}});
  CHECK(rotary_dim(rotary(dream)) == 32);
  CHECK(dream.layer_count == 24);

  check_rejected({{"_class_name", "LTXVideoTransformer3DModel"}, {"attention_head_dim", 64}},
                 "the configuration has no model_type, but a _class_name: files of diffusers "
                 "models do not define their rotation");
}

}  // namespace hf_key_aliases_test
