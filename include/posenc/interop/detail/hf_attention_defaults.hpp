// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <algorithm>
#include <array>
#include <string_view>

// What the configuration classes of Hugging Face have for heads of keys and for windows where a file
// says nothing of them.
POSENC_BEGIN
namespace detail {

/// Which layers of a class see a window alone.
enum class HfWindows {
  None,                ///< none: the class reads no key of windows
  Every,               ///< all, where there is one
  ByType,              ///< those of the type sliding_attention
  Alternate,           ///< the same, by default those of even number
  AfterFirst,          ///< by default all from max_window_layers on
  AfterFirstSwitched,  ///< the same, where use_sliding_window says so
  EverySwitched,       ///< all, where use_sliding_window says so
  WithoutRotary,       ///< by default those that turn nothing, where use_sliding_window says so
  ChunksWithRotary,    ///< chunks, in layers that turn
  BothSides,           ///< both sides of local_attention, in layers of the type sliding_attention
  HalfOfLocal          ///< half of local_attention, in layers of that type
};

constexpr Index as_many_as_heads = 0;
constexpr Index unknown_kv_heads = -1;

struct HfAttentionDefaults {
  std::string_view name;  ///< model_type
  Index kv_heads = unknown_kv_heads;
  HfWindows windows = HfWindows::None;
  Index window = 0;  ///< its size; 0 for no window
  bool sinks = false;
  std::string_view sparse = {};  ///< the type of layers whose keys an indexer chooses
};

inline constexpr std::array hf_attention_defaults = [] {
  using enum HfWindows;
  constexpr Index same = as_many_as_heads, unknown = unknown_kv_heads;
  constexpr auto full = "full_attention";
  return std::to_array<HfAttentionDefaults>({
      {"afmoe", same, ByType, 1024},
      {"apertus", same},
      {"aquila", same},
      {"arcee", same},
      {"aria_text", same},
      {"AXK1", same},
      {"baichuan", same},
      {"bailing_moe_v2", same},
      {"bamba", 8},
      {"bitnet", 5},
      {"chameleon", 32},
      {"codegen", same},
      {"codeshell", same},
      {"cohere", same},
      {"cohere2", same, ByType, 4096},
      {"cohere2_moe", same, ByType, 4096},
      {"csm", 8},
      {"cwm", 8, ByType, 8192},
      {"dbrx", 1},
      {"deepseek_ocr2_text", same},
      {"deepseek_v32", unknown, None, 0, false, full},
      {"deepseek_v4", 1, Every, 128, true},
      {"dinov3_vit", same},
      {"dots1", 32, AfterFirst, 4096},
      {"Dream", 32},
      {"emu3_text_model", 8},
      {"ernie4_5", 2},
      {"ernie4_5_moe", 4},
      {"esm", same},
      {"esmc", same},
      {"eurobert", same},
      {"exaone", same},
      {"exaone4", 32, ByType, 4096},
      {"exaone4_5_text", 32, ByType, 4096},
      {"exaone_moe", 32, ByType, 4096},
      {"falcon_h1", 8},
      {"flex_olmo", same},
      {"gemma", 16},
      {"gemma2", 4, Alternate, 4096},
      {"gemma3", 4, ByType, 4096},
      {"gemma3_text", 4, ByType, 4096},
      {"gemma3n", 2, ByType, 512},
      {"gemma3n_text", 2, ByType, 512},
      {"gemma4", 4, ByType, 512},
      {"gemma4_text", 4, ByType, 512},
      {"gemma4_unified", 4, ByType, 1024},
      {"gemma4_unified_text", 4, ByType, 1024},
      {"glm", 2},
      {"glm4", 2},
      {"glm4_moe", 8},
      {"glm4v_moe", 8},
      {"glm4v_moe_text", 8},
      {"glm_moe_dsa", unknown, None, 0, false, full},
      {"glm_ocr_text", 8},
      {"gpt_neox", same},
      {"gpt_neox_japanese", same},
      {"gpt_oss", 8, Alternate, 128, true},
      {"gptj", same},
      {"granite", same},
      {"granite_swa", 4, ByType, 128, true},
      {"granitemoe", same},
      {"granitemoe_swa", same, ByType, 128, true},
      {"granitemoehybrid", same},
      {"granitemoeshared", same},
      {"grok-1", same},
      {"gte", same},
      {"helium", 20},
      {"hf_olmo", same},
      {"hunyuan", same},
      {"hunyuan_v1_dense", same},
      {"hunyuan_v1_moe", same},
      {"hy_v3", 8},
      {"hyperclovax", same},
      {"internlm", same},
      {"internlm2", same},
      {"internlm3", same},
      {"jais2", same},
      {"jetmoe", 16},
      {"jina_embeddings_v3", same},
      {"kyutai_speech_to_text", same, Every, 375},
      {"laguna", 8, ByType, 512},
      {"lfm2", 8},
      {"lfm2_moe", 8},
      {"llada", same},
      {"llama", same},
      {"llama4", 8, ChunksWithRotary, 8192},
      {"llama4_text", 8, ChunksWithRotary, 8192},
      {"megrez_moe", same},
      {"mellum", 4, ByType, 1024},
      {"mimi", 8, Every, 250},
      {"mimo", 32, AfterFirstSwitched, 4096},
      {"mimo_v2_flash", 4, ByType, 128},
      {"minicpm", same},
      {"minimax_m3_vl_text", 4, None, 0, false, "minimax_m3_sparse"},
      {"ministral", 8, ByType, 4096},
      {"ministral3", 8, Every},
      {"mistral", 8, Every, 4096},
      {"mistral3", unknown, Every},
      {"mixformer-sequential", same},
      {"mixtral", 8, Every},
      {"mllama", 8},
      {"mllama_text_model", 8},
      {"modernbert", same, BothSides, 128},
      {"modernbert-decoder", same, HalfOfLocal, 128},
      {"molmo", same},
      {"molmo2_text", 8},
      {"moshi", same, Every, 3000},
      {"nemotron", same},
      {"neobert", same},
      {"new", same},
      {"nomic_bert", same},
      {"olmo", same},
      {"olmo2", same},
      {"olmo3", same, ByType, 4096},
      {"olmo_hybrid", same},
      {"olmoe", same},
      {"paddleocr_vl_text", 2},
      {"PanguEmbedded", same},
      {"persimmon", same},
      {"phi", same},
      {"phi-msft", same},
      {"phi3", same, Every},
      {"phi3_v", same, Every},
      {"phi3small", 8},
      {"phi4_multimodal", 8, Every},
      {"phimoe", 8, Every},
      {"qwen", same},
      {"qwen2", 32, AfterFirstSwitched, 4096},
      {"qwen2_5_omni_text", 4, AfterFirstSwitched, 32768},
      {"qwen2_5_vl", 8, AfterFirstSwitched, 4096},
      {"qwen2_5_vl_text", 8, AfterFirstSwitched, 4096},
      {"qwen2_moe", 16, AfterFirstSwitched, 4096},
      {"qwen2_vl", 8, AfterFirstSwitched, 4096},
      {"qwen2_vl_text", 8, AfterFirstSwitched, 4096},
      {"qwen3", 32, AfterFirstSwitched, 4096},
      {"qwen3_5_text", 4},
      {"qwen3_moe", 4, EverySwitched, 4096},
      {"qwen3_next", 2},
      {"qwen3_vl_text", 32},
      {"qwen4_exp_text", 2, None, 0, false, full},
      {"roformer", same},
      {"seed_oss", 8},
      {"skywork", same},
      {"smallthinker", unknown, ByType},
      {"smollm3", 4, WithoutRotary},
      {"solar", same, Every},
      {"solar_open", 8},
      {"stablelm", 32},
      {"stablelm_epoch", same},
      {"starcoder2", 2, Every},
      {"step3p5", unknown, ByType, 512},
      {"telechat", same},
      {"telechat2", same},
      {"transformer", same, Every},
      {"vaultgemma", 4, Alternate, 4096},
      {"xverse", same},
      {"Yi", same},
      {"zamba2", same},
  });
}();

/// The defaults of a class; nothing is known of those that have no row but that they have no windows.
inline HfAttentionDefaults find_hf_attention_defaults(std::string_view name) {
  const auto at = std::find_if(hf_attention_defaults.begin(), hf_attention_defaults.end(),
                               [name](const HfAttentionDefaults& row) { return row.name == name; });
  return at == hf_attention_defaults.end() ? HfAttentionDefaults{.name = name} : *at;
}

}  // namespace detail
POSENC_END
