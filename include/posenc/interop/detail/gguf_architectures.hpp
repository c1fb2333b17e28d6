// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/gguf_architecture.hpp>
#include <posenc/interop/detail/names.hpp>

#include <array>

// Supported architectures of llama.cpp, and known unsupported ones.
POSENC_BEGIN
namespace detail {

/// Rows of supported architectures.
///   Source: llama.cpp's llama_model_rope_type() and the loaders of its models;
///           src/models/deepseek2.cpp for deepseek2-ocr, whose graph has its own mode
inline constexpr std::array gguf_architectures = [] {
  using enum GgufMode;
  using LogMultiplier = GgufLogMultiplier;
  using Local = GgufLocal;
  using Temperature = GgufTemperature;
  using Nope = GgufNopeLayers;
  return std::to_array<GgufArchitecture>({
      {.names = "apertus bailingmoe2 bitnet codeshell dbrx deepseek2-ocr dots1 dream eurobert "
                "exaone falcon gemma gptneox grovemoe hunyuan-dense hunyuan-moe hy_v3 jais2 "
                "jina-bert-v3 llada-moe minimax-m2 nemotron nomic-bert nomic-bert-moe olmoe "
                "openelm orion pangu-embedded phi2 phi3 phimoe plamo qwen qwen2 qwen2moe qwen3 "
                "qwen3moe rnd1 seed_oss stablelm starcoder2",
       .mode = Neox},
      {.names =
           "arcee arctic bailingmoe chameleon chatglm command-r deci deepseek ernie4_5 "
           "ernie4_5-moe internlm2 llada llama llama-embed maincoder minicpm neo-bert olmo xverse",
       .mode = Normal},
      {.names = "glm4", .mode = NormalOrMrope},
      {.names = "glm4moe", .mode = NeoxOrMrope},
      {.names = "paddleocr qwen2vl", .mode = Mrope},
      {.names = "qwen3vl qwen3vlmoe", .mode = Imrope},
      {.names = "afmoe",
       .mode = Neox,
       .rope = {.nope_layers = Nope::EveryFourth},
       .windows = {.period = 4, .may_be_absent = true}},
      // Models of 40 layers (13B) have ALiBi.
      {.names = "baichuan", .mode = Normal, .rope = {.only_depth = 32}},
      {.names = "cogvlm", .mode = Neox, .rope = {.is_base_fixed = true}},
      {.names = "cohere2",
       .mode = Normal,
       .rope = {.nope_layers = Nope::GlobalLayers},
       .windows = {.period = 4}},
      {.names = "cohere2moe",
       .mode = Normal,
       .rope = {.ignores_local_base = true, .nope_layers = Nope::GlobalAfterDense},
       .windows = {.period = 4, .first_is_global = true}},
      {.names = "deepseek2",
       .mode = Normal,
       .rope = {.rotary_is_last = true, .log_multiplier = LogMultiplier::Tenth},
       .scores = {.temperature = Temperature::BeyondOwn}},
      {.names = "deepseek32 glm-dsa",
       .mode = Normal,
       .rope = {.rotary_is_last = true, .log_multiplier = LogMultiplier::TenthOfOne},
       .indexer = GgufIndexer::AllLayers},
      {.names = "exaone-moe",
       .mode = Neox,
       .rope = {.nope_layers = Nope::GlobalLayers},
       .windows = {.period = 4}},
      {.names = "exaone4",
       .mode = Neox,
       .rope = {.nope_layers = Nope::GlobalOf64},
       .windows = {.period = 4, .default_size = 4096}},
      {.names = "falcon-h1", .mode = Neox, .without_heads = LayerKind::Linear},
      {.names = "gemma-embedding",
       .mode = Neox,
       .rope = {.local = Local::Unscaled, .local_base = 10000},
       .windows = {.period = 6, .both_sides = true}},
      {.names = "gemma2",
       .mode = Neox,
       .windows = {.period = 2, .default_size = 4096},
       .scores = {.depth_of_largest = 46, .softcap = 50}},
      {.names = "gemma3",
       .mode = Neox,
       .rope = {.local = Local::Unscaled, .local_base = 10000},
       .windows = {.period = 6, .may_be_absent = true},
       .scores = {.depth_of_largest = 62}},
      {.names = "gemma3n",
       .mode = Neox,
       .rope = {.local = Local::Unscaled, .local_base = 10000},
       .windows = {.period = 5},
       .scores = {.scale = 1}},
      {.names = "gemma4",
       .mode = Neox,
       .rope = {.local = Local::Unscaled, .local_base = 10000},
       .windows = {.period = 6},
       .scores = {.scale = 1}},
      {.names = "gpt-oss",
       .mode = Neox,
       .rope = {.rounds_ramp = false},
       .windows = {.period = 2},
       .sinks = true},
      {.names = "granite granitemoe", .mode = Normal, .rope = {.finetuned_switches_rotary = true}},
      {.names = "granite_swa",
       .mode = Normal,
       .rope = {.ignores_local_base = true, .nope_layers = Nope::Listed},
       .windows = {.period = 4},
       .sinks = true},
      {.names = "granitehybrid",
       .mode = Normal,
       .rope = {.finetuned_switches_rotary = true},
       .without_heads = LayerKind::Linear},
      // 128^-1/2
      {.names = "grok",
       .mode = Neox,
       .scores = {.output_scale = 0.08838834764831845,
                  .softcap = 30,
                  .temperature = Temperature::LengthAlone}},
      {.names = "lfm2 lfm2moe", .mode = Neox, .without_heads = LayerKind::Convolution},
      {.names = "llama4",
       .mode = Normal,
       .rope = {.nope_layers = Nope::EveryFourth},
       .windows = {.period = 4, .chunk = 8192},
       .scores = {.temperature = Temperature::InCode}},
      {.names = "mellum",
       .mode = Neox,
       .rope = {.local = Local::Unscaled, .ignores_local_base = true},
       .windows = {.period = 4, .may_be_absent = true}},
      {.names = "minicpm3", .mode = Neox, .rope = {.rotary_is_last = true}},
      {.names = "mistral3",
       .mode = Normal,
       .rope = {.log_multiplier = LogMultiplier::Whole},
       .scores = {.temperature = Temperature::BeyondTrained}},
      {.names = "mistral4",
       .mode = Normal,
       .rope = {.rotary_is_last = true, .log_multiplier = LogMultiplier::TenthOfOne},
       .scores = {.temperature = Temperature::BeyondOwn}},
      {.names = "modern-bert",
       .mode = Neox,
       .rope = {.local = Local::Unknown, .local_base = 10000},
       .windows =
           {.period = 3, .first_is_global = true, .may_be_absent = true, .both_sides = true}},
      {.names = "olmo2",
       .mode = Neox,
       .rope = {.attn_factor_may_be_final = true, .local = Local::Unscaled},
       .windows = {.period = 4, .may_be_absent = true}},
      {.names = "plm", .mode = Normal, .rope = {.rotary_is_last = true}},
      {.names = "qwen35 qwen35moe", .mode = Imrope, .rope = {.nope_layers = Nope::LinearLayers}},
      {.names = "qwen3next", .mode = Neox, .rope = {.nope_layers = Nope::LinearLayers}},
      {.names = "qwen4exp",
       .mode = Imrope,
       .rope = {.nope_layers = Nope::LinearLayers},
       .indexer = GgufIndexer::ByRatio},
      {.names = "smallthinker",
       .mode = Neox,
       .rope = {.nope_layers = Nope::FirstOfFour},
       .windows = {.period = 4, .first_is_global = true, .may_be_absent = true}},
      {.names = "smollm3", .mode = Normal, .rope = {.nope_layers = Nope::EveryFourth}},
  });
}();

inline constexpr auto gguf_unsupported_architectures = std::to_array<UnsupportedModel>({
    {.names = "arwkv7 mamba mamba2 rwkv6 rwkv6qwen2 rwkv7",
     .has = "linear attention or a state space in place of attention"},
    {.names = "bert gpt2 starcoder", .has = "a table of learned positions"},
    {.names = "bloom jais jina-bert-v2 mpt refact", .has = "ALiBi"},
    {.names = "jamba nemotron_h nemotron_h_moe",
     .has = "state spaces, and attention without positions"},
    {.names = "kimi-linear", .has = "attention without positions between linear layers"},
    {.names = "t5 t5encoder", .has = "a bias for each distance"},
    {.names = "wavtokenizer-dec", .has = "convolutions in place of attention"},
    {.names = "bailingmoe3", .has = "linear layers between those of attention", .has_rotary = true},
    {.names = "clip", .has = "positions of patches on a grid", .has_rotary = true},
    {.names = "deepseek4",
     .has = "a base of its own for layers of compressed keys, and an output that is rotated back",
     .has_rotary = true},
    {.names = "dflash eagle3 gemma4-assistant",
     .has = "layers that draft tokens for another model",
     .has_rotary = true},
    {.names = "glm5-next kimi-k3 minimax-m3 plamo3 talkie",
     .has = "layers of a pattern that is not known well enough",
     .has_rotary = true},
    {.names = "gptj", .has = "pairs that llama.cpp never defined", .has_rotary = true},
    {.names = "hunyuan_vl",
     .has = "axes in an order that is not known well enough",
     .has_rotary = true},
    {.names = "laguna",
     .has = "a rotary width of its own for each sort of layers",
     .has_rotary = true},
    {.names = "mimo2", .has = "heads of its own in local layers", .has_rotary = true},
    {.names = "plamo2", .has = "state spaces between its layers of attention", .has_rotary = true},
    {.names = "step35",
     .has = "a base and a rotary width of its own for each layer",
     .has_rotary = true},
});

}  // namespace detail
POSENC_END
