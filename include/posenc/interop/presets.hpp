// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/additive/learned.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/core/config.hpp>
#include <posenc/interop/model_settings.hpp>
#include <posenc/rotary/multimodal_axes.hpp>
#include <posenc/rotary/vision_axes.hpp>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// Settings of well-known models as Hugging Face ships their weights; where GGUF files or the
// authors' own checkpoints pair channels otherwise, a line says so. Each is what read_hf_config
// makes of the model's config.json.
//
// Each was checked against a copy of the model's file, or, where none was at hand, against the code
// that is named; all() says which, and for those that it leaves out, the line above them. [read] and
// [partly] are PresetStatus.

POSENC_STABLE_BEGIN

/// How sure a preset is.
enum class PresetStatus {
  Read,    ///< its parameters were read in the source
  Partly,  ///< the mechanism was read, some numbers were not
  Memory   ///< not checked against a source
};

/// A table of learned positions.
struct LearnedTable {
  Index rows = 0;
  Index dim = 0;
  LearnedConfig config = {};
};

static_assert(std::is_trivially_copyable_v<LearnedTable>);

POSENC_STABLE_END

POSENC_BEGIN

/// A model of presets::all().
struct RotaryPreset {
  const char* name;
  PresetStatus status;
  const char* source;
  ModelSettings model;
};

