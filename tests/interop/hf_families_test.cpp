// SPDX-License-Identifier: MIT
// Families of 2024 to 2026 whose layers differ in rotation, heads or windows, and known unsupported
// types.
#include "interop/hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/multimodal_axes.hpp>

#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace hf_families_test {

using nlohmann::json;
using posenc::Index;
using posenc::LayerAttention;
using posenc::LayerKind;
using posenc::LayerWindow;
using posenc::ModelSettings;
using posenc::PairingKind;
using posenc::read_hf_config;
using posenc::RotarySettings;
using posenc::Unscaled;
using posenc::WindowKind;
using support::hf::check_rejected;
using support::hf::config;

double base_of(const ModelSettings& model, Index layer) {
  const RotarySettings* settings = rotary_of_layer(model, layer);
  REQUIRE(settings != nullptr);
  return std::get<Unscaled>(settings->rule).base;
}

json deepseek_v4(const json& more = json::object()) {
  json result =
      config("deepseek_v4",
             {{"num_attention_heads", 64},
              {"num_key_value_heads", 1},
              {"qk_rope_head_dim", 64},
              {"rope_theta", 10000},
              {"compress_rope_theta", 160000},
              {"compress_ratios", {0, 0, 4, 128, 4}},
              {"rope_scaling",
               {{"type", "yarn"}, {"factor", 16}, {"original_max_position_embeddings", 65536}}}});
  result.update(more);
  return result;
}

TEST_CASE(
    "read_hf_config families: DeepSeek-V4 scales where keys are compressed, with a base of its own",
    "[interop]") {
  const auto model = read_hf_config(deepseek_v4());
  CHECK(model.layer_types == std::vector<std::string>{"sliding_attention", "sliding_attention",
                                                      "compressed", "compressed"});
  CHECK(base_of(model, 1) == 10000);
  const RotarySettings& compressed = *rotary_of_layer(model, 2);
  CHECK(compressed.head_dim == 512);
  CHECK(compressed.rotary_offset == 448);
  CHECK(compressed.pairing == PairingKind::Interleaved);
  const auto frequencies = posenc::frequencies(compressed, 1);
  CHECK(frequencies.attention_factor() == 1);
  CHECK(frequencies.inv_freq()[15] == Approx(0.003635538584).epsilon(1e-9));
  CHECK(frequencies.inv_freq()[20] == Approx(0.0002969777783).epsilon(1e-9));
  CHECK(frequencies.inv_freq()[31] == Approx(5.680529037e-07).epsilon(1e-9));

  const LayerAttention& local = attention_of_layer(model, 0);
  CHECK(local.kind == LayerKind::Sliding);
  CHECK(local.window == LayerWindow{WindowKind::Sliding, 128});
  CHECK(local.sinks == true);
  CHECK(local.kv_heads == 1);
  CHECK(local.output_inverse_rotated);
  CHECK(attention_of_layer(model, 3).kind == LayerKind::Compressed);

  json nested = deepseek_v4({{"rope_parameters",
                              {{"main", {{"rope_theta", 5000}, {"partial_rotary_factor", 0.125}}},
                               {"compress", {{"rope_theta", 7000}}}}}});
  for (const char* key : {"rope_scaling", "rope_theta", "compress_rope_theta"}) nested.erase(key);
  CHECK(base_of(read_hf_config(nested), 0) == 5000);
  CHECK(base_of(read_hf_config(nested), 2) == 7000);
  nested["rope_parameters"]["main"]["partial_rotary_factor"] = 0.25;
  check_rejected(nested, "'partial_rotary_factor' in rope_parameters contradicts qk_rope_head_dim");
  check_rejected(deepseek_v4({{"compress_ratios", {0, 4}}}),
                 "'compress_ratios' in the configuration must have an entry for each layer");
}

