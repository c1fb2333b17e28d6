// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <algorithm>
#include <array>
#include <string_view>

// Architectures of llama.cpp that are known and not read, and what they have instead.
POSENC_BEGIN
namespace detail {

struct GgufRefusedArchitecture {
  std::string_view name;
  bool has_rotary;       ///< in a form that is not read
  std::string_view has;  ///< what it has
};

inline constexpr std::array gguf_refused_architectures = [] {
  constexpr auto learned = "a table of learned positions";
  constexpr auto alibi = "ALiBi";
  constexpr auto buckets = "a bias for each distance";
  constexpr auto linear = "linear attention or a state space in place of attention";
  constexpr auto drafts = "layers that draft tokens for another model";
  return std::to_array<GgufRefusedArchitecture>({
      {"arwkv7", false, linear},
      {"bailingmoe3", true, "linear layers between those of attention"},
      {"bert", false, learned},
      {"bloom", false, alibi},
      {"clip", true, "positions of patches on a grid"},
      {"deepseek4", true,
       "a base of its own for layers of compressed keys, and an output that turns back"},
      {"dflash", true, drafts},
      {"eagle3", true, drafts},
      {"gemma4-assistant", true, drafts},
      {"glm5-next", true, "layers of a pattern that is not known well enough"},
      {"gpt2", false, learned},
      {"gptj", true, "pairs that llama.cpp never defined"},
      {"hunyuan_vl", true, "axes in an order that is not known well enough"},
      {"jais", false, alibi},
      {"jamba", false, "state spaces, and attention without positions"},
      {"jina-bert-v2", false, alibi},
      {"kimi-k3", true, "layers of a pattern that is not known well enough"},
      {"kimi-linear", false, "attention without positions between linear layers"},
      {"laguna", true, "a rotary width of its own for each sort of layers"},
      {"mamba", false, linear},
      {"mamba2", false, linear},
      {"mimo2", true, "heads of its own in local layers"},
      {"minimax-m3", true, "layers of a pattern that is not known well enough"},
      {"mpt", false, alibi},
      {"nemotron_h", false, "state spaces, and attention without positions"},
      {"nemotron_h_moe", false, "state spaces, and attention without positions"},
      {"plamo2", true, "state spaces between its layers of attention"},
      {"plamo3", true, "layers of a pattern that is not known well enough"},
      {"refact", false, alibi},
      {"rwkv6", false, linear},
      {"rwkv6qwen2", false, linear},
      {"rwkv7", false, linear},
      {"starcoder", false, learned},
      {"step35", true, "a base and a rotary width of its own for each layer"},
      {"t5", false, buckets},
      {"t5encoder", false, buckets},
      {"talkie", true, "layers of a pattern that is not known well enough"},
      {"wavtokenizer-dec", false, "convolutions in place of attention"},
  });
}();

/// The entry of an architecture, or nullptr.
inline const GgufRefusedArchitecture* find_gguf_refused_architecture(std::string_view name) {
  const auto at =
      std::find_if(gguf_refused_architectures.begin(), gguf_refused_architectures.end(),
                   [name](const GgufRefusedArchitecture& refused) { return refused.name == name; });
  return at == gguf_refused_architectures.end() ? nullptr : &*at;
}

}  // namespace detail
POSENC_END
