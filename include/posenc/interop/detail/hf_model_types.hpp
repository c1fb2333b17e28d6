// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/rotary/pairing.hpp>

#include <algorithm>
#include <array>
#include <string_view>

POSENC_BEGIN
namespace detail {

/// What sets the models of a type apart from plain rotary ones.
enum class HfFamily {
  Plain,
  Mla,          ///< rotary channels last, of a width of their own; mscale enters the softmax scale
  Gemma3,       ///< one rope for local layers, one for global ones
  Gemma3n,      ///< and every fifth layer global
  Gemma4,       ///< global layers have wider heads
  ModernBert,   ///< one base for local layers, one for global ones
  Olmo3,        ///< scaling applies to global layers alone
  FirstGlobal,  ///< every fourth layer global, the first among them
  Cohere2,      ///< global layers have no rotary encoding
  Cohere2Moe,   ///< nor here, but for those before the first layer of experts
  Exaone4,      ///< nor here, if there are local ones
  Afmoe,        ///< nor here
  DeepSeekV4,   ///< scaling applies to layers with compressed keys alone, and has a base of its own
  MimoV2,       ///< local layers have heads of their own
  Step35,       ///< as well; lists tell bases and rotary shares
  GraniteHybrid,    ///< most layers are state spaces, and position_embedding_type tells of rotation
  GraniteSwa,       ///< a list tells the base of each layer, 0 where there is no rotary encoding
  NoRopeLayers,     ///< a list or an interval tells which layers have none
  Mllama,           ///< a list tells which layers attend to images, without rotary encoding
  Lfm2,             ///< most layers are convolutions
  ListedAttention,  ///< a list tells which layers are no state spaces
  NemotronNas,      ///< blocks tell of each layer's attention
  ChatGlm,          ///< two dimensions, or half of the head
  ChunkedMrope,     ///< mrope_section in chunks
  InterleavedMrope,  ///< mrope_section in turn
  Hybrid,            ///< most layers have linear attention
  HybridMrope,       ///< the same with mrope_section in turn
  ErnieVl,           ///< mrope_section is h, w, t
  Qwen1,             ///< may have a temperature, and a dynamic rule of its own
  Fla,               ///< flash-linear-attention's names of keys
  Dinov3,            ///< half of the pairs turn by rows of patches, half by columns
  GptJ,              ///< the width of the rotary part must be given
  Baichuan,          ///< the model of 7B; that of 13B has ALiBi
  Phi3,              ///< "yarn" is LongRoPE
  Grok               ///< a scale, a cap and a temperature of its own
};

/// What scores are multiplied with.
enum class HfScores {
  HeadDim,                 ///< head_dim^-1/2
  One,                     ///< 1: queries and keys are normalized
  QueryScalar,             ///< query_pre_attn_scalar^-1/2, by default 1/16
  Multiplier,              ///< attention_multiplier, by default 1
  MultiplierIfGiven,       ///< attention_multiplier, by default head_dim^-1/2
  MupHeadDim,              ///< mup_attn_multiplier over head_dim
  KeyMultiplier,           ///< key_multiplier, which keys are multiplied with, by head_dim^-1/2
  QueryLatent,             ///< (hidden_size / q_lora_rank)^1/2 of queries, by head_dim^-1/2
  HalfOfHeadDim,           ///< (head_dim / 2)^-1/2
  OutputMultiplierIfGiven  ///< attn_output_multiplier, by default head_dim^-1/2
};

/// What Hugging Face's model_type implies: the pairing of the checkpoint's channels, and the
/// defaults of the configuration class for what config.json leaves out.
struct HfModelType {
  std::string_view name;
  PairingKind pairing;
  HfFamily family = HfFamily::Plain;
  double base = 10000;  ///< 0 where the file must say it
  double partial_rotary_factor = 1;
  Index head_dim = 0;  ///< 0 for hidden_size / num_attention_heads
  HfScores scores = HfScores::HeadDim;
};

inline constexpr std::array hf_model_types = [] {
  using enum HfFamily;
  using enum HfScores;
  constexpr auto half = PairingKind::HalfRotate, inter = PairingKind::Interleaved;
  return std::to_array<HfModelType>({
      {"afmoe", half, Afmoe, 10000, 1, 128},
      {"apertus", half, Plain, 12000000},
      {"aquila", half},
      {"arcee", half},
      {"arctic", half, Plain, 0},
      {"aria_text", half},
      {"AXK1", inter, Mla, 0},
      {"axk1", inter, Mla, 0},
      {"baichuan", half, Baichuan},
      {"bailing_moe", half, Plain, 0},
      {"bailing_moe_v2", half, GptJ, 0},
      {"bamba", half, ListedAttention, 10000, 0.5},
      {"bitnet", half, Plain, 500000},
      {"chameleon", half},
      {"chatglm", inter, ChatGlm},
      {"codegen", inter, GptJ},
      {"codeshell", half},
      {"cohere", inter, Plain, 0},
      {"cohere2", inter, Cohere2},
      {"cohere2_moe", inter, Cohere2Moe, 10000, 1, 128},
      {"csm", half, Plain, 500000},
      {"cwm", half, FirstGlobal, 1000000, 1, 128},
      {"dbrx", half},
      {"deci", half},
      {"deepseek", half},
      {"deepseek_ocr2_text", half},
      {"deepseek_v2", inter, Mla},
      {"deepseek_v3", inter, Mla},
      {"deepseek_v32", inter, Mla},
      {"deepseek_v4", inter, DeepSeekV4, 10000, 1, 512},
      {"dinov3_vit", half, Dinov3, 100},
      {"dots1", half},
      {"dots_ocr", half, Plain, 0},
      {"Dream", half},
      {"emu3_text_model", half, Plain, 0},
      {"ernie4_5", inter, Plain, 500000, 1, 128},
      {"ernie4_5_moe", inter, Plain, 500000},
      {"ernie4_5_moe_vl", inter, ErnieVl, 0},
      {"ernie4_5_vl_moe", inter, ErnieVl, 0},
      {"ernie4_5_vl_moe_text", inter, ErnieVl, 0},
      {"esm", half},
      {"esmc", half},
      {"eurobert", half},
      {"exaone", half, Plain, 0},
      {"exaone4", half, Exaone4},
      {"exaone4_5_text", half, Exaone4, 0},
      {"exaone_moe", half, Exaone4, 0},
      {"falcon", half},
      {"falcon_h1", half, Plain, 0, 1, 0, KeyMultiplier},
      {"flex_olmo", half, Plain, 500000},
      {"gemma", half, Plain, 10000, 1, 256},
      {"gemma2", half, Plain, 10000, 1, 256, QueryScalar},
      {"gemma3", half, Gemma3, 1000000, 1, 256, QueryScalar},
      {"gemma3_text", half, Gemma3, 1000000, 1, 256, QueryScalar},
      {"gemma3n", half, Gemma3n, 1000000, 1, 256, One},
      {"gemma3n_text", half, Gemma3n, 1000000, 1, 256, One},
      {"gemma4", half, Gemma4, 0, 1, 256, One},
      {"gemma4_text", half, Gemma4, 0, 1, 256, One},
      {"gemma4_unified", half, Gemma4, 0, 1, 256, One},
      {"gemma4_unified_text", half, Gemma4, 0, 1, 256, One},
      {"glm", inter, Plain, 10000, 0.5, 128},
      {"glm4", inter, Plain, 10000, 0.5, 128},
      {"glm4_moe", half, Plain, 10000, 0.5},
      {"glm4_moe_lite", inter, Mla},
      {"glm4v", inter, ChunkedMrope, 10000, 0.5},
      {"glm4v_moe", half, ChunkedMrope, 10000, 0.5},
      {"glm4v_moe_text", half, ChunkedMrope, 10000, 0.5},
      {"glm4v_text", inter, ChunkedMrope, 10000, 0.5},
      {"glm_moe_dsa", inter, Mla, 0},
      {"glm_ocr_text", inter, ChunkedMrope},
      {"gpt_neox", half, Plain, 10000, 0.25},
      {"gpt_neox_japanese", half},
      {"gpt_oss", half, Plain, 150000, 1, 64},
      {"gptj", inter, GptJ},
      {"granite", half, Plain, 10000, 1, 0, Multiplier},
      {"granite_swa", half, GraniteSwa, 0, 1, 0, Multiplier},
      {"granitemoe", half, Plain, 10000, 1, 0, Multiplier},
      {"granitemoe_swa", half, GraniteSwa, 0, 1, 0, Multiplier},
      {"granitemoehybrid", half, GraniteHybrid, 10000, 1, 0, Multiplier},
      {"granitemoeshared", half, Plain, 10000, 1, 0, Multiplier},
      {"grok-1", half, Grok, 10000, 1, 0, OutputMultiplierIfGiven},
      {"grok-2", half, Grok, 0, 1, 0, OutputMultiplierIfGiven},
      {"grove_moe", half, Plain, 0},
      {"gte", half, Plain, 0},
      {"helium", inter, Plain, 100000, 1, 128},
      {"hf_olmo", half},
      {"hunyuan", half},
      {"hunyuan_v1_dense", half},
      {"hunyuan_v1_moe", half},
      {"hunyuan_vl", half},
      {"hunyuan_vl_text", half},
      {"hy_v3", half, Plain, 11158840, 1, 128},
      {"hyperclovax", half, Plain, 10000, 1, 0, MultiplierIfGiven},
      {"internlm", half},
      {"internlm2", half, Plain, 0},
      {"internlm3", half, Plain, 0},
      {"jais2", half, Plain, 0},
      {"jetmoe", half, Plain, 10000, 1, 128},
      {"jina_embeddings_v3", half, Plain, 0},
      {"kimi_k2", inter, Mla, 0},
      {"kimi_k25", inter, Mla, 0},
      {"Klear", half, Plain, 0},
      {"kyutai_speech_to_text", half, Plain, 0},
      {"laguna", half, Plain, 0, 1, 128},
      {"lfm2", half, Lfm2, 1000000},
      {"lfm2_moe", half, Lfm2, 1000000},
      {"llada", half},
      {"llama", half},
      {"llama4", inter, NoRopeLayers, 500000, 1, 128},
      {"llama4_text", inter, NoRopeLayers, 500000, 1, 128},
      {"longcat_flash", inter, Mla, 10000000, 1, 0, QueryLatent},
      {"longcat_flash_ngram", inter, Mla, 0, 1, 0, QueryLatent},
      {"megrez_moe", half, Plain, 0},
      {"mellum", half, Plain, 0, 1, 128},
      {"mimi", half},
      {"mimo", half, Plain, 0},
      {"mimo_v2_flash", half, MimoV2, 0, 1, 192},
      {"minicpm", half},
      {"minicpm3", half, Mla},
      {"minimax_m2", half, GptJ, 0},
      {"minimax_m3_vl_text", half, Plain, 5000000, 0.5, 128},
      {"ministral", half, Plain, 0},
      {"ministral3", half, Plain, 0},
      {"mistral", half},
      {"mistral3", half, Plain, 0},
      {"mistral4", inter, Mla, 0},
      {"mixformer-sequential", half, GptJ},
      {"mixtral", half, Plain, 1000000},
      {"mllama", half, Mllama, 500000},
      {"mllama_text_model", half, Mllama, 500000},
      {"modernbert", half, ModernBert},
      {"modernbert-decoder", half, ModernBert},
      {"molmo", half},
      {"molmo2_text", half, Plain, 0, 1, 128},
      {"moshi", half},
      {"nemotron", half, Plain, 10000, 0.5},
      {"nemotron-nas", half, NemotronNas},
      {"neobert", inter},
      {"new", half, Plain, 0},
      {"nomic_bert", half, Plain, 0},
      {"olmo", half},
      {"olmo2", half},
      {"olmo3", half, Olmo3},
      {"olmo_hybrid", half, Hybrid, 0},
      {"olmoe", half},
      {"openelm", half, Plain, 10000, 1, 128},
      {"orion", half},
      {"paddleocr_vl_text", half, ChunkedMrope, 500000, 1, 128},
      {"PanguEmbedded", half, Plain, 0},
      {"persimmon", half, Plain, 25000, 0.5},
      {"phi", half, Plain, 10000, 0.5},
      {"phi-msft", half, GptJ},
      {"phi3", half, Phi3},
      {"phi3_v", half, Phi3},
      {"phi3small", half, Plain, 1000000, 1, 0, MupHeadDim},
      {"phi4_multimodal", half, Phi3},
      {"phimoe", half, Phi3, 1000000},
      {"plamo", half},
      {"plm", inter, Mla, 0},
      {"qwen", half, Qwen1},
      {"qwen2", half},
      {"qwen2_5_omni_text", half, ChunkedMrope, 1000000},
      {"qwen2_5_vl", half, ChunkedMrope, 1000000},
      {"qwen2_5_vl_text", half, ChunkedMrope, 1000000},
      {"qwen2_moe", half},
      {"qwen2_vl", half, ChunkedMrope, 1000000},
      {"qwen2_vl_text", half, ChunkedMrope, 1000000},
      {"qwen3", half, Plain, 10000, 1, 128},
      {"qwen3_5", half, HybridMrope, 0, 0.25, 256},
      {"qwen3_5_moe", half, HybridMrope, 0, 0.25, 256},
      {"qwen3_5_moe_text", half, HybridMrope, 0, 0.25, 256},
      {"qwen3_5_text", half, HybridMrope, 0, 0.25, 256},
      {"qwen3_moe", half},
      {"qwen3_next", half, Hybrid, 10000, 0.25, 256},
      {"qwen3_omni_moe_text", half, InterleavedMrope, 0},
      {"qwen3_vl", half, InterleavedMrope, 0, 1, 128},
      {"qwen3_vl_moe", half, InterleavedMrope, 0, 1, 128},
      {"qwen3_vl_moe_text", half, InterleavedMrope, 0, 1, 128},
      {"qwen3_vl_text", half, InterleavedMrope, 0, 1, 128},
      {"qwen4_exp_text", half, HybridMrope, 0, 1, 256},
      {"RefinedWeb", half},
      {"RefinedWebModel", half},
      {"rnd1", half, Plain, 0},
      {"roformer", inter},
      {"seed_oss", half, Plain, 10000, 1, 128},
      {"skywork", half},
      {"smallthinker", half, NoRopeLayers, 0},
      {"smollm3", half, NoRopeLayers, 2000000},
      {"solar", half},
      {"solar_open", half, Plain, 1000000, 1, 128},
      {"stablelm", half, Plain, 10000, 0.25},
      {"stablelm_epoch", half, Plain, 10000, 0.25},
      {"starcoder2", half},
      {"step3p5", half, Step35},
      {"telechat", half},
      {"telechat2", half},
      {"telechat3", half, Plain, 0},
      {"transformer", half, Fla},
      {"vaultgemma", half, Plain, 10000, 1, 256, QueryScalar},
      {"xverse", half},
      {"Yi", half, Plain, 0},
      {"youtu", inter, Mla},
      {"youtu_llm", inter, Mla},
      {"zamba2", half, GraniteHybrid, 10000, 1, 0, HalfOfHeadDim},
  });
}();

/// The entry of a model_type, or nullptr.
inline const HfModelType* find_hf_model_type(std::string_view name) {
  const auto at = std::find_if(hf_model_types.begin(), hf_model_types.end(),
                               [name](const HfModelType& type) { return type.name == name; });
  return at == hf_model_types.end() ? nullptr : &*at;
}

}  // namespace detail
POSENC_END