TEST_CASE("read_hf_config families: MiMo-V2 has heads of its own in local layers", "[interop]") {
  const json file = config("mimo_v2_flash", {{"rope_theta", 5000000},
                                             {"swa_rope_theta", 10000},
                                             {"partial_rotary_factor", 0.334},
                                             {"num_key_value_heads", 4},
                                             {"head_dim", 192},
                                             {"v_head_dim", 128},
                                             {"swa_num_attention_heads", 64},
                                             {"swa_num_key_value_heads", 8},
                                             {"swa_head_dim", 192},
                                             {"swa_v_head_dim", 96},
                                             {"sliding_window", 128},
                                             {"sliding_window_size", 128},
                                             {"attention_value_scale", 0.707},
                                             {"add_swa_attention_sink_bias", true},
                                             {"add_full_attention_sink_bias", false},
                                             {"hybrid_layer_pattern", {0, 1, 1, 0}}});
  const auto model = read_hf_config(file);
  CHECK(base_of(model, 0) == 5000000);
  CHECK(base_of(model, 1) == 10000);
  CHECK(rotary_dim(*rotary_of_layer(model, 1)) == 64);
  const LayerAttention &global = attention_of_layer(model, 0),
                       &local = attention_of_layer(model, 1);
  CHECK(global.heads == 32);
  CHECK(global.kv_heads == 4);
  CHECK(global.value_dim == 128);
  CHECK(global.sinks == false);
  CHECK(local.heads == 64);
  CHECK(local.kv_heads == 8);
  CHECK(local.value_dim == 96);
  CHECK(local.sinks == true);
  CHECK(local.window == LayerWindow{WindowKind::Sliding, 128});
}

TEST_CASE("read_hf_config families: Step 3.5 has lists of bases and rotary shares", "[interop]") {
  const json file =
      config("step3p5", {{"head_dim", 128},
                         {"num_attention_groups", 8},
                         {"rope_theta", {5000000.0, 10000.0, 10000.0, 5000000.0, 1.0}},
                         {"partial_rotary_factors", {0.5, 1.0, 1.0, 0.5}},
                         {"yarn_only_types", {"full_attention"}},
                         {"rope_scaling",
                          {{"rope_type", "llama3"},
                           {"factor", 2.0},
                           {"original_max_position_embeddings", 131072},
                           {"low_freq_factor", 1.0},
                           {"high_freq_factor", 32.0}}},
                         {"attention_other_setting",
                          {{"attention_type", "sliding_attention"},
                           {"num_attention_heads", 96},
                           {"num_attention_groups", 16},
                           {"head_dim", 128}}},
                         {"use_head_wise_attn_gate", true},
                         {"sink", false},
                         {"layer_types",
                          {"full_attention", "sliding_attention", "sliding_attention",
                           "full_attention", "sliding_attention"}}});
  const auto model = read_hf_config(file);
  CHECK(model.layer_count == 4);
  const RotarySettings& global = *rotary_of_layer(model, 3);
  CHECK(std::get<posenc::Llama3Scaling>(global.rule).base == 5000000);
  CHECK(rotary_dim(global) == 64);
  CHECK(base_of(model, 1) == 10000);
  CHECK(rotary_dim(*rotary_of_layer(model, 1)) == 128);
  CHECK(attention_of_layer(model, 0).heads == 32);
  CHECK(attention_of_layer(model, 0).kv_heads == 8);
  CHECK(attention_of_layer(model, 1).heads == 96);
  CHECK(attention_of_layer(model, 1).kv_heads == 16);
  CHECK(attention_of_layer(model, 1).window == LayerWindow{WindowKind::Sliding, 512});
  json mixed = file;
  mixed["rope_theta"] = {5000000.0, 10000.0, 20000.0, 5000000.0};
  const auto apart = read_hf_config(mixed);
  CHECK(apart.layer_types == std::vector<std::string>{"full_attention", "sliding_attention",
                                                      "sliding_attention 2", "full_attention"});
  CHECK(base_of(apart, 1) == 10000);
  CHECK(base_of(apart, 2) == 20000);
  CHECK(attention_of_layer(apart, 2) == attention_of_layer(apart, 1));
  CHECK(softmax_scale(apart, "sliding_attention 2") == softmax_scale(apart, "full_attention"));
  mixed["partial_rotary_factors"] = {0.5, 1.0, 1.0, 0.25};
  CHECK(rotary_dim(*rotary_of_layer(read_hf_config(mixed), 0)) == 64);
  CHECK(rotary_dim(*rotary_of_layer(read_hf_config(mixed), 3)) == 32);
  mixed["partial_rotary_factors"] = {0.5};  // the other layers rotate all channels
  CHECK(rotary_dim(*rotary_of_layer(read_hf_config(mixed), 3)) == 128);
  mixed["use_rope_layers"] = {true, false, true, true, false};
  const auto some = read_hf_config(mixed);
  CHECK(rotary_of_layer(some, 0) != nullptr);
  CHECK(rotary_of_layer(some, 1) == nullptr);
  CHECK(attention_of_layer(some, 1).window == LayerWindow{WindowKind::Sliding, 512});
  mixed["use_rope_layers"] = json::array();
  CHECK(rotary_of_layer(read_hf_config(mixed), 1) != nullptr);
  mixed["use_rope_layers"] = {true, false};
  check_rejected(mixed, "'use_rope_layers' in the configuration must have an entry for each layer");
  mixed["use_rope_layers"] = {1, 0, 1, 1};
  check_rejected(mixed, "'use_rope_layers' in the configuration must be a list of true and false");
  mixed.erase("use_rope_layers");
  mixed["rope_theta"] = {5000000.0, 10000.0};
  check_rejected(mixed, "'rope_theta' in the configuration must have an entry for each layer");
}

