// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/names.hpp>

#include <array>
#include <optional>
#include <string_view>

// Epsilons of norms that the configuration classes of Hugging Face's model types have by default.
POSENC_BEGIN
namespace detail {

/// Row of model types whose configuration class has the same default.
struct HfNormEpsilon {
  std::string_view names;
  double value;
};

/// Defaults. A type that is not listed has a class that was not found, or none.
///   Source: transformers 5.24.0, configuration_*.py of each type, and of the type of the text
///           model for composite files; modeling_*.py of dbrx, esmc and olmo, whose norms have the
///           default of PyTorch. Names of remote code that transformers has under another name:
///           AXK1 as axk1, exaone4_5_text as exaone4, kimi_k2 as deepseek_v3, new as gte,
///           RefinedWeb as falcon
inline constexpr auto hf_norm_epsilons = std::to_array<HfNormEpsilon>({
    {"esm gte new nomic_bert roformer", 1e-12},
    {"helium kyutai_speech_to_text moshi", 1e-8},
    {"glm glm4", 1.5625e-7},
    {"aria_text axk1 AXK1 axk2 deepseek_ocr2_text deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 "
     "dots1 embedding_gemma2_text flex_olmo flint gemma gemma2 gemma3 gemma3_text gemma3n "
     "gemma3n_text gemma4 gemma4_text gemma4_unified gemma4_unified_text granite "
     "granite4_vision_text granitemoe granitemoe_swa granitemoehybrid granitemoeshared hyperclovax "
     "idefics jetmoe kimi_k2 kimi_k25 kolibri1 laguna llama mellum minimax_m2 minimax_m3_vl_text "
     "ministral mistral mistral3 mistral4 molmo2_text olmo_hybrid qwen2 qwen2_5_omni_talker "
     "qwen2_5_omni_text qwen2_moe qwen3 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text "
     "qwen3_moe qwen3_next qwen3_omni_moe_talker_code_predictor qwen3_omni_moe_talker_text "
     "qwen3_omni_moe_text qwen3_vl qwen3_vl_moe qwen3_vl_moe_text qwen3_vl_text qwen4_exp_text "
     "sarvam_mla sarvam_moe seed_oss smollm3 t5gemma2_text ultrabert vaultgemma "
     "voxtral_realtime_text youtu",
     1e-6},
    {"afmoe apertus apertus1p5_text arcee bamba bitnet chameleon codegen cohere cohere2 "
     "cohere2_moe cohere_compass_text cosmos3_edge_text csm csm_depth_decoder_model cwm dbrx "
     "dia_decoder dia_encoder dinov3_vit emu3_text_model ernie4_5 ernie4_5_moe ernie4_5_moe_vl "
     "ernie4_5_vl_moe ernie4_5_vl_moe_text esmc eurobert evolla exaone exaone4 exaone4_5_text "
     "exaone_moe falcon falcon_h1 glm4_moe glm4_moe_lite glm4v glm4v_moe glm4v_moe_text glm4v_text "
     "glm_moe_dsa glm_ocr_text gpt_neox gpt_neox_japanese gpt_oss gptj granite_docling_text "
     "granite_swa higgs_audio_v2 hunyuan_v1_dense hunyuan_v1_moe hunyuan_vl hunyuan_vl_text hy_v3 "
     "hy_v4 hy_v4_vl_text internlm3 iquestcoder jais2 jina_embeddings_v3 lfm2 lfm2_moe lfm3 llama4 "
     "llama4_text "
     "longcat_flash mimi mimo_v2_flash minicpm3 ministral3 mixtral mllama mllama_text_model "
     "modernbert modernbert-decoder nemotron olmo olmo2 olmo3 olmoe paddleocr_vl_text persimmon "
     "phi phi3 phi4_multimodal phimoe qwen2_5_vl qwen2_5_vl_text qwen2_vl qwen2_vl_text RefinedWeb "
     "RefinedWebModel solar_open stablelm starcoder2 step3p5 zamba2 zaya",
     1e-5},
});

/// Returns the default of a type's class; nullopt if it is not known.
POSENC_COLD inline std::optional<double> hf_default_norm_epsilon(std::string_view model_type) {
  const HfNormEpsilon* row = find_row(hf_norm_epsilons, model_type);
  return row == nullptr ? std::nullopt : std::optional(row->value);
}

}  // namespace detail
POSENC_END
