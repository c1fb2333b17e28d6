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
  Normal,         ///< Interleaved
  Neox,           ///< HalfRotate
  Mrope,          ///< HalfRotate, sections in chunks where the file has any
  Imrope,         ///< HalfRotate, sections in turn
  NormalOrMrope,  ///< Mrope where the file has sections
  NeoxOrMrope
};

/// What sets an architecture's rotation apart from plain ones.
enum class GgufFamily {
  Plain,
  Mla,       ///< rotary channels last in a head
  DeepSeek,  ///< as well; yarn_log_multiplier is mscale_all_dim / 10 and enters the softmax scale
  Mistral3,  ///< yarn_log_multiplier is mscale_all_dim, and the softmax scale knows nothing of it
  GptOss,    ///< trained without rounding YaRN's ramp, which GGUF cannot say and llama.cpp does
  LocalUnscaled,  ///< scaling applies to global layers alone
  Olmo2,          ///< as well; attn_factor may be the final factor
  ModernBert,     ///< local layers always have a base of their own
  Granite,        ///< rope.scaling.finetuned switches the rotation on and off
  GraniteSwa,     ///< sinks, lists of its layers, and one base for all of them
  Baichuan        ///< the number of layers tells rotary encoding from ALiBi
};

/// What an architecture does to scores, apart from head_dim^-1/2.
enum class GgufScores {
  Usual,
  One,            ///< the scale is 1
  Gemma2,         ///< a scale of its own in the largest model, and a softcap
  Gemma3,         ///< a scale of its own in the largest model
  Grok,           ///< a scale and a softcap of its own
  Llama4,         ///< a temperature in layers without rotary encoding
  Mistral3,       ///< a temperature that begins at the trained length
  MistralLarge3,  ///< a temperature that begins at a length of its own
};

/// Which layers have no rotary encoding, beside those that have no heads.
enum class GgufWithout {
  None,
  EveryFourth,
  GlobalLayers,      ///< those that see more than a window
  GlobalOf64,        ///< the same in models of 64 layers; others have no windows
  GlobalAfterDense,  ///< those that see more than a window, after leading_dense_block_count
  FirstOfFour,       ///< where there is a window
  LinearLayers,      ///< linear attention
  Listed             ///< by attention.rope_pattern, which says 0 of them
};

struct GgufArchitecture {
  std::string_view name;
  GgufMode mode;
  GgufFamily family = GgufFamily::Plain;
  GgufScores scores = GgufScores::Usual;
  GgufWithout without = GgufWithout::None;
  Index local_period = 0;  ///< every local_period-th layer is global where the file does not tell
  double local_base = 0;   ///< where the file does not tell; 0: the base of the global layers
  bool first_is_global = false;  ///< of each period, or else the last
  bool has_indexer = false;      ///< which chooses the keys of layers with a softmax
};

