// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/diffusion_axes.hpp>
#include <posenc/interop/vision_axes.hpp>
#include <posenc/rotary/any_rope.hpp>
#include <posenc/rotary/chatglm_rope.hpp>
#include <posenc/rotary/pairing.hpp>

#include <string>
#include <string_view>
#include <vector>

POSENC_BEGIN

/// Rotary encoding of presets::grid_presets().
struct GridPreset {
  const char* name;       ///< argument of presets::grid_preset()
  const char* source;     ///< reference of the settings
  const char* positions;  ///< function that computes its positions
  AnyRope rope;           ///< rotation of queries and keys
};

namespace presets {

/// Returns the encodings of vision towers, and of transformers that generate images and videos.
inline const std::vector<GridPreset>& grid_presets() {
  using enum PairingKind;
  // Sources are files of huggingface/diffusers, 58eb52c, models/transformers.
  static const std::vector<GridPreset> table{
      {"dinov3_vit_b16", "a copy of its config.json", "dinov3_grid",
       AnyRope(HalfRotate, dinov3({.head_dim = 64, .base = 100}))},
      // Larger models of the family have heads with 72 channels.
      {"gemma4_vision", "huggingface/transformers, gemma4/modular_gemma4.py", "xy_grid",
       AnyRope(ChatGlmRope(64, 100))},
      {"flux_1", "transformer_flux.py", "flux_positions", AnyRope(Interleaved, flux())},
      {"flux2", "transformer_flux2.py", "flux2_positions", AnyRope(Interleaved, flux2())},
      {"wan_2_1", "transformer_wan.py", "video_grid", AnyRope(Interleaved, wan(128))},
      {"hunyuan_video", "transformer_hunyuan_video.py", "hunyuan_video_positions",
       AnyRope(Interleaved, hunyuan_video())},
      {"hunyuan_image_2_1", "transformer_hunyuanimage.py", "Positions::grid",
       AnyRope(Interleaved, hunyuan_image())},
      {"qwen_image", "transformer_qwenimage.py", "qwen_image_positions",
       AnyRope(Interleaved, qwen_image())},
      {"z_image", "transformer_z_image.py", "z_image_positions", AnyRope(Interleaved, z_image())},
      {"lumina2", "transformer_lumina2.py", "lumina2_positions", AnyRope(Interleaved, lumina2())},
      {"lumina_next", "transformers/lumina_nextdit2d.py, embeddings.py", "Positions::grid",
       AnyRope(Interleaved, lumina_next({.head_dim = 72}))},
      {"cogvideox_5b", "pipeline_cogvideox.py", "cogvideox_positions",
       AnyRope(Interleaved, cogvideox(64))},
      {"cogvideox_1_5_5b", "pipeline_cogvideox.py", "flux_positions",
       AnyRope(Interleaved, cogvideox(64))},
      {"cosmos_1_7b", "transformer_cosmos.py", "video_grid",
       AnyRope(HalfRotate, cosmos({.head_dim = 128}))},
      {"cosmos_3", "transformer_cosmos3.py", "cosmos3_positions", AnyRope(HalfRotate, cosmos3())},
      {"ideogram_4", "transformer_ideogram4.py", "ideogram4_positions",
       AnyRope(HalfRotate, ideogram4())},
      {"minimax_h3", "transformer_minimax_h3.py", "minimax_h3_positions",
       AnyRope(HalfRotate, minimax_h3())}};
  return table;
}

/// Returns the encoding of a model of grid_presets() by its name, such as "flux_1".
///   Throws: ConfigError for another name; the message lists the names
inline const AnyRope& grid_preset(std::string_view name) {
  std::string names;
  for (const GridPreset& preset : grid_presets()) {
    if (preset.name == name) return preset.rope;
    if (!names.empty()) names += ", ";
    names += preset.name;
  }
  posenc::detail::fail<ConfigError>("presets::grid_preset", "no preset has the name '", name,
                                    "'; there are ", names);
}

}  // namespace presets
POSENC_END
