// SPDX-License-Identifier: MIT
// One file per type that was added after the families of hf_families_test: the result of plain
// keys, the class's defaults, and text models of multimodal types.
#include "interop/hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/multimodal_axes.hpp>

#include <cmath>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace hf_further_types_test {

using Catch::Matchers::Message;
using nlohmann::json;
using posenc::ConfigError;
using posenc::Index;
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

/// Expected settings of a type. The base is that of the file if `base_in_file` is not 0.
struct Expected {
  const char* type;
  PairingKind pairing;
  double base;  ///< class default; 0: the file must give it
  Index head_dim;
  std::optional<Index> kv_heads;  ///< 32 query heads
  Index rotary_dim = 0;           ///< 0: head_dim
};

TEST_CASE("read_hf_config: further types with plain rotation", "[interop]") {
  constexpr auto half = PairingKind::HalfRotate, inter = PairingKind::Interleaved;
  const std::vector<Expected> types{
      {"aquila", half, 10000, 128, 32},
      {"arctic", half, 0, 128, std::nullopt},
      {"aria_text", half, 10000, 128, 32},
      {"bitnet", half, 500000, 128, std::nullopt},  // the class's 5 does not divide the heads
      {"chameleon", half, 10000, 128, 32},
      {"code_llama", half, 10000, 128, 32},
      {"codeshell", half, 10000, 128, 32},
      {"dbrx", half, 10000, 128, 1},
      {"deci", half, 10000, 128, std::nullopt},
      {"deepseek", half, 10000, 128, std::nullopt},
      {"deepseek_ocr2_text", half, 10000, 128, 32},
      {"dots_ocr", half, 0, 128, std::nullopt},
      {"Dream", half, 10000, 128, 32},
      {"emu3_text_model", half, 0, 128, 8},
      {"esmc", half, 10000, 128, 32},
      {"eurobert", half, 10000, 128, 32},
      {"flex_olmo", half, 500000, 128, 32},
      {"gpt_neox_japanese", half, 10000, 128, 32},
      {"grove_moe", half, 0, 128, std::nullopt},
      {"gte", half, 0, 128, 32},
      {"hf_olmo", half, 10000, 128, 32},
      {"hunyuan", half, 10000, 128, 32},
      {"hy_v3", half, 11158840, 128, 8},
      {"hyperclovax", half, 10000, 128, 32},
      {"internlm", half, 10000, 128, 32},
      {"internlm3", half, 0, 128, 32},
      {"jais2", half, 0, 128, 32},
      {"jina_embeddings_v3", half, 0, 128, 32},
      {"kyutai_speech_to_text", half, 0, 128, 32},
      {"llada", half, 10000, 128, 32},
      {"llava", half, 10000, 128, 32},
      {"llava_qwen2", half, 10000, 128, 32},
      {"mimi", half, 10000, 128, 8},
      {"minimax_m3_vl_text", half, 5000000, 128, 4, 64},
      {"molmo", half, 10000, 128, 32},
      {"moshi", half, 10000, 128, 32},
      {"neobert", inter, 10000, 128, 32},
      {"new", half, 0, 128, 32},
      {"nomic_bert", half, 0, 128, 32},
      {"orion", half, 10000, 128, std::nullopt},
      {"PanguEmbedded", half, 0, 128, 32},
      {"phi4_multimodal", half, 10000, 128, 8},
      {"plamo", half, 10000, 128, std::nullopt},
      {"RefinedWeb", half, 10000, 128, 32},
      {"RefinedWebModel", half, 10000, 128, 1},
      {"rnd1", half, 0, 128, std::nullopt},
      {"skywork", half, 10000, 128, 32},
      {"solar", half, 10000, 128, 32},
      {"solar_open", half, 1000000, 128, 8},
      {"stablelm_epoch", half, 10000, 128, 32, 32},
      {"telechat", half, 10000, 128, 32},
      {"telechat2", half, 10000, 128, 32},
      {"vaultgemma", half, 10000, 256, 4},
      {"xverse", half, 10000, 128, 32},
      {"Yi", half, 0, 128, 32},
  };
  for (const Expected& one : types) {
    INFO(one.type);
    const json silent = config(one.type);
    const auto model = read_hf_config(config(one.type, {{"rope_theta", 12345.0}}));
    const RotarySettings& settings = rotary(model);
    CHECK(settings.pairing == one.pairing);
    CHECK(settings.head_dim == one.head_dim);
    CHECK(rotary_dim(settings) == (one.rotary_dim == 0 ? one.head_dim : one.rotary_dim));
    CHECK(std::get<Unscaled>(settings.rule).base == 12345);
    CHECK(attention_of_layer(model, 0).heads == 32);
    CHECK(attention_of_layer(model, 0).kv_heads == one.kv_heads);
    CHECK(softmax_scale(model) == 1 / std::sqrt(static_cast<double>(one.head_dim)));
    if (one.base == 0) {
      CHECK_THROWS_MATCHES(
          read_hf_config(silent), ConfigError,
          Message("posenc::read_hf_config: the configuration must have rope_theta"));
    } else {
      CHECK(std::get<Unscaled>(rotary(read_hf_config(silent)).rule).base == one.base);
    }
  }
}

