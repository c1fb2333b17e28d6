// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/names.hpp>
#include <posenc/interop/vision_settings.hpp>

#include <array>
#include <optional>
#include <string_view>

// Vision towers of Hugging Face: supported ones with the defaults of their classes in transformers
// 5.24.0, with which tests/oracles/transformers compares them, and known unsupported ones.
POSENC_BEGIN
namespace detail {

/// Table of learned positions that a tower adds to its patches.
enum class HfPatchTable {
  None,
  OneSize,   ///< for images of image_size
  Square,    ///< an entry per patch of a square, resized for each image
  SumOfAxes  ///< a table per axis
};

struct HfVisionType {
  std::string_view names;  ///< model_type of vision_config; a suffix "_vision" may follow
  // Defaults of the class.
  struct {
    Index layers, width, heads, patch_size;
    Index head_dim = 0;  ///< for classes that read head_dim and KV heads; 0: width / heads
  } sizes;
  const char* width_key = "hidden_size";
  bool has_merge_blocks = false;  ///< with keys depth and num_heads instead of the usual names
  bool has_windows = false;
  struct {
    HfPatchTable form = HfPatchTable::None;
    Index size = 0;             ///< of images, or number of entries
    const char* key = nullptr;  ///< key of the size
    ClassToken class_token = ClassToken::None;
  } table = {};
  std::optional<VisionRotaryForm> rotary = std::nullopt;
  double base = 10000;       ///< default
  double softmax_scale = 0;  ///< 0: head_dim^-1/2
};

inline constexpr std::array hf_vision_types = [] {
  using enum HfPatchTable;
  constexpr auto image = "image_size";
  constexpr auto first = ClassToken::First, last = ClassToken::Last;
  constexpr auto merged = VisionRotaryForm::Qwen2Vl;
  return std::to_array<HfVisionType>({
      {.names = "clip_vision_model",
       .sizes = {12, 768, 12, 32},
       .table = {OneSize, 224, image, first}},
      {.names = "gemma4_vision",
       .sizes = {16, 768, 12, 16, 64},
       .table = {SumOfAxes, 10240, "position_embedding_size"},
       .rotary = VisionRotaryForm::Gemma4,
       .base = 100,
       .softmax_scale = 1},
      {.names = "intern_vit_6b",
       .sizes = {48, 3200, 25, 14},
       .table = {OneSize, 224, image, first}},
      {.names = "internvl_vision",
       .sizes = {24, 1024, 16, 14},
       .table = {OneSize, 448, image, first}},
      {.names = "llama4_vision_model",
       .sizes = {34, 768, 16, 14},
       .table = {OneSize, 448, image, last},
       .rotary = VisionRotaryForm::Llama4},
      {.names = "pixtral", .sizes = {24, 1024, 16, 16}, .rotary = VisionRotaryForm::Pixtral},
      {.names = "qwen2_5_omni_vision_encoder qwen2_5_vl",
       .sizes = {32, 3584, 16, 14},
       .has_merge_blocks = true,
       .has_windows = true,
       .rotary = merged},
      // Here hidden_size is the width of the text model.
      {.names = "qwen2_vl",
       .sizes = {32, 1280, 16, 14},
       .width_key = "embed_dim",
       .has_merge_blocks = true,
       .rotary = merged},
      {.names = "qwen3_5 qwen3_5_moe qwen3_omni_moe_vision_encoder qwen3_vl qwen3_vl_moe qwen4_exp",
       .sizes = {27, 1152, 16, 16},
       .has_merge_blocks = true,
       .table = {Square, 2304, "num_position_embeddings"},
       .rotary = merged},
      {.names = "siglip2_vision_model",
       .sizes = {12, 768, 12, 16},
       .table = {Square, 256, "num_patches"}},
      {.names = "siglip_vision_model", .sizes = {12, 768, 12, 16}, .table = {OneSize, 224, image}},
  });
}();

inline constexpr auto hf_unsupported_towers = std::to_array<UnsupportedModel>({
    {.names = "kimi_k25 kimi_k3 kimi_vl moonvit",
     .has = "learned positions of rows, columns and frames, and a rotation by both axes in turn"},
    {.names = "mllama_vision_model",
     .has = "learned positions of patches and of tiles, mixed by a gate"},
    {.names = "vision", .has = "the name of another project's model in place of its settings"},
});

/// Returns the row of a model_type, or nullptr.
POSENC_COLD inline const HfVisionType* find_hf_vision_type(std::string_view name) {
  constexpr std::string_view suffix = "_vision";
  if (const HfVisionType* found = find_row(hf_vision_types, name)) return found;
  const bool has_suffix =
      name.size() > suffix.size() && name.substr(name.size() - suffix.size()) == suffix;
  return has_suffix ? find_row(hf_vision_types, name.substr(0, name.size() - suffix.size()))
                    : nullptr;
}

}  // namespace detail
POSENC_END