/// From llama.cpp's llama_model_rope_type() and the loaders of its models; that of deepseek2-ocr, whose
/// graph has a mode of its own, from src/models/deepseek2.cpp.
inline constexpr std::array gguf_architectures = [] {
  using enum GgufMode;
  using Family = GgufFamily;
  using Scores = GgufScores;
  using Without = GgufWithout;
  using Family::Baichuan, Family::DeepSeek, Family::GptOss, Family::Granite, Family::LocalUnscaled,
      Family::Mla, Family::Olmo2, Family::Plain;
  using Scores::Llama4, Scores::One, Scores::Usual;
  using Without::EveryFourth, Without::GlobalLayers, Without::LinearLayers;
  return std::to_array<GgufArchitecture>({
      {"afmoe", Neox, Plain, Usual, EveryFourth, 4},
      {"apertus", Neox},
      {"arcee", Normal},
      {"arctic", Normal},
      {"baichuan", Normal, Baichuan},
      {"bailingmoe", Normal},
      {"bailingmoe2", Neox},
      {"bitnet", Neox},
      {"chameleon", Normal},
      {"chatglm", Normal},
      {"codeshell", Neox},
      {"cogvlm", Neox},
      {"cohere2", Normal, Plain, Usual, GlobalLayers, 4},
      {"cohere2moe", Normal, Plain, Usual, Without::GlobalAfterDense, 4, 0, true},
      {"command-r", Normal},
      {"dbrx", Neox},
      {"deci", Normal},
      {"deepseek", Normal},
      {"deepseek2", Normal, DeepSeek, Scores::MistralLarge3},
      {"deepseek2-ocr", Neox},
      {"deepseek32", Normal, DeepSeek, Usual, Without::None, 0, 0, false, true},
      {"dots1", Neox},
      {"dream", Neox},
      {"ernie4_5", Normal},
      {"ernie4_5-moe", Normal},
      {"eurobert", Neox},
      {"exaone", Neox},
      {"exaone-moe", Neox, Plain, Usual, GlobalLayers, 4},
      {"exaone4", Neox, Plain, Usual, Without::GlobalOf64, 4},
      {"falcon", Neox},
      {"falcon-h1", Neox},
      {"gemma", Neox},
      {"gemma-embedding", Neox, LocalUnscaled, Usual, Without::None, 6, 10000},
      {"gemma2", Neox, Plain, Scores::Gemma2, Without::None, 2},
      {"gemma3", Neox, LocalUnscaled, Scores::Gemma3, Without::None, 6, 10000},
      {"gemma3n", Neox, LocalUnscaled, One, Without::None, 5, 10000},
      {"gemma4", Neox, LocalUnscaled, One, Without::None, 6, 10000},
      {"glm-dsa", Normal, DeepSeek, Usual, Without::None, 0, 0, false, true},
      {"glm4", NormalOrMrope},
      {"glm4moe", NeoxOrMrope},
      {"gpt-oss", Neox, GptOss, Usual, Without::None, 2},
      {"gptneox", Neox},
      {"granite", Normal, Granite},
      {"granite_swa", Normal, Family::GraniteSwa, Usual, Without::Listed, 4},
      {"granitehybrid", Normal, Granite},
      {"granitemoe", Normal, Granite},
      {"grok", Neox, Plain, Scores::Grok},
      {"grovemoe", Neox},
      {"hunyuan-dense", Neox},
      {"hunyuan-moe", Neox},
      {"hy_v3", Neox},
      {"internlm2", Normal},
      {"jais2", Neox},
      {"jina-bert-v3", Neox},
      {"lfm2", Neox},
      {"lfm2moe", Neox},
      {"llada", Normal},
      {"llada-moe", Neox},
      {"llama", Normal},
      {"llama-embed", Normal},
      {"llama4", Normal, Plain, Llama4, EveryFourth, 4},
      {"maincoder", Normal},
      {"mellum", Neox, LocalUnscaled, Usual, Without::None, 4},
      {"minicpm", Normal},
      {"minicpm3", Neox, Mla},
      {"minimax-m2", Neox},
      {"mistral3", Normal, Family::Mistral3, Scores::Mistral3},
      {"mistral4", Normal, DeepSeek, Scores::MistralLarge3},
      {"modern-bert", Neox, Family::ModernBert, Usual, Without::None, 3, 10000, true},
      {"nemotron", Neox},
      {"neo-bert", Normal},
      {"nomic-bert", Neox},
      {"nomic-bert-moe", Neox},
      {"olmo", Normal},
      {"olmo2", Neox, Olmo2, Usual, Without::None, 4},
      {"olmoe", Neox},
      {"openelm", Neox},
      {"orion", Neox},
      {"paddleocr", Mrope},
      {"pangu-embedded", Neox},
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
      {"qwen35", Imrope, Plain, Usual, LinearLayers},
      {"qwen35moe", Imrope, Plain, Usual, LinearLayers},
      {"qwen3moe", Neox},
      {"qwen3next", Neox, Plain, Usual, LinearLayers},
      {"qwen3vl", Imrope},
      {"qwen3vlmoe", Imrope},
      {"qwen4exp", Imrope, Plain, Usual, LinearLayers, 0, 0, false, true},
      {"rnd1", Neox},
      {"seed_oss", Neox},
      {"smallthinker", Neox, Plain, Usual, Without::FirstOfFour, 4, 0, true},
      {"smollm3", Normal, Plain, Usual, EveryFourth},
      {"stablelm", Neox},
      {"starcoder2", Neox},
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
