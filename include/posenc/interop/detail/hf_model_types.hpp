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
  NoRotary,      ///< learned positions, ALiBi, relative bias, or none at all
  Unsupported,   ///< turns queries and keys in a way that is not read, whatever the pairing
  Mla,           ///< rotary channels last, of a width of their own; mscale enters the softmax scale
  Gemma3,        ///< one rope for local layers, one for global ones
  Gemma3n,       ///< and every fifth layer global
  Gemma4,        ///< global layers have wider heads
  ModernBert,    ///< one base for local layers, one for global ones
  Olmo3,         ///< scaling applies to global layers alone
  Cohere2,       ///< global layers have no rotary encoding
  Exaone4,       ///< nor here, if there are local ones
  NoRopeLayers,  ///< a list or an interval tells which layers have none
  Mllama,        ///< a list tells which layers attend to images, without rotary encoding
  Lfm2,          ///< most layers are convolutions
  ChatGlm,       ///< two dimensions, or half of the head
  ChunkedMrope,  ///< mrope_section in chunks
  InterleavedMrope,  ///< mrope_section in turn
  Hybrid,            ///< most layers have linear attention
  HybridMrope,       ///< the same with mrope_section in turn
  ErnieVl,           ///< mrope_section is h, w, t
  GptJ,              ///< the width of the rotary part must be given
  Baichuan,          ///< the model of 7B; that of 13B has ALiBi
  Phi3               ///< "yarn" is LongRoPE
};

