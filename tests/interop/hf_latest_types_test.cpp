// SPDX-License-Identifier: MIT
// Model types of transformers 5.24, against numbers of their classes, and frames around text models.
#include "interop/hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>
#include <posenc/rotary/any_rope.hpp>

#include <cmath>
#include <string>
#include <variant>
#include <vector>

namespace hf_latest_types_test {

using nlohmann::json;
using posenc::Index;
using posenc::LayerKind;
using posenc::LayerWindow;
using posenc::ModelSettings;
using posenc::PairingKind;
using posenc::read_hf_config;
using posenc::RotarySettings;
using posenc::WindowKind;
using support::hf::check_rejected;
using support::hf::config;

namespace {

/// Returns the angle of a pair at ids t, h, w.
double angle(const RotarySettings& settings, Index pair, const std::vector<Index>& ids) {
  const auto id = ids[static_cast<std::size_t>(settings.axes.axis(pair))];
  return static_cast<double>(id) *
         frequencies(settings, 1).inv_freq()[static_cast<std::size_t>(pair)];
}

double base_of(const RotarySettings& settings) {
  return std::get<posenc::Unscaled>(settings.rule).base;
}

json latent(const char* type, const json& more = json::object()) {
  json file =
      config(type, {{"qk_nope_head_dim", 64}, {"qk_rope_head_dim", 32}, {"v_head_dim", 64}});
  file.update(more);
  return file;
}

std::string type_of(const char* whole, const json& part) {
  return read_hf_config(json{{"model_type", whole}, {"text_config", part}}).model_type;
}

}  // namespace

TEST_CASE("read_hf_config: Cosmos 3 Edge alternates the axes, although its file does not say so",
          "[interop][mrope]") {
  const json file = {
      {"model_type", "cosmos3_edge_text"},
      {"hidden_size", 2048},
      {"num_hidden_layers", 2},
      {"num_attention_heads", 16},
      {"num_key_value_heads", 8},
      {"head_dim", 128},
      {"max_position_embeddings", 131072},
      {"rope_parameters",
       {{"rope_type", "default"}, {"rope_theta", 100000000.0}, {"mrope_section", {24, 20, 20}}}}};
  const auto model = read_hf_config(file);
  CHECK(rotary(model).pairing == PairingKind::HalfRotate);
  CHECK(std::cos(angle(rotary(model), 1, {5, 7, 9})) == Approx(0.511449).epsilon(1e-5));
  json bare = file;
  bare.erase("rope_parameters");
  CHECK(base_of(rotary(read_hf_config(bare))) == 1e8);
  CHECK(rotary(read_hf_config(bare)).axes.axis(2) == 2);
}

TEST_CASE("read_hf_config: latent types whose layers choose keys", "[interop]") {
  const auto model = read_hf_config(latent("axk2", {{"head_dim", 32}}));
  CHECK(rotary(model).pairing == PairingKind::Interleaved);
  CHECK(rotary(model).rotary_offset == 64);
  CHECK(base_of(rotary(model)) == 10000);
  CHECK(attention_of_layer(model, 0).kind == LayerKind::Sparse);
  const json types(std::vector<std::string>(4, "indexed_attention"));
  CHECK(attention_of_layer(read_hf_config(latent("axk2", {{"layer_types", types}})), 3).kind ==
        LayerKind::Sparse);
  check_rejected(latent("axk2", {{"rope_interleave", false}}),
                 "'rope_interleave' in the configuration is read by no class of this type");
}

TEST_CASE("read_hf_config: Compass has a dict per layer type, null where no channel is rotated",
          "[interop]") {
  const json dict = {
      {"rope_type", "default"}, {"rope_theta", 5e4}, {"mrope_section", {24, 20, 20}}};
  json file =
      config("cohere_compass_text",
             {{"layer_types",
               {"sliding_attention", "sliding_attention", "sliding_attention", "full_attention"}},
              {"rope_parameters",
               {{"sliding_attention", dict},
                {"full_attention", nullptr},
                {"rope_theta", 1e4},
                {"rope_type", "default"}}}});
  const auto model = read_hf_config(file);
  REQUIRE(rotary_of_layer(model, 0) != nullptr);
  CHECK(base_of(*rotary_of_layer(model, 0)) == 5e4);
  CHECK(rotary_of_layer(model, 0)->axes.axis(1) == 1);
  CHECK(rotary_of_layer(model, 3) == nullptr);
  CHECK(attention_of_layer(model, 0).window == LayerWindow{WindowKind::Sliding, 4096});
  CHECK(attention_of_layer(model, 3).kind == LayerKind::Global);
  file.erase("rope_parameters");
  check_rejected(file, "rope_scaling must have mrope_section");
}

TEST_CASE("read_hf_config: Zaya rotates half of a head, with a base per layer type", "[interop]") {
  const auto by_class = read_hf_config(config("zaya"));
  CHECK(rotary_dim(*rotary_of_layer(by_class, 0)) == 64);
  CHECK(base_of(*rotary_of_layer(by_class, 0)) == 5e6);
  const json file = config(
      "zaya", {{"sliding_window", 4096},
               {"layer_types", {"hybrid", "hybrid_sliding", "hybrid", "hybrid_sliding"}},
               {"rope_parameters",
                {{"rope_type", "default"},
                 {"hybrid", {{"rope_theta", 5e6}, {"partial_rotary_factor", 0.5}}},
                 {"hybrid_sliding", {{"rope_theta", 2e4}, {"partial_rotary_factor", 0.25}}}}}});
  const auto model = read_hf_config(file);
  CHECK(base_of(*rotary_of_layer(model, 1)) == 2e4);
  CHECK(rotary_dim(*rotary_of_layer(model, 1)) == 32);
  CHECK(attention_of_layer(model, 1).window == LayerWindow{WindowKind::Sliding, 4096});
  CHECK(attention_of_layer(model, 2).kind == LayerKind::Global);
}

TEST_CASE("read_hf_config: T5Gemma 2's encoder has Gemma 3's rotation, and windows of two sizes",
          "[interop]") {
  const auto model = read_hf_config(config("t5gemma2_text", {{"num_hidden_layers", 6}}));
  CHECK(base_of(*rotary_of_layer(model, 0)) == 1e4);
  CHECK(base_of(*rotary_of_layer(model, 5)) == 1e6);
  CHECK(model.softmax_scale == 1 / 16.0);
  CHECK(attention_of_layer(model, 0).window == std::nullopt);
  CHECK(attention_of_layer(model, 5).window == LayerWindow{});
}

TEST_CASE("read_hf_config: encoder and decoder of Dia have scale 1", "[interop]") {
  const json dia = {{"model_type", "dia"},
                    {"encoder_config", {{"model_type", "dia_encoder"}}},
                    {"decoder_config",
                     {{"model_type", "dia_decoder"},
                      {"cross_head_dim", 128},
                      {"cross_num_attention_heads", 16}}}};
  const auto encoder = read_hf_config(dia, {.part = "encoder_config"});
  CHECK(softmax_scale(encoder) == 1);
  CHECK(rotary(encoder).head_dim == 128);
  const auto decoder = read_hf_config(dia, {.part = "decoder_config"});
  CHECK(softmax_scale(decoder) == 1);
  CHECK(attention_of_layer(decoder, 17).kv_heads == 4);
  check_rejected(dia,
                 "the model_type 'dia' is not supported: it has an encoder, and a decoder that "
                 "attends to it");
}

TEST_CASE("read_hf_config: types that are read like Llama", "[interop]") {
  const auto granite = read_hf_config(
      json{{"model_type", "granite4_vision"},
           {"text_config", config("granite4_vision_text", {{"attention_multiplier", 0.015625}})}});
  CHECK(softmax_scale(granite) == 0.015625);
  const auto higgs = read_hf_config(config("higgs_audio_v2", {{"hidden_size", 3072}}));
  const auto& rule = std::get<posenc::Llama3Scaling>(rotary(higgs).rule);
  CHECK(rule.base == 500000);
  CHECK(rule.low_freq_factor == 0.125);
  CHECK(rule.high_freq_factor == 0.5);
  CHECK(rule.original_max_position == 1024);
  check_rejected(config("higgs_audio_v2", {{"rope_theta", 1e4}}),
                 "'rope_theta' in the configuration is not 500000, which releases of the class "
                 "read differently");
  CHECK(base_of(rotary(read_hf_config(config("evolla")))) == 500000);
  CHECK(base_of(rotary(read_hf_config(config("idefics", {{"cross_layer_interval", 4}})))) == 10000);
}

TEST_CASE("read_hf_config: frames around text models name the type of a part that names none",
          "[interop]") {
  const json sizes = {{"hidden_size", 1024}, {"num_attention_heads", 8}, {"num_hidden_layers", 4}};
  json interleaved = sizes;
  interleaved["rope_parameters"] = {{"rope_theta", 1e7}, {"mrope_section", {11, 11, 10}}};
  json chunked = interleaved;
  for (const char* whole : {"fast_vlm", "vibevoice", "vibevoice_asr", "video_llama_3"}) {
    CHECK(type_of(whole, sizes) == "qwen2");
  }
  CHECK(type_of("qianfan_ocr", sizes) == "qwen3");
  CHECK(type_of("qwen3_asr", sizes) == "qwen3");
  CHECK(type_of("idefics2", sizes) == "mistral");
  CHECK(type_of("minicpmv4_6", interleaved) == "qwen3_5_text");
  CHECK(type_of("granite4_vision", sizes) == "granite4_vision_text");
  CHECK(type_of("t5gemma2_encoder", sizes) == "t5gemma2_text");
  chunked["rope_parameters"]["mrope_section"] = {8, 12, 12};
  CHECK(type_of("glmga", chunked) == "glm4v_text");
}

TEST_CASE("read_hf_config: types whose layers without a window are not rotated", "[interop]") {
  const auto flint = read_hf_config(config("flint", {{"num_hidden_layers", 7}}));
  for (const Index layer : {0, 1, 5, 6}) CHECK(rotary_of_layer(flint, layer) == nullptr);
  for (const Index layer : {2, 3, 4}) CHECK(rotary_of_layer(flint, layer) != nullptr);
  CHECK(attention_of_layer(flint, 2).window == LayerWindow{WindowKind::Sliding, 513});
  CHECK(attention_of_layer(flint, 2).sinks == true);
  const auto kolibri = read_hf_config(config("kolibri1", {{"num_hidden_layers", 6}}));
  CHECK(rotary_of_layer(kolibri, 4) == nullptr);
  CHECK(rotary_of_layer(kolibri, 5) != nullptr);
  CHECK(attention_of_layer(kolibri, 0).sinks == false);
}

TEST_CASE("read_hf_config: types with a dict per layer type by default", "[interop]") {
  const auto lfm =
      read_hf_config(config("lfm3", {{"num_hidden_layers", 5}, {"use_attention_gate", true}}));
  CHECK(rotary_of_layer(lfm, 0) == nullptr);
  CHECK(attention_of_layer(lfm, 0).kind == LayerKind::Convolution);
  CHECK(std::holds_alternative<posenc::ProportionalScaling>(rotary_of_layer(lfm, 2)->rule));
  CHECK(base_of(*rotary_of_layer(lfm, 4)) == 1e4);
  CHECK(attention_of_layer(lfm, 4).window == LayerWindow{WindowKind::Sliding, 256});
  const auto bert = read_hf_config(config("ultrabert", {{"num_hidden_layers", 3}}));
  CHECK(base_of(*rotary_of_layer(bert, 2)) == 2560000);
  CHECK(attention_of_layer(bert, 0).window == LayerWindow{WindowKind::BothSides, 256});
  const auto gemma = read_hf_config(config("embedding_gemma2_text", {{"num_hidden_layers", 6}}));
  CHECK(rotary_of_layer(gemma, 5)->head_dim == 512);
  CHECK(attention_of_layer(gemma, 5).kv_heads == 1);
  CHECK(attention_of_layer(gemma, 0).kv_heads == 2);
  CHECK(attention_of_layer(gemma, 0).window == LayerWindow{WindowKind::BothSides, 1024});
  CHECK_THROWS_WITH(
      read_hf_config(config("ultrabert", {{"sliding_window", posenc::Index{1} << 62}})),
      Catch::Matchers::ContainsSubstring("is too large"));
  CHECK(softmax_scale(gemma, "full_attention") == 1);
}

TEST_CASE("read_hf_config: types that differ from older ones in a default", "[interop]") {
  const auto hunyuan = read_hf_config(latent("hy_v4", {{"learnable_sink_init", 0.0}}));
  CHECK(rotary(hunyuan).pairing == PairingKind::HalfRotate);
  CHECK(attention_of_layer(hunyuan, 0).sinks == true);
  CHECK(attention_of_layer(hunyuan, 0).kind == LayerKind::Sparse);
  const json axes = {{"rope_theta", 10000.0}, {"mrope_section", {6, 5, 5}}};
  const auto vl = read_hf_config(
      latent("hy_v4_vl_text", {{"learnable_sink_init", 0.0}, {"rope_parameters", axes}}));
  CHECK(rotary(vl).pairing == PairingKind::Interleaved);
  CHECK(attention_of_layer(vl, 0).sinks == true);
  const auto mla = read_hf_config(latent("sarvam_mla", {{"head_dim", 544}, {"q_head_dim", 96}}));
  CHECK(rotary(mla).pairing == PairingKind::Interleaved);
  CHECK(rotary(mla).head_dim == 96);
  CHECK(base_of(rotary(read_hf_config(config("sarvam_moe")))) == 8e6);
  CHECK(rotary(read_hf_config(config("sarvam_moe"))).head_dim == 64);
  CHECK(softmax_scale(read_hf_config(config("granite_docling_text"))) == 0.015625);
  CHECK(rotary(read_hf_config(config("iquestcoder"))).head_dim == 128);
  CHECK(base_of(rotary(read_hf_config(config("voxtral_realtime_text")))) == 10000);
  const auto apertus = read_hf_config(config("apertus1p5_text"));
  CHECK(std::get<posenc::Llama3Scaling>(rotary(apertus).rule).base == 12000000);
}

TEST_CASE("read_hf_config: files of older types as transformers 5.24 writes them", "[interop]") {
  const json dicts = {
      {"full_attention",
       {{"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}};
  json gemma =
      config("gemma4_text",
             {{"head_dim", 128},
              {"layer_types",
               {"sliding_attention", "full_attention", "sliding_attention", "full_attention"}},
              {"num_key_value_heads", 8},
              {"rope_parameters", dicts}});
  const json overrides = {{"head_dim", 256}, {"num_key_value_heads", 2}};
  gemma["per_layer_config"] = {{"1", overrides}, {"03", overrides}};
  const auto model = read_hf_config(gemma);
  CHECK(rotary_of_layer(model, 0)->head_dim == 128);
  CHECK(rotary_of_layer(model, 3)->head_dim == 256);
  CHECK(attention_of_layer(model, 0).kv_heads == 8);
  CHECK(attention_of_layer(model, 3).kv_heads == 2);
  const auto refuse = [&gemma](const json& layers, const std::string& message) {
    json odd = gemma;
    odd["per_layer_config"] = layers;
    check_rejected(odd, "'per_layer_config' in the configuration " + message);
  };
  refuse({{"1", overrides}, {"03", {{"head_dim", 512}}}}, "has global layers that differ");
  refuse({{"1", overrides}}, "has global layers that differ");
  refuse({{"0", overrides}, {"1", overrides}}, "has layers that are not global");
  for (const char* number : {"5", "-1", "1x", "", "99999999999999999999999"}) {
    refuse({{number, overrides}}, "has layers that the model lacks");
  }
  refuse(json::array(), "must map layers to their keys");
  json alike = gemma;
  alike["per_layer_config"] = json::object();
  CHECK(rotary_of_layer(read_hf_config(alike), 1)->head_dim == 128);
  CHECK_NOTHROW(read_hf_config(config("llama", {{"per_layer_config", json::object()}})));
  CHECK_THROWS_AS(read_hf_config(config("llama", {{"per_layer_config", {{"0", overrides}}}})),
                  posenc::ConfigError);

  json lfm =
      config("lfm2", {{"full_attn_idxs", {1, 3}},
                      {"layer_types", {"conv", "full_attention", "conv", "full_attention"}}});
  CHECK(rotary_of_layer(read_hf_config(lfm), 0) == nullptr);
  lfm["full_attn_idxs"] = {1, 2};
  check_rejected(lfm, "'full_attn_idxs' in the configuration contradicts layer_types");

  json bert = config("modernbert-decoder", {{"local_attention", 128}, {"sliding_window", 64}});
  CHECK(attention_of_layer(read_hf_config(bert), 1).window == LayerWindow{WindowKind::Sliding, 64});
  bert["sliding_window"] = 128;
  check_rejected(bert, "'sliding_window' in the configuration is not half of local_attention");

  const json yarn = {{"rope_type", "yarn"},
                     {"rope_theta", 1e6},
                     {"factor", 2.0},
                     {"max_position_embeddings", 32768},
                     {"original_max_position_embeddings", 16384}};
  CHECK_NOTHROW(read_hf_config(config("ministral3", {{"rope_parameters", yarn}})));
  json without = config("ministral3", {{"rope_parameters", yarn}});
  without.erase("max_position_embeddings");
  CHECK_THROWS_AS(read_hf_config(without), posenc::ConfigError);
  CHECK_NOTHROW(read_hf_config(config("gemma", {{"use_bidirectional_attention", true}})));
}

TEST_CASE("read_hf_config: bases whose default differs between releases must be in the file",
          "[interop]") {
  for (const char* type : {"olmo3", "persimmon"}) {
    INFO(type);
    check_rejected(config(type), "the configuration must have rope_theta");
    CHECK_NOTHROW(read_hf_config(config(type, {{"rope_theta", 10000}})));
  }
}

TEST_CASE("read_hf_config: MiMo V2 rotates a third of a head without a share", "[interop]") {
  const auto model =
      read_hf_config(config("mimo_v2_flash", {{"hybrid_layer_pattern", {0, 1, 1, 1}}}));
  CHECK(rotary_dim(model.layers.front().rotary) == 64);
}

TEST_CASE("read_hf_config: types of 5.24 that are rejected say why", "[interop]") {
  const auto has = [](const char* type, const std::string& what) {
    check_rejected(config(type),
                   "the model_type '" + std::string(type) + "' is not supported: it has " + what);
  };
  const auto lacks = [](const char* type, const std::string& what) {
    check_rejected(config(type),
                   "this '" + std::string(type) + "' has no rotary encoding: it has " + what);
  };
  has("hrm_text",
      "two stacks of layers that run in cycles, and a prefix whose tokens see each other");
  has("beam", "queries scaled by their position in the layers that are not rotated");
  has("dory", "loops over its layers, and learned factors of the queries' channels");
  has("dots3_note_text", "latent heads of two shapes");
  has("lara_mini", "linear layers, rotated layers with a window, and others that are not rotated");
  has("mistral_large4_text", "frequencies with learned factors");
  has("muse_spark_text", "layers of a pattern that is not known well enough");
  has("unlimited_ocr_text", "windows beside a reference that every token sees");
  has("t5gemma2_decoder", "an encoder's keys beside its own, in one softmax");
  has("timesfm2_5",
      "a learned factor of each channel of the queries, and norms after the rotation");
  lacks("cohere_asr", "an encoder, and a decoder with a table of positions");
  lacks("kosmos_2_5_text_model", "a table of sines and cosines");
  lacks("moshi_depth", "weights of its own for each position");
  lacks("nemotron3_5_asr",
        "an encoder with products of queries with relative positions, and a recurrent decoder");
  lacks("qwen3_asr_encoder", "a table of sines and cosines");
  lacks("radio", "a table of learned positions");
}

}  // namespace hf_latest_types_test
