// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/vision_settings.hpp>

#include <algorithm>
#include <array>
#include <string_view>

// Vision towers of Hugging Face: those that are read, with the defaults of their classes, and those that
// are known and not read.
POSENC_BEGIN
namespace detail {

/// How a tower's patches know their places.
enum class HfTower {
  Table,     ///< a table for pictures of one size
  Siglip2,   ///< a table that is resized for each picture
  Qwen2Vl,   ///< rotation in merge blocks
  Qwen25Vl,  ///< and windows
  Qwen3Vl,   ///< and a table that is resized for each picture
  Llama4,    ///< rotation and a table for pictures of one size
  Pixtral,   ///< rotation
  Gemma4     ///< rotation, and a table for each axis
};

struct HfVisionType {
  std::string_view name;  ///< model_type of vision_config; there it may end in "_vision" as well
  HfTower tower;
  // What the class has for what the file leaves out.
  Index layers, width, heads;
  Index patch_size, image_size = 0;
  ClassToken class_token = ClassToken::None;
};

inline constexpr std::array hf_vision_types = [] {
  using enum HfTower;
  return std::to_array<HfVisionType>({
      {"clip_vision_model", Table, 12, 768, 12, 32, 224, ClassToken::First},
      {"gemma4_vision", Gemma4, 16, 768, 12, 16},
      {"intern_vit_6b", Table, 48, 3200, 25, 14, 224, ClassToken::First},
      {"internvl_vision", Table, 24, 1024, 16, 14, 448, ClassToken::First},
      {"llama4_vision_model", Llama4, 34, 768, 16, 14, 448, ClassToken::Last},
      {"pixtral", Pixtral, 24, 1024, 16, 16, 1024},
      {"qwen2_5_omni_vision_encoder", Qwen25Vl, 32, 3584, 16, 14},
      {"qwen2_5_vl", Qwen25Vl, 32, 3584, 16, 14},
      {"qwen2_vl", Qwen2Vl, 32, 1280, 16, 14},
      {"qwen3_5", Qwen3Vl, 27, 1152, 16, 16},
      {"qwen3_5_moe", Qwen3Vl, 27, 1152, 16, 16},
      {"qwen3_omni_moe_vision_encoder", Qwen3Vl, 27, 1152, 16, 16},
      {"qwen3_vl", Qwen3Vl, 27, 1152, 16, 16},
      {"qwen3_vl_moe", Qwen3Vl, 27, 1152, 16, 16},
      {"qwen4_exp", Qwen3Vl, 27, 1152, 16, 16},
      {"siglip2_vision_model", Siglip2, 12, 768, 12, 16},
      {"siglip_vision_model", Table, 12, 768, 12, 16, 224},
  });
}();

struct HfRefusedTower {
  std::string_view name;
  std::string_view has;
};

inline constexpr std::array hf_refused_towers = [] {
  constexpr auto moon =
      "learned positions of rows, columns and frames, and a rotation by both axes in turn";
  return std::to_array<HfRefusedTower>({
      {"kimi_k25", moon},
      {"kimi_k3", moon},
      {"kimi_vl", moon},
      {"mllama_vision_model", "learned positions of patches and of tiles, mixed by a gate"},
      {"moonvit", moon},
      {"vision", "the name of another project's model in place of its settings"},
  });
}();

/// The entry of a model_type, or nullptr.
inline const HfVisionType* find_hf_vision_type(std::string_view name) {
  constexpr std::string_view suffix = "_vision";
  const auto find = [](std::string_view wanted) {
    const auto at =
        std::find_if(hf_vision_types.begin(), hf_vision_types.end(),
                     [wanted](const HfVisionType& type) { return type.name == wanted; });
    return at == hf_vision_types.end() ? nullptr : &*at;
  };
  if (const HfVisionType* found = find(name)) return found;
  const bool has_suffix =
      name.size() > suffix.size() && name.substr(name.size() - suffix.size()) == suffix;
  return has_suffix ? find(name.substr(0, name.size() - suffix.size())) : nullptr;
}

inline const HfRefusedTower* find_hf_refused_tower(std::string_view name) {
  const auto at = std::find_if(hf_refused_towers.begin(), hf_refused_towers.end(),
                               [name](const HfRefusedTower& type) { return type.name == name; });
  return at == hf_refused_towers.end() ? nullptr : &*at;
}

}  // namespace detail
POSENC_END