TEST_CASE("read_hf_config: settings that set further types apart", "[interop]") {
  const auto vault = read_hf_config(config("vaultgemma"));
  CHECK(vault.softcap == 50);
  CHECK(vault.softmax_scale == 0.0625);
  CHECK(attention_of_layer(vault, 0).window == LayerWindow{WindowKind::Sliding, 4096});
  CHECK(attention_of_layer(vault, 1).window == LayerWindow{});

  CHECK(attention_of_layer(read_hf_config(config("moshi")), 3).window ==
        LayerWindow{WindowKind::Sliding, 3000});
  CHECK(attention_of_layer(read_hf_config(config("mimi", {{"layer_scale_initial_scale", 0.01}})), 0)
            .window == LayerWindow{WindowKind::Sliding, 250});
  CHECK(
      read_hf_config(config("hyperclovax", {{"attention_multiplier", 0.0078125}})).softmax_scale ==
      0.0078125);
  CHECK(read_hf_config(config("hyperclovax")).softmax_scale == std::nullopt);

  // Every fourth layer sees all keys, beginning with the first, and the class scales.
  const auto cwm = read_hf_config(config("cwm", {{"num_hidden_layers", 5}}));
  const auto& llama3 = std::get<posenc::Llama3Scaling>(rotary_of_layer(cwm, 1)->rule);
  CHECK(llama3.base == 1000000);
  CHECK(llama3.factor == 16);
  CHECK(llama3.original_max_position == 8192);
  std::vector<Index> windows;
  for (Index i = 0; i < 5; ++i) windows.push_back(attention_of_layer(cwm, i).window->size);
  CHECK(windows == std::vector<Index>{0, 8192, 8192, 8192, 0});
  const json plain = {{"rope_parameters", {{"rope_type", "default"}}}};
  CHECK(std::get<Unscaled>(rotary_of_layer(read_hf_config(config("cwm", plain)), 0)->rule).base ==
        1000000);

  check_rejected(
      config("csm"),
      "the configuration must have rope_parameters: the class of 'csm' scales by default");
  const auto csm = read_hf_config(config("csm", plain));
  CHECK(std::get<Unscaled>(rotary(csm).rule).base == 500000);
  CHECK(attention_of_layer(csm, 0).kv_heads == 8);

  const auto lfm2 = read_hf_config(
      config("lfm2_moe", {{"layer_types", {"conv", "conv", "full_attention", "conv"}}}));
  CHECK(rotary_of_layer(lfm2, 0) == nullptr);
  CHECK(attention_of_layer(lfm2, 0).kind == LayerKind::Convolution);
  CHECK(std::get<Unscaled>(rotary_of_layer(lfm2, 2)->rule).base == 1000000);
  CHECK(attention_of_layer(lfm2, 2).kv_heads == 8);

  for (const char* type : {"glm4_moe_lite", "youtu"}) {
    json file = config(type, {{"qk_nope_head_dim", 192},
                              {"qk_rope_head_dim", 64},
                              {"v_head_dim", 256},
                              {"rope_theta", 1000000},
                              {"partial_rotary_factor", 1.0}});
    const RotarySettings settings = rotary(read_hf_config(file));
    CHECK(settings.pairing == PairingKind::Interleaved);
    CHECK(settings.head_dim == 256);
    CHECK(settings.rotary_offset == 192);
    file["rope_interleave"] = false;
    CHECK(rotary(read_hf_config(file)).pairing == PairingKind::HalfRotate);
  }

  const json mrope = {
      {"rope_parameters", {{"rope_type", "default"}, {"mrope_section", {16, 24, 24}}}}};
  const auto ocr = read_hf_config(config("glm_ocr_text", mrope));
  CHECK(rotary(ocr).pairing == PairingKind::Interleaved);
  CHECK(attention_of_layer(ocr, 0).kv_heads == 8);
  for (const char* type : {"glm_ocr_text", "paddleocr_vl", "qwen2_5_omni_text"}) {
    CHECK(rotary(read_hf_config(config(type, mrope))).axes == posenc::mrope_chunked({16, 24, 24}));
    check_rejected(config(type), "rope_scaling must have mrope_section");
  }
  const auto paddle =
      read_hf_config(config("paddleocr_vl", {{"rope_scaling", mrope["rope_parameters"]},
                                             {"rope_is_neox_style", true},
                                             {"use_3d_rope", true},
                                             {"scale_qk_coeff", 1.0},
                                             {"fuse_softmax_mask", false}}));
  CHECK(rotary(paddle).pairing == PairingKind::HalfRotate);
  CHECK(std::get<Unscaled>(rotary(paddle).rule).base == 500000);
  CHECK(attention_of_layer(paddle, 0).kv_heads == 2);
  check_rejected(config("paddleocr_vl", {{"rope_scaling", mrope["rope_parameters"]},
                                         {"rope_is_neox_style", false}}),
                 "'rope_is_neox_style' in the configuration has a value that is not supported");
  check_rejected(config("ernie4_5", {{"rope_theta", 500000.0}, {"rope_is_neox_style", true}}),
                 "'rope_is_neox_style' in the configuration has a value that is not supported");
  check_rejected(config("llama", {{"use_3d_rope", true}}),
                 "'use_3d_rope' in the configuration has a value that is not supported");

  const auto phi4 =
      read_hf_config(config("phi4_multimodal", {{"hidden_size", 32 * 8},
                                                {"partial_rotary_factor", 0.75},
                                                {"full_attn_mod", 1},
                                                {"rope_scaling",
                                                 {{"type", "longrope"},
                                                  {"short_factor", {1.0, 1.0, 1.0}},
                                                  {"long_factor", {1.0, 1.5, 2.0}}}}}));
  CHECK(rotary_dim(rotary(phi4)) == 6);
  CHECK(std::get<posenc::LongRopeScaling>(rotary(phi4).rule).original_max_position == 4096);

  // Nomic's files use the key names of GPT-2.
  const json nomic = {{"model_type", "nomic_bert"},
                      {"n_embd", 768},
                      {"n_head", 12},
                      {"n_layer", 12},
                      {"n_positions", 8192},
                      {"max_trained_positions", 2048},
                      {"rotary_emb_base", 1000},
                      {"rotary_emb_fraction", 1.0},
                      {"rotary_emb_interleaved", false},
                      {"rotary_scaling_factor", nullptr},
                      {"rotary_emb_scale_base", nullptr}};
  CHECK(std::get<Unscaled>(rotary(read_hf_config(nomic)).rule).base == 1000);
  CHECK(rotary(read_hf_config(nomic)).head_dim == 64);
  const json gte = config("new", {{"rope_theta", 160000},
                                  {"position_embedding_type", "rope"},
                                  {"logn_attention_clip1", false},
                                  {"logn_attention_scale", false},
                                  {"use_memory_efficient_attention", true},
                                  {"rope_scaling", {{"type", "ntk"}, {"factor", 2.0}}}});
  CHECK(std::get<posenc::VllmNtkScaling>(rotary(read_hf_config(gte)).rule).factor == 2);
  json tempered = gte;
  tempered["logn_attention_scale"] = true;
  CHECK_THROWS_AS(read_hf_config(tempered), ConfigError);
  // A file may name another type than its code has.
  check_rejected(config("camembert", {{"position_embedding_type", "rotary"}}),
                 "'position_embedding_type' in the configuration selects a rotary encoding, which "
                 "no class of this type has");
  json dynamic = nomic;
  dynamic["rotary_scaling_factor"] = 2;
  CHECK_THROWS_AS(read_hf_config(dynamic), ConfigError);
  CHECK_NOTHROW(read_hf_config(config("llama", {{"rope_interleaved", false}})));
  CHECK_THROWS_AS(read_hf_config(config("llama", {{"rope_interleaved", true}})), ConfigError);
}