/// What scores are multiplied with.
enum class HfScores {
  HeadDim,      ///< head_dim^-1/2
  One,          ///< 1: queries and keys are normalized
  QueryScalar,  ///< query_pre_attn_scalar^-1/2, by default 1/16
  Multiplier    ///< attention_multiplier, by default 1
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
      {"albert", half, NoRotary},
      {"apertus", half, Plain, 0},
      {"arcee", half},
      {"baichuan", half, Baichuan},
      {"bamba", half, Unsupported},
      {"bart", half, NoRotary},
      {"bert", half, NoRotary},
      {"bloom", half, NoRotary},
      {"chatglm", inter, ChatGlm},
      {"codegen", inter, GptJ},
      {"cohere", inter},
      {"cohere2", inter, Cohere2},
      {"dbrx", half, Unsupported},
      {"deberta", half, NoRotary},
      {"deberta-v2", half, NoRotary},
      {"deepseek_v2", inter, Mla},
      {"deepseek_v3", inter, Mla},
      {"deepseek_v32", inter, Mla},
      {"deepseek_v4", half, Unsupported},
      {"dinov3_vit", half, Unsupported},
      {"distilbert", half, NoRotary},
      {"electra", half, NoRotary},
      {"ernie4_5", inter, Plain, 0},
      {"ernie4_5_moe", inter, Plain, 0},
      {"ernie4_5_moe_vl", inter, ErnieVl, 0},
      {"ernie4_5_vl_moe", inter, ErnieVl, 0},
      {"ernie4_5_vl_moe_text", inter, ErnieVl, 0},
      {"esm", half},
      {"exaone", half, Plain, 0},
      {"exaone4", half, Exaone4, 0},
      {"falcon", half},
      {"falcon_h1", half, Unsupported},
      {"gemma", half, Plain, 10000, 1, 256},
      {"gemma2", half, Plain, 10000, 1, 256, QueryScalar},
      {"gemma3", half, Gemma3, 1000000, 1, 256, QueryScalar},
      {"gemma3_text", half, Gemma3, 1000000, 1, 256, QueryScalar},
      {"gemma3n", half, Gemma3n, 1000000, 1, 256, One},
      {"gemma3n_text", half, Gemma3n, 1000000, 1, 256, One},
      {"gemma4", half, Gemma4, 0, 1, 256, One},
      {"gemma4_text", half, Gemma4, 0, 1, 256, One},
      {"gla", half, NoRotary},
      {"glm", inter, Plain, 10000, 0.5, 128},
      {"glm4", inter, Plain, 10000, 0.5, 128},
      {"glm4_moe", half, Plain, 10000, 0.5},
      {"glm_moe_dsa", inter, Mla, 0},
      {"gpt2", half, NoRotary},
      {"gpt_bigcode", half, NoRotary},
      {"gpt_neo", half, NoRotary},
      {"gpt_neox", half, Plain, 10000, 0.25},
      {"gpt_oss", half, Plain, 150000, 1, 64},
      {"gptj", inter, GptJ},
      {"granite", half, Plain, 10000, 1, 0, Multiplier},
      {"granitemoe", half, Plain, 10000, 1, 0, Multiplier},
      {"granitemoehybrid", half, Unsupported},
      {"granitemoeshared", half, Plain, 10000, 1, 0, Multiplier},
      {"helium", inter, Plain, 0, 1, 128},
      {"hunyuan_v1_dense", half},
      {"hunyuan_v1_moe", half},
      {"hunyuan_vl", half},
      {"hunyuan_vl_text", half},
      {"internlm2", half, Plain, 0},
      {"jamba", half, NoRotary},
      {"kimi_k2", inter, Mla, 0},
      {"kimi_linear", half, Unsupported},
      {"lfm2", half, Lfm2, 1000000},
      {"llama", half},
      {"llama4", inter, NoRopeLayers, 500000, 1, 128},
      {"llama4_text", inter, NoRopeLayers, 500000, 1, 128},
      {"longcat_flash", half, Unsupported},
      {"mamba", half, NoRotary},
      {"mamba2", half, NoRotary},
      {"mimo", half, Plain, 0},
      {"mimo_v2_flash", half, Unsupported},
      {"minicpm", half},
      {"minicpm3", half, Mla},
      {"minimax", half, Unsupported},
      {"minimax_m2", half, GptJ, 0},
      {"minimax_text_01", half, Unsupported},
      {"ministral", half, Plain, 0},
      {"ministral3", half, Plain, 0},
      {"mistral", half},
      {"mistral3", half, Plain, 0},
      {"mistral4", half, Unsupported},
      {"mixtral", half, Plain, 0},
      {"mllama", half, Mllama, 0},
      {"mllama_text_model", half, Mllama, 0},
      {"modernbert", half, ModernBert},
      {"mpt", half, NoRotary},
      {"nemotron", half, Plain, 10000, 0.5},
      {"nemotron_h", half, NoRotary},
      {"olmo", half},
      {"olmo2", half},
      {"olmo3", half, Olmo3},
      {"olmoe", half},
      {"opt", half, NoRotary},
      {"persimmon", half, Plain, 25000, 0.5},
      {"phi", half, Plain, 10000, 0.5},
      {"phi3", half, Phi3},
      {"phi3_v", half, Phi3},
      {"phi3small", half, Unsupported},
      {"phimoe", half, Phi3, 0},
      {"pixtral", half, Unsupported},
      {"qwen", half, Unsupported},
      {"qwen2", half},
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
      {"qwen3_vl", half, InterleavedMrope, 0, 1, 128},
      {"qwen3_vl_moe", half, InterleavedMrope, 0, 1, 128},
      {"qwen3_vl_moe_text", half, InterleavedMrope, 0, 1, 128},
      {"qwen3_vl_text", half, InterleavedMrope, 0, 1, 128},
      {"recurrent_gemma", half, Unsupported},
      {"retnet", half, NoRotary},
      {"roberta", half, NoRotary},
      {"roformer", inter},
      {"rwkv", half, NoRotary},
      {"seed_oss", half, Plain, 0, 1, 128},
      {"smollm3", half, NoRopeLayers, 2000000},
      {"stablelm", half, Plain, 10000, 0.25},
      {"starcoder2", half},
      {"step3p5", half, Unsupported},
      {"t5", half, NoRotary},
      {"umt5", half, NoRotary},
      {"vit", half, NoRotary},
      {"whisper", half, NoRotary},
      {"xlm-roberta", half, NoRotary},
      {"zamba2", half, Unsupported},
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
