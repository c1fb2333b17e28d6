// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <array>

/// Bases and rotary dimensions of published models, and positions that occur or may occur with
/// them.
namespace presets {

struct Preset {
  const char* model;
  double base;
  posenc::Index rotary_dim;
};

inline constexpr std::array all{
    Preset{"Llama-2, Mistral", 10000, 128},
    Preset{"GPT-J, ChatGLM half", 10000, 64},
    Preset{"GPT-NeoX-20B", 10000, 24},
    Preset{"Qwen2-VL vision", 10000, 80},
    Preset{"Phi-3", 10000, 96},
    Preset{"Gemma-2", 10000, 256},
    Preset{"gpt-oss", 150000, 64},
    Preset{"Llama-3", 500000, 128},
    Preset{"Llama-3.2-1B", 500000, 64},
    Preset{"Qwen2.5, Code Llama", 1000000, 128},
    Preset{"Gemma-3 global", 1000000, 256},
    Preset{"Qwen3-VL", 5000000, 128},
};

inline constexpr std::array positions{0.0,        1.0, 4095.0, 131071.0, 1048575.0,
                                      0x1p24 + 1, 1e9, 0x1p40, -1.0,     -4095.0,
                                      -0x1p40,    0.5, -7.25,  1e-9,     1e6 + 1.0 / 3};

}  // namespace presets