TEST_CASE(
    "read_hf_config: a text model is read wherever it stands, and with the sizes of its class",
    "[interop]") {
  const json inner = config("qwen2", {{"num_key_value_heads", 8}, {"rope_theta", 1000000.0}});
  for (const char* part : {"text_config", "llm_config", "language_config"}) {
    const auto model = read_hf_config(json{{"model_type", "unheard-of"}, {part, inner}});
    CHECK(model.model_type == "qwen2");
    CHECK(std::get<Unscaled>(rotary(model).rule).base == 1000000);
    CHECK(attention_of_layer(model, 3).kv_heads == 8);
    check_rejected({{"model_type", "unheard-of"}, {part, inner}, {"rope_theta", 10000.0}},
                   std::string("'rope_theta' in the configuration contradicts ") + part + "");
  }
  CHECK_NOTHROW(read_hf_config(
      json{{"model_type", "unheard-of"}, {"llm_config", inner}, {"text_config", inner}}));
  check_rejected(
      {{"model_type", "unheard-of"}, {"llm_config", config("llama")}, {"text_config", inner}},
      "'llm_config' in the configuration contradicts text_config");

  const auto text_of = [](const char* whole, const json& text) {
    return read_hf_config(json{{"model_type", whole}, {"text_config", text}});
  };
  struct Silent {
    const char *whole, *text;
    Index heads, head_dim, layers, length;
  };
  const std::vector<Silent> silent{
      {"aria", "aria_text", 32, 128, 32, 2048},       {"paligemma", "gemma", 16, 256, 28, 8192},
      {"gemma3", "gemma3_text", 8, 256, 26, 131072},  {"llava", "llama", 32, 128, 32, 2048},
      {"llava_next", "mistral", 32, 128, 32, 131072}, {"qwen2_audio", "qwen2", 32, 128, 32, 32768}};
  for (const Silent& one : silent) {
    INFO(one.text);
    const auto model = text_of(one.whole, {{"model_type", one.text}});
    CHECK(attention_of_layer(model, 0).heads == one.heads);
    CHECK(attention_of_layer(model, 0).head_dim == one.head_dim);
    CHECK(model.layer_count == one.layers);
    CHECK(model.trained_length == one.length);
  }
  CHECK(
      rotary(text_of("llava",
                     {{"model_type", "llama"}, {"hidden_size", 5120}, {"num_attention_heads", 40}}))
          .head_dim == 128);
  // The type of the whole implies that of its text model if the part does not name one.
  CHECK(text_of("llava", json::object()).model_type == "llama");
  CHECK(text_of("idefics3", json::object()).model_type == "llama");
  CHECK(text_of("llava_onevision", json::object()).model_type == "qwen2");
  CHECK(text_of("paligemma", json::object()).model_type == "gemma");
  CHECK(text_of("fuyu", {{"hidden_size", 4096}, {"num_attention_heads", 64}, {"rope_theta", 25000}})
            .model_type == "persimmon");
  CHECK(rotary_dim(rotary(read_hf_config(config("fuyu", {{"rope_theta", 25000}})))) == 64);
  const json minicpmv = config("minicpmv", {{"rope_theta", 1000000.0}, {"image_size", 448}});
  check_rejected(minicpmv,
                 "the model_type 'minicpmv' is unknown; to read it as a plain rotary model, set in "
                 "the options: pairing, rotary_share, softmax_scale; name in ignored_keys, if they "
                 "change neither positions nor scores: 'image_size'");
  const auto type_of = [&minicpmv](const json& version) {
    json file = minicpmv;
    file["version"] = version;
    return read_hf_config(file).model_type;
  };
  CHECK(type_of(2.5) == "llama");
  CHECK(type_of(2.6) == "qwen2");
  CHECK(type_of("2.6") == "qwen2");
  CHECK(type_of(4) == "llama");
  CHECK(type_of(4.5) == "qwen3");
  CHECK_THROWS_AS(type_of(2.7), ConfigError);
  CHECK_THROWS_AS(type_of(1e300), ConfigError);
  CHECK_THROWS_AS(type_of(true), ConfigError);
  CHECK(read_hf_config(config("phi4mm")).model_type == "phi4_multimodal");
  // Other classes changed their default sizes, and a complete file has all of them.
  check_rejected({{"model_type", "unheard-of"}, {"text_config", {{"model_type", "phi3"}}}},
                 "the configuration must have hidden_size");
  check_rejected({{"model_type", "llama"}}, "the configuration must have hidden_size");
  CHECK_THROWS_AS(read_hf_config(config("idefics3")), ConfigError);
}

}  // namespace hf_further_types_test