namespace presets {
namespace detail {

/// A model whose layers are all alike and turn the first channels of a head.
inline ModelSettings alike(const char* model_type, PairingKind pairing, Index head_dim,
                           RotaryRule rule, Index trained_length, PairAxes axes = {}) {
  return {.model_type = model_type,
          .layers = {{.rotary = {.rule = std::move(rule),
                                 .pairing = pairing,
                                 .head_dim = head_dim,
                                 .axes = std::move(axes)}}},
          .trained_length = trained_length};
}

inline ModelSettings half(const char* model_type, Index head_dim, RotaryRule rule,
                          Index trained_length) {
  return alike(model_type, PairingKind::HalfRotate, head_dim, std::move(rule), trained_length);
}

/// Layers of two types; every period-th is global.
inline ModelSettings local_and_global(const char* model_type, RotarySettings global,
                                      RotarySettings local, Index layers, Index period,
                                      Index trained_length) {
  ModelSettings model{
      .model_type = model_type,
      .layers = {{"full_attention", std::move(global)}, {"sliding_attention", std::move(local)}},
      .trained_length = trained_length};
  for (Index i = 1; i <= layers; ++i) {
    model.layer_types.emplace_back(i % period == 0 ? "full_attention" : "sliding_attention");
  }
  return model;
}

inline ModelSettings llama3_scaled(Index head_dim, double factor) {
  return half("llama", head_dim,
              Llama3Scaling{.rotary_dim = head_dim,
                            .base = 500000,
                            .factor = factor,
                            .low_freq_factor = 1,
                            .high_freq_factor = 4,
                            .original_max_position = 8192},
              131072);
}

inline ModelSettings deepseek(const char* model_type, double mscale) {
  auto model = alike(model_type, PairingKind::Interleaved, 192,
                     YarnScaling{.rotary_dim = 64,
                                 .base = 10000,
                                 .factor = 40,
                                 .original_max_position = 4096,
                                 .mscale = mscale,
                                 .mscale_all_dim = mscale},
                     163840);
  model.layers.front().rotary.rotary_offset = 128;
  return model;
}

inline ModelSettings gemma3(Index layers, RotaryRule global, Index trained_length) {
  const RotarySettings wide{
      .rule = std::move(global), .pairing = PairingKind::HalfRotate, .head_dim = 256};
  RotarySettings local = wide;
  local.rule = Unscaled{.rotary_dim = 256, .base = 10000};
  auto model = local_and_global("gemma3_text", wide, local, layers, 6, trained_length);
  model.softmax_scale = 1.0 / 16;
  return model;
}

}  // namespace detail

// Rotary models.

/// GPT-J-6B: a quarter of the head, neighbouring channels.
inline ModelSettings gptj_6b() {
  return detail::alike("gptj", PairingKind::Interleaved, 256,
                       Unscaled{.rotary_dim = 64, .base = 10000}, 2048);
}

/// GPT-NeoX-20B: a quarter of the head.
inline ModelSettings gpt_neox_20b() {
  return detail::half("gpt_neox", 96, Unscaled{.rotary_dim = 24, .base = 10000}, 2048);
}

/// Pythia: head_dim is 64 in Pythia-70M, 128 in Pythia-6.9B, and others between.
inline ModelSettings pythia(Index head_dim) {
  return detail::half("gpt_neox", head_dim, Unscaled{.rotary_dim = head_dim / 4, .base = 10000},
                      2048);
}

/// ChatGLM-6B: two dimensions. THUDM's code rounds frequencies to half precision, as this does not.
inline ModelSettings chatglm_6b() {
  auto model = detail::half("chatglm", 128, Unscaled{.rotary_dim = 64, .base = 10000}, 2048);
  model.layers.front().rotary.chatglm_halves = true;
  return model;
}

/// ChatGLM2-6B: half of the head, neighbouring channels.
inline ModelSettings chatglm2_6b() {
  return detail::alike("chatglm", PairingKind::Interleaved, 128,
                       Unscaled{.rotary_dim = 64, .base = 10000}, 32768);
}

/// GLM-4-9B, the base model: as ChatGLM2. The chat model's base is 500 times as large.
inline ModelSettings glm4_9b() {
  return detail::alike("chatglm", PairingKind::Interleaved, 128,
                       Unscaled{.rotary_dim = 64, .base = 10000}, 8192);
}

/// Llama-2-7B; Interleaved in Meta's checkpoint and in GGUF files, as for all Llamas.
inline ModelSettings llama2_7b() {
  return detail::half("llama", 128, Unscaled{.rotary_dim = 128, .base = 10000}, 4096);
}

/// Llama-3-8B.
inline ModelSettings llama3_8b() {
  return detail::half("llama", 128, Unscaled{.rotary_dim = 128, .base = 500000}, 8192);
}

/// Llama-3.1-8B.
inline ModelSettings llama3_1_8b() { return detail::llama3_scaled(128, 8); }

/// Llama-3.2-1B and -3B.
inline ModelSettings llama3_2_1b() { return detail::llama3_scaled(64, 32); }
inline ModelSettings llama3_2_3b() { return detail::llama3_scaled(128, 32); }

/// Mistral-7B v0.1.
inline ModelSettings mistral_7b_v0_1() {
  return detail::half("mistral", 128, Unscaled{.rotary_dim = 128, .base = 10000}, 32768);
}

/// Mistral-7B v0.2 and v0.3.
inline ModelSettings mistral_7b_v0_2() {
  return detail::half("mistral", 128, Unscaled{.rotary_dim = 128, .base = 1000000}, 32768);
}

/// Qwen2.5-7B; the instruct model is made for 32768.
inline ModelSettings qwen2_5_7b() {
  return detail::half("qwen2", 128, Unscaled{.rotary_dim = 128, .base = 1000000}, 131072);
}

/// Qwen2.5-7B-Instruct with the YaRN that its model card recommends.
inline ModelSettings qwen2_5_7b_yarn() {
  return detail::half(
      "qwen2", 128,
      YarnScaling{.rotary_dim = 128, .base = 1000000, .factor = 4, .original_max_position = 32768},
      32768);
}

/// Qwen2-VL-7B, its text model.
inline ModelSettings qwen2_vl_7b() {
  return detail::alike("qwen2_vl", PairingKind::HalfRotate, 128,
                       Unscaled{.rotary_dim = 128, .base = 1000000}, 32768,
                       mrope_chunked({16, 24, 24}));
}

/// Qwen2-VL, its vision tower [read]. models/qwen2_vl
inline AnyRope qwen2_vl_vision_tower() {
  return AnyRope(PairingKind::HalfRotate, qwen2_vl_vision({.head_dim = 80, .base = 10000}));
}

/// Qwen3-VL, 2B to 8B, its text model.
inline ModelSettings qwen3_vl_8b() {
  return detail::alike("qwen3_vl_text", PairingKind::HalfRotate, 128,
                       Unscaled{.rotary_dim = 128, .base = 5000000}, 262144,
                       mrope_interleaved({24, 20, 20}, MropeTail::Time));
}

/// Phi-3-mini-128k [read]: the two lists of 48 divisors are those of its config.json.
/// configuration_phi3.py; a copy of its config.json
inline ModelSettings phi3_mini_128k(std::vector<double> short_factor,
                                    std::vector<double> long_factor) {
  return detail::half("phi3", 96,
                      LongRopeScaling{.rotary_dim = 96,
                                      .base = 10000,
                                      .short_factor = std::move(short_factor),
                                      .long_factor = std::move(long_factor),
                                      .original_max_position = 4096,
                                      .factor = 32},
                      131072);
}

/// DeepSeek-V2-Lite; scores are multiplied with softmax_scale_multiplier() on top of
/// 192^-1/2.
inline ModelSettings deepseek_v2() { return detail::deepseek("deepseek_v2", 0.707); }

/// DeepSeek-V3 and -R1; the same.
inline ModelSettings deepseek_v3() { return detail::deepseek("deepseek_v3", 1); }

/// gpt-oss-20b and -120b: a ramp between fractions of pairs.
inline ModelSettings gpt_oss() {
  return detail::half("gpt_oss", 64,
                      YarnScaling{.rotary_dim = 64,
                                  .base = 150000,
                                  .factor = 32,
                                  .original_max_position = 4096,
                                  .truncate = false},
                      131072);
}

/// Gemma-2-9B.
inline ModelSettings gemma2_9b() {
  auto model = detail::half("gemma2", 256, Unscaled{.rotary_dim = 256, .base = 10000}, 8192);
  model.softmax_scale = 1.0 / 16;
  model.softcap = 50;
  return model;
}

/// Gemma-2-27B: scores are scaled by the model's width, not the head's.
inline ModelSettings gemma2_27b() {
  auto model = detail::half("gemma2", 128, Unscaled{.rotary_dim = 128, .base = 10000}, 8192);
  model.softmax_scale = 1.0 / 12;  // (4608 / 32)^-1/2
  model.softcap = 50;
  return model;
}

/// Gemma-3-1B.
inline ModelSettings gemma3_1b() {
  return detail::gemma3(26, Unscaled{.rotary_dim = 256, .base = 1000000}, 32768);
}

/// Gemma-3-4B.
inline ModelSettings gemma3_4b() {
  return detail::gemma3(34, LinearScaling{.rotary_dim = 256, .base = 1000000, .factor = 8}, 131072);
}

/// Gemma-4's text models, 30 layers (26B-A4B), 42 (E4B) or 60 (31B): global layers have wider heads of
/// which few pairs turn, and the last layer is one. Other numbers make models of the same kind.
///   Throws: ConfigError for less than 1 layer, and for the 35 of E2B, whose pattern is another
inline ModelSettings gemma4(Index layers) {
  if (layers < 1 || layers > 65536 || layers == 35) {
    posenc::detail::fail<ConfigError>("presets::gemma4",
                                      "layers must be 30, 42, 60, or those of a model of your own, "
                                      "but are ",
                                      layers);
  }
  const RotarySettings local{.rule = Unscaled{.rotary_dim = 256, .base = 10000},
                             .pairing = PairingKind::HalfRotate,
                             .head_dim = 256};
  RotarySettings global = local;
  global.head_dim = 512;
  global.rule =
      ProportionalScaling{.head_dim = 512, .base = 1000000, .partial_rotary_factor = 0.25};
  auto model = detail::local_and_global("gemma4_text", global, local, layers, 6,
                                        layers == 42 ? 131072 : 262144);
  model.layer_types.back() = "full_attention";
  model.softmax_scale = 1;
  return model;
}

/// OLMo-7B.
inline ModelSettings olmo_7b() {
  return detail::half("olmo", 128, Unscaled{.rotary_dim = 128, .base = 10000}, 2048);
}

/// OLMo-2-1B.
inline ModelSettings olmo2_1b() {
  return detail::half("olmo2", 128, Unscaled{.rotary_dim = 128, .base = 500000}, 4096);
}

/// All of the above whose settings are complete in themselves.
inline std::vector<RotaryPreset> all() {
  using enum PresetStatus;
  constexpr auto file = "a copy of its config.json";
  return {
      {"gptj_6b", Read, file, gptj_6b()},
      {"gpt_neox_20b", Read, "models/gpt_neox, the class's defaults", gpt_neox_20b()},
      {"pythia_70m", Partly, "quoted sizes; config.json of 14M and 6.9B", pythia(64)},
      {"pythia_6_9b", Read, file, pythia(128)},
      {"chatglm_6b", Read, "THUDM's modeling_chatglm.py; an abridged config.json", chatglm_6b()},
      {"chatglm2_6b", Read, file, chatglm2_6b()},
      {"glm4_9b", Read, file, glm4_9b()},
      {"llama2_7b", Read, file, llama2_7b()},
      {"llama3_8b", Read, "torchtune llama3", llama3_8b()},
      {"llama3_1_8b", Read, file, llama3_1_8b()},
      {"llama3_2_1b", Read, file, llama3_2_1b()},
      {"llama3_2_3b", Read, file, llama3_2_3b()},
      {"mistral_7b_v0_1", Read, file, mistral_7b_v0_1()},
      {"mistral_7b_v0_2", Partly, "a copy of v0.3's config.json", mistral_7b_v0_2()},
      {"qwen2_5_7b", Read, "torchtune qwen2_5; config.json of the instruct model", qwen2_5_7b()},
      {"qwen2_5_7b_yarn", Read, "a copy of its config.json with the model card's YaRN",
       qwen2_5_7b_yarn()},
      {"qwen2_vl_7b", Partly, "models/qwen2_vl; config.json of 2B", qwen2_vl_7b()},
      {"qwen3_vl_8b", Partly, "config.json of 2B and 30B-A3B; quoted sizes", qwen3_vl_8b()},
      {"deepseek_v2", Read, "a copy of V2-Lite's config.json", deepseek_v2()},
      {"deepseek_v3", Read, file, deepseek_v3()},
      {"gpt_oss", Read, file, gpt_oss()},
      {"gemma2_9b", Read, file, gemma2_9b()},
      {"gemma2_27b", Read, "gemma.cpp gemma/configs.cc; maxtext's settings", gemma2_27b()},
      {"gemma3_1b", Read, file, gemma3_1b()},
      {"gemma3_4b", Partly, "quoted sizes; config.json of 27B", gemma3_4b()},
      {"gemma4", Read, "a copy of 26B-A4B's config.json", gemma4(30)},
      {"olmo_7b", Read, "models/olmo, the class's defaults", olmo_7b()},
      {"olmo2_1b", Partly, "quoted sizes", olmo2_1b()}};
}

// Other encodings.

/// The Transformer of 2017 [partly]: the paper's table; embeddings are multiplied with sqrt(512)
/// before. Its code's table was SinusoidalLayout::ConcatenatedEndInclusive. arXiv 1706.03762
inline SinusoidalConfig transformer_base() {
  return {.model_dim = 512, .layout = SinusoidalLayout::Interleaved};
}

/// BERT-base [read]. Sizes of a published list
inline LearnedTable bert_base() { return {.rows = 512, .dim = 768}; }

/// GPT-2 [read]. Sizes of a published list
inline LearnedTable gpt2() { return {.rows = 1024, .dim = 768}; }

/// OPT [read]: 2048 positions and two rows before them; dim is that of the model's width.
/// models/opt/modeling_opt.py
inline LearnedTable opt(Index dim) {
  return {.rows = 2050, .dim = dim, .config = {.row_offset = 2}};
}

/// T5, all sizes [read]: scores are not scaled by 1 / sqrt(head_dim), which is from memory.
/// models/t5/modeling_t5.py
inline T5BiasConfig t5_encoder() { return {.direction = T5Direction::Bidirectional}; }
inline T5BiasConfig t5_decoder() { return {.direction = T5Direction::Causal}; }

/// BLOOM-176B [read]. models/bloom/modeling_bloom.py; quoted sizes
inline AlibiConfig bloom_176b() { return {.heads = 112, .form = AlibiForm::Causal}; }

/// MPT-7B [read]. models/mpt; a copy of its config.json
inline AlibiConfig mpt_7b() { return {.heads = 32, .form = AlibiForm::Causal, .max_bias = 8}; }

}  // namespace presets
POSENC_END