TEST_CASE("read_hf_config families: global layers without rotation", "[interop]") {
  const auto afmoe = read_hf_config(config("afmoe"));
  CHECK(rotary_of_layer(afmoe, 3) == nullptr);
  CHECK(base_of(afmoe, 0) == 10000);
  CHECK(attention_of_layer(afmoe, 0).window == LayerWindow{WindowKind::Sliding, 1024});
  CHECK(attention_of_layer(afmoe, 3).kind == LayerKind::Global);
  CHECK(attention_of_layer(afmoe, 3).head_dim == 128);
  const auto exaone = read_hf_config(config("exaone_moe", {{"rope_theta", 1000000.0}}));
  CHECK(rotary_of_layer(exaone, 3) == nullptr);
  CHECK(attention_of_layer(exaone, 2).kind == LayerKind::Sliding);
}

TEST_CASE("read_hf_config families: hybrids", "[interop]") {
  const json granite =
      config("granitemoehybrid", {{"position_embedding_type", "rope"},
                                  {"attention_multiplier", 0.0078125},
                                  {"layer_types", {"mamba", "attention", "mamba", "mamba"}}});
  const auto model = read_hf_config(granite);
  CHECK(rotary_of_layer(model, 0) == nullptr);
  CHECK(rotary_of_layer(model, 1) != nullptr);
  CHECK(attention_of_layer(model, 0).kind == LayerKind::Linear);
  CHECK(attention_of_layer(model, 1).kind == LayerKind::Global);
  CHECK(model.softmax_scale == 0.0078125);
  json still = granite;
  still.erase("position_embedding_type");
  check_rejected(still, "this 'granitemoehybrid' has no rotary encoding");

  check_rejected(config("olmo_hybrid"), "this 'olmo_hybrid' has no rotary encoding");
  const auto olmo =
      read_hf_config(config("olmo_hybrid", {{"rope_parameters", {{"rope_theta", 500000}}}}));
  CHECK(attention_of_layer(olmo, 0).kind == LayerKind::Linear);
  CHECK(base_of(olmo, 3) == 500000);
}

