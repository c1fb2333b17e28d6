// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/names.hpp>

#include <array>

// Architectures of llama.cpp that are known and not read, and what they have instead.
POSENC_BEGIN
namespace detail {

inline constexpr auto gguf_refused_architectures = std::to_array<RefusedModel>({
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
     .has = "a base of its own for layers of compressed keys, and an output that turns back",
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
