// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <utility>

// Head shapes of some models.
namespace bench {

using posenc::Index;

struct Llama3 {
  static constexpr const char* name = "llama3_8b";
  static constexpr Index heads = 32, kv_heads = 8, head_dim = 128, rotary_dim = 128;
  static constexpr double base = 500000;
};

struct Qwen2 {
  static constexpr const char* name = "qwen2_7b";
  static constexpr Index heads = 28, kv_heads = 4, head_dim = 128, rotary_dim = 128;
  static constexpr double base = 1000000;
};

struct GptNeox {
  static constexpr const char* name = "gpt_neox_20b";
  static constexpr Index heads = 64, kv_heads = 64, head_dim = 96, rotary_dim = 24;
  static constexpr double base = 10000;
};

struct GptJ {
  static constexpr const char* name = "gptj_6b";
  static constexpr Index heads = 16, kv_heads = 16, head_dim = 256, rotary_dim = 64;
  static constexpr double base = 10000;
};

/// Phases of a model: one token, or a prompt of a given length.
constexpr std::pair<const char*, Index> phases[] = {
    {"decode", 1}, {"prefill_16", 16}, {"prefill_512", 512}, {"prefill_4096", 4096}};

}  // namespace bench