TEST_CASE(
    "read_hf_config families: Mistral 4 has latent keys and a temperature; its magnitude is read "
    "in two ways",
    "[interop]") {
  const json published = config("mistral4", {{"max_position_embeddings", 1048576},
                                             {"qk_nope_head_dim", 64},
                                             {"qk_rope_head_dim", 64},
                                             {"v_head_dim", 128},
                                             {"rope_parameters",
                                              {{"type", "yarn"},
                                               {"rope_theta", 10000.0},
                                               {"factor", 128.0},
                                               {"original_max_position_embeddings", 8192},
                                               {"max_position_embeddings", 1048576},
                                               {"mscale", 1.0},
                                               {"mscale_all_dim", 1.0},
                                               {"llama_4_scaling_beta", 0.1},
                                               {"partial_rotary_factor", 0.5}}}});
  check_rejected(
      published,
      "'mscale_all_dim' in rope_parameters multiplies the scale of scores by (0.1 "
      "mscale_all_dim ln(factor) + 1)^2 in newer releases of transformers and by 1 in older "
      "ones, as Mistral's own files do where apply_scale is false; for the latter, remove mscale "
      "and mscale_all_dim and set attention_factor to 1");
  json file = published;
  file["rope_parameters"].erase("mscale");
  file["rope_parameters"].erase("mscale_all_dim");
  file["rope_parameters"]["attention_factor"] = 1.0;
  const auto model = read_hf_config(file);
  CHECK(frequencies(rotary(model), 1).attention_factor() == 1);
  CHECK(rotary(model).rotary_offset == 64);
  CHECK(rotary_dim(rotary(model)) == 64);
  CHECK(rotary(model).pairing == PairingKind::Interleaved);
  CHECK(softmax_scale(model) == 1 / std::sqrt(128.0));
  REQUIRE(model.query_temperature.has_value());
  CHECK(model.query_temperature->length == 8192);
  CHECK(model.query_temperature->scale == 0.1);
  json odd = file;
  odd["rope_parameters"]["partial_rotary_factor"] = 0.25;
  check_rejected(odd, "'partial_rotary_factor' in rope_parameters contradicts qk_rope_head_dim");
}

TEST_CASE("read_hf_config families: Qwen 1 has a temperature unless its file says otherwise",
          "[interop]") {
  const json plain = config("qwen", {{"use_dynamic_ntk", false}, {"seq_length", 2048}});
  const auto tempered = read_hf_config(plain);
  REQUIRE(tempered.query_temperature.has_value());
  CHECK(tempered.query_temperature->formula == posenc::QueryTemperatureFormula::LogN);
  CHECK(tempered.query_temperature->length == 2048);
  json cool = plain;
  cool["use_logn_attn"] = false;
  CHECK_FALSE(read_hf_config(cool).query_temperature);
  check_rejected(config("qwen"),
                 "'use_dynamic_ntk' in the configuration must be false: it selects a rule of this "
                 "class alone, whose base grows in steps beyond seq_length");
}

TEST_CASE("read_hf_config families: texts of models for vision and speech", "[interop]") {
  const json mrope = {{"rope_scaling", {{"rope_type", "default"}, {"mrope_section", {8, 12, 12}}}}};
  const auto glm = read_hf_config(config("glm4v_text", mrope));
  CHECK(rotary(glm).pairing == PairingKind::Interleaved);
  CHECK(rotary_dim(rotary(glm)) == 64);
  CHECK(rotary(glm).axes == posenc::mrope_chunked({8, 12, 12}));
  CHECK(rotary(read_hf_config(config("glm4v_moe", mrope))).pairing == PairingKind::HalfRotate);

  const json omni = {
      {"model_type", "qwen3_omni_moe"},
      {"thinker_config",
       {{"model_type", "qwen3_omni_moe_thinker"},
        {"text_config", config("qwen3_omni_moe_text", {{"rope_theta", 1000000},
                                                       {"rope_scaling",
                                                        {{"rope_type", "default"},
                                                         {"mrope_interleaved", true},
                                                         {"mrope_section", {24, 20, 20}}}}})}}}};
  CHECK(rotary(read_hf_config(omni)).axes ==
        posenc::mrope_interleaved({24, 20, 20}, posenc::MropeTail::Time));
}

