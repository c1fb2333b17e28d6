// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/names.hpp>
#include <posenc/interop/layer_attention.hpp>

#include <array>
#include <optional>
#include <string_view>

// Norms of queries and keys by model type and architecture. They are tables of their own, because
// types that share a row of other traits differ in it.
POSENC_BEGIN
namespace detail {

/// Layers that have the norm. The others have none.
enum class QkNormLayers {
  All,
  WithRotary,  ///< layers with rotary encoding
  Cross        ///< layers that attend to another sequence
};

/// Row of model types, or architectures, whose queries and keys have the same norm.
struct QkNormRow {
  std::string_view names;           ///< model types that share the row
  std::optional<LayerQkNorm> norm;  ///< nullopt: not known
  QkNormLayers layers = QkNormLayers::All;
  const char* flag = nullptr;  ///< key of the flag that switches the norm; nullptr: always on
  std::optional<bool> is_on = std::nullopt;  ///< without the flag; nullopt: not known
  /// Key whose value "olmo" makes the norm one of the whole projection; "qwen3" does not.
  const char* kind_key = nullptr;
  bool is_optional = false;   ///< GGUF: the norm is on if the file has its tensor
  Index experts_without = 0;  ///< GGUF: models of so many experts have none; 0: no such models
};

inline constexpr LayerQkNorm no_qk_norm = {};
inline constexpr LayerQkNorm rms_of_heads = {.kind = LayerQkNormKind::Rms,
                                             .weights = LayerQkNormWeights::Factors};
inline constexpr LayerQkNorm rms_of_heads_plus_one = {
    .kind = LayerQkNormKind::Rms, .weights = LayerQkNormWeights::FactorsMinusOne};
inline constexpr LayerQkNorm rms_of_all_heads = {.kind = LayerQkNormKind::Rms,
                                                 .is_over_all_heads = true,
                                                 .weights = LayerQkNormWeights::Factors};
inline constexpr LayerQkNorm rms_after_rotation = {.kind = LayerQkNormKind::Rms,
                                                   .weights = LayerQkNormWeights::Factors,
                                                   .is_after_rotation = true};
inline constexpr LayerQkNorm plain_rms_after_rotation = {.kind = LayerQkNormKind::Rms,
                                                         .is_after_rotation = true};
inline constexpr LayerQkNorm layer_norm_of_heads = {
    .kind = LayerQkNormKind::LayerNorm, .weights = LayerQkNormWeights::Factors, .has_bias = true};
inline constexpr LayerQkNorm layer_norm_per_head = {.kind = LayerQkNormKind::LayerNorm,
                                                    .weights = LayerQkNormWeights::FactorsPerHead};

/// Rows of Hugging Face's model types.
///   Source: transformers 5.24.0, modeling_*.py of each type. Types without a class there: mlx-lm
///           0.32.2, mlx_lm/models/ (bailing_moe, deepseek, hunyuan, internlm2, Klear,
///           longcat_flash_ngram, mimo, minicpm, nemotron-nas, openelm, phi3small, plamo, qwen,
///           telechat3, youtu_llm); SGLang 0.5.23, srt/models/ (baichuan, chatglm, grok, orion,
///           solar, xverse); llama.cpp of llama-cpp-python 0.3.36, src/models/ (arctic,
///           bailingmoe2, codeshell, deci, dream, grovemoe, neo-bert, pangu-embed, phi2, plm,
///           rnd1, smallthinker). aquila, internlm, megrez_moe, RefinedWeb, telechat, Yi and the
///           like have the attention of a class above (hf_plain_types.hpp). attention_layer_norm is
///           false by default in the configurations of allenai/OLMo, molmo and LLaDA;
///           normalize_qk_projections in that of apple/corenet
inline constexpr auto hf_qk_norms = std::to_array<QkNormRow>({
    {.names = "aquila arcee arctic aria_text axk1 AXK1 axk2 baichuan bamba bitnet chatglm codegen "
              "codeshell cohere2 cohere2_moe cohere_compass_text cosmos3_edge_text csm "
              "csm_depth_decoder_model cwm dbrx deci deepseek deepseek_ocr2_text deepseek_v2 "
              "deepseek_v3 deepseek_v32 dia_decoder dia_encoder dinov3_vit dots_ocr Dream "
              "emu3_text_model ernie4_5 ernie4_5_moe ernie4_5_moe_vl ernie4_5_vl_moe "
              "ernie4_5_vl_moe_text esm eurobert evolla exaone falcon falcon_h1 gemma gemma2 glm "
              "glm4 glm4_moe_lite glm4v glm4v_moe glm4v_moe_text glm4v_text glm_moe_dsa "
              "glm_ocr_text gpt_neox gpt_neox_japanese gpt_oss gptj granite granite4_vision_text "
              "granite_docling_text granite_swa granitemoe granitemoe_swa granitemoehybrid "
              "granitemoeshared grok-1 grok-2 gte helium higgs_audio_v2 hy_v4 hy_v4_vl_text "
              "hyperclovax idefics "
              "internlm internlm2 internlm3 iquestcoder jais2 jetmoe jina_embeddings_v3 kimi_k2 "
              "kimi_k25 kyutai_speech_to_text llama longcat_flash longcat_flash_ngram megrez_moe "
              "mimi mimo mimo_v2_flash minicpm minicpm3 ministral ministral3 mistral mistral3 "
              "mistral4 mixformer-sequential mixtral modernbert modernbert-decoder moshi nemotron "
              "nemotron-nas neobert new nomic_bert olmo orion paddleocr_vl_text PanguEmbedded "
              "phi-msft phi3 phi3_v phi3small phi4_multimodal phimoe plamo plm qwen qwen2 "
              "qwen2_5_omni_talker qwen2_5_omni_text qwen2_5_vl qwen2_5_vl_text qwen2_moe qwen2_vl "
              "qwen2_vl_text RefinedWeb RefinedWebModel roformer sarvam_mla seed_oss skywork "
              "smallthinker smollm3 solar solar_open starcoder2 telechat telechat2 telechat3 "
              "ultrabert vaultgemma voxtral_realtime_text xverse Yi youtu youtu_llm zamba2",
     .norm = no_qk_norm},
    {.names = "afmoe apertus apertus1p5_text dots1 embedding_gemma2_text exaone4 exaone4_5_text "
              "exaone_moe flint gemma3n gemma3n_text gemma4 gemma4_text gemma4_unified "
              "gemma4_unified_text grove_moe hy_v3 Klear kolibri1 laguna lfm2 lfm2_moe lfm3 mellum "
              "qwen3 qwen3_moe qwen3_omni_moe_talker_code_predictor qwen3_omni_moe_talker_text "
              "qwen3_omni_moe_text qwen3_vl qwen3_vl_moe qwen3_vl_moe_text qwen3_vl_text rnd1",
     .norm = rms_of_heads},
    {.names = "gemma3 gemma3_text minimax_m3_vl_text qwen3_5 qwen3_5_moe qwen3_5_moe_text "
              "qwen3_5_text qwen3_next qwen4_exp_text step3p5 t5gemma2_text",
     .norm = rms_of_heads_plus_one},
    {.names = "flex_olmo olmo2 olmo3 olmo_hybrid olmoe", .norm = rms_of_all_heads},
    {.names = "mllama mllama_text_model", .norm = rms_of_heads, .layers = QkNormLayers::Cross},
    {.names = "deepseek_v4",
     .norm =
         LayerQkNorm{.kind = LayerQkNormKind::Rms, .weights = LayerQkNormWeights::FactorsOfKeys}},
    {.names = "chameleon",
     .norm = LayerQkNorm{.kind = LayerQkNormKind::LayerNorm,
                         .weights = LayerQkNormWeights::FactorsPerHead,
                         .has_bias = true,
                         .epsilon = 1e-5}},
    {.names = "esmc",
     .norm = LayerQkNorm{.kind = LayerQkNormKind::LayerNorm,
                         .is_over_all_heads = true,
                         .weights = LayerQkNormWeights::Factors,
                         .epsilon = 1e-5}},
    // A flag switches the norm.
    {.names = "bailing_moe glm4_moe", .norm = rms_of_heads, .flag = "use_qk_norm", .is_on = false},
    {.names = "bailing_moe_v2", .norm = rms_of_heads, .flag = "use_qk_norm"},
    {.names = "openelm", .norm = rms_of_heads, .flag = "normalize_qk_projections", .is_on = false},
    {.names = "molmo2_text",
     .norm = rms_of_heads,
     .flag = "use_qk_norm",
     .is_on = true,
     .kind_key = "qk_norm_type"},
    // The flag is of MiniMax's and Tencent's own code; transformers always has the norm.
    {.names = "minimax_m2", .norm = rms_of_all_heads, .flag = "use_qk_norm", .is_on = true},
    {.names = "hunyuan_v1_dense hunyuan_v1_moe hunyuan_vl hunyuan_vl_text",
     .norm = rms_after_rotation,
     .flag = "use_qk_norm",
     .is_on = true},
    {.names = "hunyuan", .norm = rms_after_rotation, .flag = "use_qk_norm"},
    {.names = "sarvam_moe", .norm = rms_of_heads, .flag = "use_qk_norm", .is_on = true},
    {.names = "llama4 llama4_text",
     .norm = plain_rms_after_rotation,
     .layers = QkNormLayers::WithRotary,
     .flag = "use_qk_norm",
     .is_on = true},
    {.names = "cohere", .norm = layer_norm_per_head, .flag = "use_qk_norm", .is_on = false},
    {.names = "persimmon", .norm = layer_norm_of_heads, .flag = "qk_layernorm", .is_on = true},
    {.names = "phi", .norm = layer_norm_of_heads, .flag = "qk_layernorm", .is_on = false},
    {.names = "stablelm stablelm_epoch",
     .norm = layer_norm_per_head,
     .flag = "qk_layernorm",
     .is_on = false},
    // Its keys have a learned factor per head after the norm, which no kind expresses.
    {.names = "zaya", .norm = std::nullopt},
    // The norm is of a kind that further keys choose.
    {.names = "hf_olmo llada molmo",
     .norm = std::nullopt,
     .flag = "attention_layer_norm",
     .is_on = false},
});

/// Types whose norm is not known, because their class was not found.
inline constexpr std::string_view hf_unknown_qk_norms = "transformer";

/// Rows of llama.cpp's architectures. Its converter has added 1 to the weights that need it.
///   Source: llama.cpp of llama-cpp-python 0.3.36: src/models/, and conversion/ for the 1
inline constexpr auto gguf_qk_norms = std::to_array<QkNormRow>({
    {.names =
         "arcee arctic baichuan bailingmoe bailingmoe3 bitnet chatglm codeshell cogvlm cohere2 "
         "cohere2moe dbrx deci deepseek deepseek2 deepseek2-ocr deepseek32 dream ernie4_5 "
         "ernie4_5-moe eurobert exaone falcon falcon-h1 gemma gemma2 glm-dsa glm4 gpt-oss gptneox "
         "granite granite_swa granitehybrid granitemoe graniteswitch grok hrm_text hy_v4 internlm2 "
         "jais2 jina-bert-v3 llada llama llama-embed mimo2 minicpm minicpm3 minimax-01 mistral3 "
         "mistral4 modern-bert nanbeige nemotron neo-bert nomic-bert nomic-bert-moe olmo orion "
         "paddleocr pangu-embedded phi2 phi3 phimoe plamo plm pockettts qwen qwen2 qwen2moe "
         "qwen2vl seed_oss smallthinker smollm3 spark2_5 starcoder2 xverse",
     .norm = no_qk_norm},
    {.names = "afmoe apertus bailingmoe2 dots1 exaone-moe exaone4 gemma-embedding gemma3 gemma3n "
              "gemma4 grovemoe hy_v3 laguna lfm2 lfm2moe llada-moe maple mellum minimax-m3 "
              "muse-glimmer openelm plamo3 qwen3 qwen35 qwen35moe qwen3moe qwen3next qwen3tts "
              "qwen3vl qwen3vlmoe qwen4exp rnd1",
     .norm = rms_of_heads},
    {.names = "minimax-m2 olmo2 olmoe", .norm = rms_of_all_heads},
    {.names = "hunyuan-dense hunyuan-moe hunyuan_vl maincoder", .norm = rms_after_rotation},
    {.names = "glm4moe step35", .norm = rms_of_heads, .is_optional = true},
    {.names = "command-r stablelm", .norm = layer_norm_per_head, .is_optional = true},
    {.names = "chameleon",
     .norm = LayerQkNorm{.kind = LayerQkNormKind::LayerNorm,
                         .weights = LayerQkNormWeights::FactorsPerHead,
                         .has_bias = true}},
    {.names = "deepseek4",
     .norm =
         LayerQkNorm{.kind = LayerQkNormKind::Rms, .weights = LayerQkNormWeights::FactorsOfKeys}},
    {.names = "plamo2",
     .norm =
         LayerQkNorm{.kind = LayerQkNormKind::Rms, .weights = LayerQkNormWeights::FactorsPerHead}},
    {.names = "llama4",
     .norm = plain_rms_after_rotation,
     .layers = QkNormLayers::WithRotary,
     .experts_without = 128},
});

/// Architectures whose norm LayerQkNorm does not describe: of the rotary channels of keys alone
/// (dots3note), and with factors of queries alone (talkie).
inline constexpr std::string_view gguf_unknown_qk_norms = "dots3note talkie";

}  // namespace detail
POSENC_END
