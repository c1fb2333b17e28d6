// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/additive/learned.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/model_settings.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/interop/vision_axes.hpp>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// Settings of well-known models with the weights of Hugging Face. Comments note where GGUF files or
// the authors' checkpoints have another pairing.

POSENC_STABLE_BEGIN

/// Table of learned positions.
struct LearnedTable {
  Index rows = 0;             ///< number of positions, and of rows before them (config.row_offset)
  Index dim = 0;              ///< width of an embedding
  LearnedConfig config = {};  ///< argument of Learned's constructor
};

static_assert(std::is_trivially_copyable_v<LearnedTable>);

POSENC_STABLE_END

POSENC_BEGIN

/// Model of presets::all().
struct RotaryPreset {
  const char* name;     ///< argument of presets::model()
  const char* source;   ///< reference of the settings
  ModelSettings model;  ///< as read_hf_config() returns it, without heads and windows
};

namespace presets {
namespace detail {

inline RotaryRule unscaled(Index rotary_dim, double base) {
  return Unscaled{.rotary_dim = rotary_dim, .base = base};
}

/// Returns a model whose layers are alike.
inline ModelSettings alike(const char* model_type, PairingKind pairing, Index head_dim,
                           RotaryRule rule, Index trained_length, PairAxes axes = {},
                           Index rotary_offset = 0) {
  return {.model_type = model_type,
          .layers = {{.rotary = {.rule = std::move(rule),
                                 .pairing = pairing,
                                 .head_dim = head_dim,
                                 .rotary_offset = rotary_offset,
                                 .axes = std::move(axes)}}},
          .trained_length = trained_length};
}

inline ModelSettings half(const char* model_type, Index head_dim, RotaryRule rule,
                          Index trained_length) {
  return alike(model_type, PairingKind::HalfRotate, head_dim, std::move(rule), trained_length);
}

/// Turns a model whose layers are alike into one of two types of layers. The second type has
/// another rule, and the layers for which `is_second` is true.
inline ModelSettings with_second_type(ModelSettings model, const char* first, const char* second,
                                      Index head_dim, RotaryRule rule, Index layers,
                                      bool (*is_second)(Index layer)) {
  LayerRotary other = model.layers.front();
  model.layers.front().layer_type = first;
  other.layer_type = second;
  other.rotary.head_dim = head_dim;
  other.rotary.rule = std::move(rule);
  model.layers.push_back(std::move(other));
  for (Index i = 0; i < layers; ++i) model.layer_types.emplace_back(is_second(i) ? second : first);
  return model;
}

/// Returns a model of Gemma, in which every sixth layer is global, and the others are local.
inline ModelSettings gemma(ModelSettings global, Index layers, double softmax_scale) {
  auto model =
      with_second_type(std::move(global), "full_attention", "sliding_attention", 256,
                       unscaled(256, 10000), layers, [](Index layer) { return layer % 6 != 5; });
  model.softmax_scale = softmax_scale;
  return model;
}

inline ModelSettings gemma2(Index head_dim, double softmax_scale) {
  auto model = half("gemma2", head_dim, unscaled(head_dim, 10000), 8192);
  model.softmax_scale = softmax_scale;
  model.softcap = 50;
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

inline ModelSettings chatglm_6b() {
  auto model = half("chatglm", 128, unscaled(64, 10000), 2048);
  model.layers.front().rotary.chatglm_halves = true;
  return model;
}

inline ModelSettings deepseek(const char* model_type, double mscale) {
  return alike(model_type, PairingKind::Interleaved, 192,
               YarnScaling{.rotary_dim = 64,
                           .base = 10000,
                           .factor = 40,
                           .original_max_position = 4096,
                           .mscale = mscale,
                           .mscale_all_dim = mscale},
               163840, {}, 128);
}

/// Returns DeepSeek-V4's settings: one head of 512 channels, equal for keys and values, rotates its
/// last 64. Layers with only a window are unscaled. The others, which also attend to compressed
/// keys, are scaled and have another base.
inline ModelSettings deepseek_v4() {
  return with_second_type(
      alike("deepseek_v4", PairingKind::Interleaved, 512, unscaled(64, 10000), 1048576, {}, 448),
      "sliding_attention", "compressed", 512,
      YarnScaling{.rotary_dim = 64,
                  .base = 160000,
                  .factor = 16,
                  .original_max_position = 65536,
                  .attention_factor = 1},
      43, [](Index layer) { return layer >= 2; });
}

}  // namespace detail

/// Returns Gemma-4's text models, with 30 layers (26B-A4B), 42 (E4B) or 60 (31B). Global layers
/// have wider heads with few rotated pairs, and the last layer is global. Other numbers give models
/// of the same kind.
///   Throws: ConfigError for less than 1 layer, and for the 35 of E2B, whose pattern is another
inline ModelSettings gemma4(Index layers) {
  if (layers < 1 || layers > 65536 || layers == 35) {
    posenc::detail::fail<ConfigError>(
        "presets::gemma4", "layers must be 30, 42, 60, or those of a custom model, but are ",
        layers);
  }
  const ProportionalScaling rule{.head_dim = 512, .base = 1000000, .partial_rotary_factor = 0.25};
  const Index trained_length = layers == 42 ? 131072 : 262144;
  auto model = detail::gemma(detail::half("gemma4_text", 512, rule, trained_length), layers, 1);
  model.layer_types.back() = "full_attention";
  return model;
}

/// Returns Phi-3-mini-128k. The arguments are the two lists of 48 divisors of its config.json.
/// Everything else was checked against that file.
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

/// Returns the rotary models. Each is the result of read_hf_config for the model's config.json,
/// except heads and windows of its layers, and its vision tower.
inline const std::vector<RotaryPreset>& all() {
  using namespace detail;  // NOLINT: the rows are made of them
  using enum PairingKind;
  constexpr auto file = "a copy of its config.json";
  static const std::vector<RotaryPreset> table{
      {"gptj_6b", file, alike("gptj", Interleaved, 256, unscaled(64, 10000), 2048)},
      {"gpt_neox_20b", "models/gpt_neox, the class's defaults",
       half("gpt_neox", 96, unscaled(24, 10000), 2048)},
      {"pythia_70m", "EleutherAI/pythia, models/70M/pythia-70m.yml",
       half("gpt_neox", 64, unscaled(16, 10000), 2048)},
      {"pythia_6_9b", file, half("gpt_neox", 128, unscaled(32, 10000), 2048)},

      // Two axes. THUDM's code rounds frequencies to half precision; this does not.
      {"chatglm_6b", "THUDM's modeling_chatglm.py; an abridged config.json", chatglm_6b()},
      {"chatglm2_6b", file, alike("chatglm", Interleaved, 128, unscaled(64, 10000), 32768)},
      // The base model. The chat model's base is 500 times as large.
      {"glm4_9b", file, alike("chatglm", Interleaved, 128, unscaled(64, 10000), 8192)},

      // Interleaved in Meta's checkpoints and in GGUF files, for all Llama models.
      {"llama2_7b", file, half("llama", 128, unscaled(128, 10000), 4096)},
      {"llama3_8b", "torchtune llama3", half("llama", 128, unscaled(128, 500000), 8192)},
      {"llama3_1_8b", file, llama3_scaled(128, 8)},
      {"llama3_2_1b", file, llama3_scaled(64, 32)},
      {"llama3_2_3b", file, llama3_scaled(128, 32)},

      {"mistral_7b_v0_1", file, half("mistral", 128, unscaled(128, 10000), 32768)},
      // Also v0.3.
      {"mistral_7b_v0_2", "v0.2's model card; a copy of v0.3's config.json",
       half("mistral", 128, unscaled(128, 1000000), 32768)},

      // The instruct model's maximum length is 32768.
      {"qwen2_5_7b", "torchtune qwen2_5; config.json of the instruct model",
       half("qwen2", 128, unscaled(128, 1000000), 131072)},
      // The instruct model with the YaRN settings of its model card.
      {"qwen2_5_7b_yarn", "a copy of its config.json with the model card's YaRN",
       half("qwen2", 128,
            YarnScaling{
                .rotary_dim = 128, .base = 1000000, .factor = 4, .original_max_position = 32768},
            32768)},
      // Text models of the vision-language models.
      {"qwen2_vl_2b", file,
       alike("qwen2_vl", HalfRotate, 128, unscaled(128, 1000000), 32768,
             mrope_chunked({16, 24, 24}))},
      {"qwen3_vl_2b", file,
       alike("qwen3_vl_text", HalfRotate, 128, unscaled(128, 5000000), 262144,
             mrope_interleaved({24, 20, 20}, MropeTail::Time))},

      // Scores are multiplied by softmax_scale_multiplier() in addition to 192^-1/2.
      {"deepseek_v2", "a copy of V2-Lite's config.json", deepseek("deepseek_v2", 0.707)},
      {"deepseek_v3", file, deepseek("deepseek_v3", 1)},  // and R1
      {"deepseek_v4_flash", file, deepseek_v4()},

      // 20b and 120b. YaRN's ramp has fractional ends.
      {"gpt_oss", file,
       half("gpt_oss", 64,
            YarnScaling{.rotary_dim = 64,
                        .base = 150000,
                        .factor = 32,
                        .original_max_position = 4096,
                        .truncate = false},
            131072)},

      {"gemma2_9b", file, gemma2(256, 1.0 / 16)},
      // Scores are scaled by the model's width instead of the head's: (4608 / 32)^-1/2.
      {"gemma2_27b", "gemma.cpp gemma/configs.cc; maxtext's settings", gemma2(128, 1.0 / 12)},
      {"gemma3_1b", file,
       gemma(half("gemma3_text", 256, unscaled(256, 1000000), 32768), 26, 1.0 / 16)},
      {"gemma3_4b", "google-deepmind/gemma, gemma3_4b; a copy of 27B's config.json",
       gemma(half("gemma3_text", 256,
                  LinearScaling{.rotary_dim = 256, .base = 1000000, .factor = 8}, 131072),
             34, 1.0 / 16)},
      {"gemma4", "a copy of 26B-A4B's config.json", gemma4(30)},

      {"olmo_7b", "models/olmo, the class's defaults",
       half("olmo", 128, unscaled(128, 10000), 2048)},
      {"olmo2_1b", "allenai/OLMo, configs/official-0425/OLMo2-1B-stage1.yaml",
       half("olmo2", 128, unscaled(128, 500000), 4096)}};
  return table;
}

/// Returns the settings of a model of all() by its name, such as "llama3_1_8b".
///   Throws: ConfigError for another name; the message lists the names
inline const ModelSettings& model(std::string_view name) {
  std::string names;
  for (const RotaryPreset& preset : all()) {
    if (preset.name == name) return preset.model;
    if (!names.empty()) names += ", ";
    names += preset.name;
  }
  posenc::detail::fail<ConfigError>("presets::model", "no preset has the name '", name,
                                    "'; there are ", names);
}

// Other encodings.

/// Returns Qwen2-VL's vision tower.
///   Source: models/qwen2_vl
inline AnyRope qwen2_vl_vision_tower() {
  return AnyRope(PairingKind::HalfRotate, qwen2_vl_vision({.head_dim = 80, .base = 10000}));
}

/// Returns the table of the Transformer of 2017, as in the paper; embeddings are multiplied by
/// sqrt(512) before. The table of its code was SinusoidalLayout::ConcatenatedEndInclusive.
///   Source: arXiv 1706.03762, section 3.5
inline SinusoidalConfig transformer_base() {
  return {.model_dim = 512, .layout = SinusoidalLayout::Interleaved};
}

/// Returns BERT-base's table.
///   Source: google-research/bert, modeling.py
inline LearnedTable bert_base() { return {.rows = 512, .dim = 768}; }

/// Returns the table of the small GPT-2.
///   Source: openai/gpt-2, src/model.py
inline LearnedTable gpt2() { return {.rows = 1024, .dim = 768}; }

/// Returns OPT's table: 2048 positions and two rows before them. `dim` is the model's width.
///   Source: models/opt/modeling_opt.py
inline LearnedTable opt(Index dim) {
  return {.rows = 2050, .dim = dim, .config = {.row_offset = 2}};
}

/// Returns T5's encoder bias, the same for all sizes. T5 does not scale scores by 1 /
/// sqrt(head_dim).
///   Source: models/t5/modeling_t5.py
inline T5BiasConfig t5_encoder() { return {.direction = T5Direction::Bidirectional}; }
/// Returns the bias of T5's decoder over its own tokens, the same for all sizes.
///   Source: models/t5/modeling_t5.py
inline T5BiasConfig t5_decoder() { return {.direction = T5Direction::Causal}; }

/// Returns BLOOM-176B's bias.
///   Source: models/bloom/modeling_bloom.py; bigscience, train/tr11-176B-ml
inline AlibiConfig bloom_176b() { return {.heads = 112, .form = AlibiForm::Causal}; }

/// Returns MPT-7B's bias.
///   Source: models/mpt; a copy of its config.json
inline AlibiConfig mpt_7b() { return {.heads = 32, .form = AlibiForm::Causal, .max_bias = 8}; }

}  // namespace presets
POSENC_END
