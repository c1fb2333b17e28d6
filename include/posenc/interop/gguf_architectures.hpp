// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <algorithm>
#include <array>
#include <string_view>

POSENC_BEGIN
namespace detail {

/// ggml's modes of rotation; a GGUF file does not tell which, its architecture implies it.
enum class GgufMode {
  None,           ///< no rotary encoding
  Normal,         ///< Interleaved
  Neox,           ///< HalfRotate
  Mrope,          ///< HalfRotate, sections in chunks where the file has any
  Imrope,         ///< HalfRotate, sections in turn
  NormalOrMrope,  ///< Mrope where the file has sections
  NeoxOrMrope
};

/// What sets an architecture apart from plain ones.
enum class GgufFamily {
  Plain,
  Mla,       ///< rotary channels last in a head
  DeepSeek,  ///< as well; yarn_log_multiplier is mscale_all_dim / 10 and enters the softmax scale
  Mistral3,  ///< yarn_log_multiplier is mscale_all_dim, and the softmax scale knows nothing of it
  GptOss,    ///< trained without rounding YaRN's ramp, which GGUF cannot say and llama.cpp does
  LocalUnscaled,  ///< scaling applies to global layers alone
  Olmo2           ///< as well; attn_factor may be the final factor
};

struct GgufArchitecture {
  std::string_view name;
  GgufMode mode;
  GgufFamily family = GgufFamily::Plain;
  Index local_period = 0;    ///< every local_period-th layer is global where the file does not tell
  double local_base = 0;     ///< where the file does not tell; 0: the base of the global layers
  Index no_rope_period = 0;  ///< every no_rope_period-th layer has no rotary encoding
};

/// From llama.cpp's llama_model_rope_type() and the loaders of its models.
inline constexpr std::array gguf_architectures = [] {
  using enum GgufMode;
  using enum GgufFamily;
  return std::to_array<GgufArchitecture>({
      {"apertus", Neox},
      {"arcee", Normal},
      {"arctic", Normal},
      {"baichuan", Normal},
      {"bailingmoe", Normal},
      {"bailingmoe2", Neox},
      {"bert", None},
      {"bitnet", Neox},
      {"bloom", None},
      {"chameleon", Normal},
      {"chatglm", Normal},
      {"codeshell", Neox},
      {"cogvlm", Neox},
      {"cohere2", Normal, Plain, 0, 0, 4},
      {"command-r", Normal},
      {"dbrx", Neox},
      {"deci", Normal},
      {"deepseek", Normal},
      {"deepseek2", Normal, DeepSeek},
      {"deepseek2-ocr", Normal, DeepSeek},
      {"deepseek32", Normal, DeepSeek},
      {"dots1", Neox},
      {"dream", Neox},
      {"ernie4_5", Normal},
      {"ernie4_5-moe", Normal},
      {"eurobert", Neox},
      {"exaone", Neox},
      {"falcon", Neox},
      {"falcon-h1", Neox},
      {"gemma", Neox},
      {"gemma-embedding", Neox, LocalUnscaled, 6, 10000},
      {"gemma2", Neox},
      {"gemma3", Neox, LocalUnscaled, 6, 10000},
      {"gemma3n", Neox, LocalUnscaled, 5, 10000},
      {"gemma4", Neox, LocalUnscaled, 6, 10000},
      {"glm-dsa", Normal, DeepSeek},
      {"glm4", NormalOrMrope},
      {"glm4moe", NeoxOrMrope},
      {"gpt-oss", Neox, GptOss},
      {"gpt2", None},
      {"gptneox", Neox},
      {"granite", Normal},
      {"granitemoe", Normal},
      {"grok", Neox},
      {"grovemoe", Neox},
      {"hunyuan-dense", Neox},
      {"hunyuan-moe", Neox},
      {"internlm2", Normal},
      {"jais", None},
      {"jais2", Neox},
      {"jina-bert-v2", None},
      {"jina-bert-v3", Neox},
      {"lfm2", Neox},
      {"lfm2moe", Neox},
      {"llada", Normal},
      {"llada-moe", Neox},
      {"llama", Normal},
      {"llama4", Normal, Plain, 0, 0, 4},
      {"mamba", None},
      {"mamba2", None},
      {"minicpm", Normal},
      {"minicpm3", Neox, Mla},
      {"minimax-m2", Neox},
      {"mistral3", Normal, Mistral3},
      {"mistral4", Normal, DeepSeek},
      {"mpt", None},
      {"nemotron", Neox},
      {"neo-bert", Normal},
      {"nomic-bert", Neox},
      {"nomic-bert-moe", Neox},
      {"olmo", Normal},
      {"olmo2", Neox, Olmo2, 4},
      {"olmoe", Neox},
      {"openelm", Neox},
      {"orion", Neox},
      {"phi2", Neox},
      {"phi3", Neox},
      {"phimoe", Neox},
      {"plamo", Neox},
      {"plm", Normal, Mla},
      {"qwen", Neox},
      {"qwen2", Neox},
      {"qwen2moe", Neox},
      {"qwen2vl", Mrope},
      {"qwen3", Neox},
      {"qwen35", Imrope},
      {"qwen35moe", Imrope},
      {"qwen3moe", Neox},
      {"qwen3next", Neox},
      {"qwen3vl", Imrope},
      {"qwen3vlmoe", Imrope},
      {"refact", None},
      {"rwkv6", None},
      {"rwkv7", None},
      {"seed_oss", Neox},
      {"smollm3", Normal, Plain, 0, 0, 4},
      {"stablelm", Neox},
      {"starcoder", None},
      {"starcoder2", Neox},
      {"t5", None},
      {"t5encoder", None},
      {"xverse", Normal},
  });
}();

/// The entry of an architecture, or nullptr.
inline const GgufArchitecture* find_gguf_architecture(std::string_view name) {
  const auto at = std::find_if(
      gguf_architectures.begin(), gguf_architectures.end(),
      [name](const GgufArchitecture& architecture) { return architecture.name == name; });
  return at == gguf_architectures.end() ? nullptr : &*at;
}

}  // namespace detail
POSENC_END