TEST_CASE("read_hf_config families: heads and windows of further families", "[interop]") {
  const auto laguna = read_hf_config(
      config("laguna",
             {{"num_attention_heads_per_layer", {48, 64, 48, 64}},
              {"layer_types",
               {"full_attention", "sliding_attention", "full_attention", "sliding_attention"}}}));
  CHECK(attention_of_layer(laguna, 0).heads == 48);
  CHECK(attention_of_layer(laguna, 1).heads == 64);
  CHECK(attention_of_layer(laguna, 1).window == LayerWindow{WindowKind::Sliding, 512});
  CHECK(rotary_dim(*rotary_of_layer(laguna, 0)) == 64);
  CHECK(rotary_dim(*rotary_of_layer(laguna, 1)) == 128);
  CHECK(base_of(read_hf_config(config("laguna")), 3) == 500000);
  // A length beside the dicts adds nothing.
  json beside = config("laguna", {{"rope_parameters",
                                   {{"full_attention",
                                     {{"rope_type", "yarn"},
                                      {"rope_theta", 500000.0},
                                      {"factor", 64.0},
                                      {"original_max_position_embeddings", 4096},
                                      {"partial_rotary_factor", 0.5}}},
                                    {"sliding_attention", {{"rope_theta", 10000.0}}},
                                    {"original_max_position_embeddings", 4096}}}});
  CHECK(rotary_dim(*rotary_of_layer(read_hf_config(beside), 0)) == 64);
  beside["rope_parameters"]["original_max_position_embeddings"] = 8192;
  check_rejected(beside,
                 "'original_max_position_embeddings' in rope_parameters.full_attention contradicts "
                 "the one of the outer dict");

  const json yarn = {
      {"rope_type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 4096}};
  const auto trained = [](const json& dict) {
    const auto olmo = read_hf_config(config("olmo3", {{"rope_theta", 500000},
                                                      {"rope_parameters", dict},
                                                      {"original_max_position_embeddings", 4096}}));
    return std::get<posenc::YarnScaling>(rotary_of_layer(olmo, 3)->rule).original_max_position;
  };
  const json plain = {{"rope_type", "default"}};
  CHECK(trained(yarn) == 4096);
  CHECK(trained({{"full_attention", yarn}, {"sliding_attention", plain}}) == 4096);
  json without_length = yarn;
  without_length.erase("original_max_position_embeddings");
  CHECK(trained({{"full_attention", without_length}, {"sliding_attention", plain}}) == 4096);

  const auto dots = read_hf_config(config("dots1", {{"max_window_layers", 3}}));
  CHECK(attention_of_layer(dots, 2).kind == LayerKind::Global);
  CHECK(attention_of_layer(dots, 3).window == LayerWindow{WindowKind::Sliding, 4096});

  const auto decoder = read_hf_config(config("modernbert-decoder"));
  CHECK(attention_of_layer(decoder, 1).window == LayerWindow{WindowKind::Sliding, 64});
  CHECK(base_of(decoder, 0) == 160000);
  CHECK(base_of(decoder, 2) == 10000);

  json fla = config("transformer", {{"num_heads", 16}, {"window_size", 512}});
  fla.erase("num_attention_heads");
  CHECK(rotary(read_hf_config(fla)).head_dim == 256);
  CHECK(attention_of_layer(read_hf_config(fla), 0).kv_heads == 16);
  CHECK(attention_of_layer(read_hf_config(fla), 0).window == LayerWindow{WindowKind::Sliding, 512});
  for (const char* type : {"bailing_moe", "telechat3"}) {
    CHECK(base_of(read_hf_config(config(type, {{"rope_theta", 600000}})), 0) == 600000);
  }
}

TEST_CASE("read_hf_config families: types that are known and not read list their settings",
          "[interop]") {
  for (const auto& type : posenc::detail::hf_unsupported_types) {
    const std::string has(type.has);
    posenc::detail::for_each_name(type.names, [&](std::string_view given) {
      CHECK(posenc::detail::find_hf_model_type(given) == nullptr);
      const std::string name(given);
      check_rejected(config(name.c_str()),
                     type.has_rotary
                         ? "the model_type '" + name + "' is not supported: it has " + has
                         : "this '" + name + "' has no rotary encoding: it has " + has);
    });
  }
}

TEST_CASE("read_hf_config families: rows of types name each type once, and its pairing",
          "[interop]") {
  std::set<std::string_view> names;
  const auto check = [&names](const auto& rows) {
    for (const auto& row : rows) {
      CHECK(row.rope.pairing);
      posenc::detail::for_each_name(
          row.names, [&](std::string_view name) { CHECK(names.insert(name).second); });
    }
  };
  check(posenc::detail::hf_plain_types);
  check(posenc::detail::hf_window_types);
  check(posenc::detail::hf_layered_types);
  check(posenc::detail::hf_custom_types);
}

}  // namespace hf_families_test
