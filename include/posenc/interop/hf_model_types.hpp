// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/rotary/pairing.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

POSENC_BEGIN
namespace detail {

/// What sets the models of a type apart from plain rotary ones.
enum class HfFamily {
  Plain,
  NoRotary,      ///< learned positions, ALiBi, relative bias
  Mla,           ///< rotary channels last, of a width of their own; mscale enters the softmax scale
  Gemma3,        ///< and one rope for local layers, one for global ones
  Gemma4,        ///< global layers have wider heads
  ModernBert,    ///< one base for local layers, one for global ones
  Olmo3,         ///< scaling applies to global layers alone
  Cohere2,       ///< global layers have no rotary encoding
  Exaone4,       ///< nor here, if there are local ones
  NoRopeLayers,  ///< a list or an interval tells which layers have none
  ChatGlm,       ///< two dimensions, or half of the head
  ChunkedMrope,  ///< mrope_section in chunks
  InterleavedMrope,  ///< mrope_section in turn
  ErnieVl,           ///< mrope_section is h, w, t
  GptJ,              ///< the width of the rotary part must be given
  Phi3               ///< "yarn" is LongRoPE
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
};

inline constexpr std::array hf_model_types = [] {
  using enum HfFamily;
  constexpr auto half = PairingKind::HalfRotate, inter = PairingKind::Interleaved;
  return std::to_array<HfModelType>({
      {"apertus", half, Plain, 0},
      {"arcee", half},
      {"bert", half, NoRotary},
      {"bloom", half, NoRotary},
      {"chatglm", inter, ChatGlm},
      {"codegen", inter, GptJ},
      {"cohere", inter},
      {"cohere2", inter, Cohere2},
      {"deepseek_v2", inter, Mla},
      {"deepseek_v3", inter, Mla},
      {"ernie4_5", inter, Plain, 0},
      {"ernie4_5_moe", inter, Plain, 0},
      {"ernie4_5_moe_vl", inter, ErnieVl, 0},
      {"ernie4_5_vl_moe", inter, ErnieVl, 0},
      {"ernie4_5_vl_moe_text", inter, ErnieVl, 0},
      {"esm", half},
      {"exaone4", half, Exaone4, 0},
      {"falcon", half},
      {"gemma", half, Plain, 10000, 1, 256},
      {"gemma2", half, Plain, 10000, 1, 256},
      {"gemma3", half, Gemma3, 1000000, 1, 256},
      {"gemma3_text", half, Gemma3, 1000000, 1, 256},
      {"gemma3n", half, Gemma3, 1000000, 1, 256},
      {"gemma3n_text", half, Gemma3, 1000000, 1, 256},
      {"gemma4", half, Gemma4, 0, 1, 256},
      {"gemma4_text", half, Gemma4, 0, 1, 256},
      {"glm", inter, Plain, 10000, 0.5, 128},
      {"glm4", inter, Plain, 10000, 0.5, 128},
      {"glm4_moe", half, Plain, 10000, 0.5},
      {"gpt2", half, NoRotary},
      {"gpt_bigcode", half, NoRotary},
      {"gpt_neox", half, Plain, 10000, 0.25},
      {"gpt_oss", half, Plain, 150000, 1, 64},
      {"gptj", inter, GptJ},
      {"granite", half},
      {"granitemoe", half},
      {"helium", inter, Plain, 0, 1, 128},
      {"hunyuan_v1_dense", half},
      {"hunyuan_v1_moe", half},
      {"hunyuan_vl", half},
      {"hunyuan_vl_text", half},
      {"internlm2", half, Plain, 0},
      {"kimi_k2", inter, Mla, 0},
      {"llama", half},
      {"llama4", inter, NoRopeLayers, 500000, 1, 128},
      {"llama4_text", inter, NoRopeLayers, 500000, 1, 128},
      {"minicpm", half},
      {"minicpm3", half, Mla},
      {"ministral", half, Plain, 0},
      {"ministral3", half, Plain, 0},
      {"mistral", half},
      {"mistral3", half, Plain, 0},
      {"mixtral", half, Plain, 0},
      {"mllama", half, Plain, 0},
      {"mllama_text_model", half, Plain, 0},
      {"modernbert", half, ModernBert},
      {"mpt", half, NoRotary},
      {"nemotron", half, Plain, 10000, 0.5},
      {"olmo", half},
      {"olmo2", half},
      {"olmo3", half, Olmo3},
      {"olmoe", half},
      {"opt", half, NoRotary},
      {"persimmon", half, Plain, 25000, 0.5},
      {"phi", half, Plain, 10000, 0.5},
      {"phi3", half, Phi3},
      {"phi3_v", half, Phi3},
      {"phimoe", half, Phi3, 0},
      {"qwen2", half},
      {"qwen2_5_vl", half, ChunkedMrope, 1000000},
      {"qwen2_5_vl_text", half, ChunkedMrope, 1000000},
      {"qwen2_moe", half},
      {"qwen2_vl", half, ChunkedMrope, 1000000},
      {"qwen2_vl_text", half, ChunkedMrope, 1000000},
      {"qwen3", half, Plain, 10000, 1, 128},
      {"qwen3_5", half, InterleavedMrope, 0},
      {"qwen3_5_moe", half, InterleavedMrope, 0},
      {"qwen3_5_moe_text", half, InterleavedMrope, 0},
      {"qwen3_5_text", half, InterleavedMrope, 0},
      {"qwen3_moe", half},
      {"qwen3_next", half, Plain, 10000, 0.25, 256},
      {"qwen3_vl", half, InterleavedMrope, 0, 1, 128},
      {"qwen3_vl_moe", half, InterleavedMrope, 0, 1, 128},
      {"qwen3_vl_moe_text", half, InterleavedMrope, 0, 1, 128},
      {"qwen3_vl_text", half, InterleavedMrope, 0, 1, 128},
      {"roberta", half, NoRotary},
      {"roformer", inter},
      {"seed_oss", half, Plain, 0, 1, 128},
      {"smollm3", half, NoRopeLayers, 2000000},
      {"stablelm", half, Plain, 10000, 0.25},
      {"starcoder2", half},
      {"t5", half, NoRotary},
      {"umt5", half, NoRotary},
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
