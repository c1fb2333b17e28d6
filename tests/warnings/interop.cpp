// SPDX-License-Identifier: MIT
// interop/: model files and presets, the objects that they give, and positions and axes of single
// models.
#include <posenc/interop/attention_options.hpp>
#include <posenc/interop/diffusion_axes.hpp>
#include <posenc/interop/diffusion_positions.hpp>
#include <posenc/interop/dinov3_grid.hpp>
#include <posenc/interop/gguf.hpp>
#include <posenc/interop/gguf_file.hpp>
#include <posenc/interop/gguf_options.hpp>
#include <posenc/interop/gguf_rules.hpp>
#include <posenc/interop/grid_presets.hpp>
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/hf_config_options.hpp>
#include <posenc/interop/hf_widths.hpp>
#include <posenc/interop/layer_attention.hpp>
#include <posenc/interop/model_settings.hpp>
#include <posenc/interop/module_settings.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/interop/presets.hpp>
#include <posenc/interop/prompt_positions.hpp>
#include <posenc/interop/rotary_settings.hpp>
#include <posenc/interop/vision_axes.hpp>
#include <posenc/interop/vision_settings.hpp>

#include <Eigen/Core>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

using posenc::Index;
using posenc::Positions;

double sum_of_models(const std::vector<Positions>& all) {
  double sum = 0;
  for (const Positions& positions : all) {
    for (Index s = 0; s < positions.count(); ++s) sum += positions.at(0, s);
    sum += positions.max_magnitude();
  }
  return sum;
}

Index use_axes() {
  const posenc::AxialFrequencies all[] = {
      posenc::flux(),
      posenc::wan(128),
      posenc::cogvideox(64),
      posenc::cosmos({.head_dim = 128}),
      posenc::cosmos3(),
      posenc::ideogram4(),
      posenc::minimax_h3(),
      posenc::dinov3({.head_dim = 64, .base = 100}),
      posenc::pixtral_vision({.head_dim = 64, .base = 10000}),
      posenc::llama4_vision({.head_dim = 64, .base = 10000}),
      posenc::rope_vit_axial({.head_dim = 64, .base = 100}),
      posenc::qwen2_vl_vision({.head_dim = 64, .base = 10000}),
      posenc::ggml_vision({.head_dim = 64, .base = 10000}, {16, 16, 0, 0})};
  Index pairs = 0;
  for (const auto& each : all) pairs += each.frequencies.pairs();
  return pairs + posenc::mrope_interleaved({8, 12, 12}, posenc::MropeTail::Time).pairs() +
         posenc::mrope_chunked({8, 12, 12}).pairs() + posenc::ernie_axes({4, 4, 2}).pairs() +
         posenc::xdrope_axes({4, 4, 4, 4}).pairs();
}

double use_models() {
  const posenc::VideoGrid video{.frames = 2, .rows = 3, .cols = 4, .frame_step = 0.8},
      picture{.rows = 2, .cols = 3};
  const auto prompt =
      posenc::prompt_positions({{.text = 5}, {.rows = 4, .cols = 2, .merge = 2}, {.text = 2}});
  return static_cast<double>(use_axes()) +
         sum_of_models({posenc::llama4_grid(2, 2),
                        posenc::dinov3_grid({.rows = 3, .cols = 2, .prefix_tokens = 1},
                                            posenc::PatchNormalization::Min, {.shift = 0.5}),
                        posenc::video_grid(video), posenc::flux_positions(3, picture),
                        posenc::flux2_positions(3, {picture, picture}),
                        posenc::hunyuan_video_positions(video, 3),
                        posenc::cogvideox_positions(3, video, {.rows = 30, .cols = 45}),
                        posenc::qwen_image_positions(3, {video, picture}),
                        posenc::z_image_positions(video, 3), posenc::lumina2_positions(3, picture),
                        posenc::ideogram4_positions(3, picture),
                        posenc::cosmos3_positions(3, {video, picture}),
                        posenc::minimax_h3_positions(3, picture, {.audio = 2, .last_frame = true}),
                        posenc::chatglm_positions({.context_length = 4, .mask_position = 2}, 0, 5),
                        prompt.decode(0, 2)});
}

double ropes_of(const posenc::ModelSettings& model) {
  const posenc::AnyRope rope = posenc::rope(model, 4096);
  const auto options = posenc::attention_options<Eigen::bfloat16>(model, 0);
  const auto layer = posenc::module_settings<float>(model, 0, 4096);
  return options.scale.value_or(posenc::softmax_scale(model)) +
         static_cast<double>(rope.rotary_dim() + layer.config.heads);
}

double use_interop(std::string_view config, std::span<const std::byte> file) {
  double sum = use_models() + ropes_of(posenc::read_hf_config(config)) +
               ropes_of(posenc::read_gguf(file)) +
               ropes_of(posenc::presets::model("llama-3.1-8b")) +
               static_cast<double>(posenc::presets::grid_preset("flux").rotary_dim());
  const posenc::GgufFile keys = posenc::GgufFile::from_bytes(file);
  for (const auto& preset : posenc::presets::all()) sum += ropes_of(preset.model);
  return sum + keys.real("general.alignment").value_or(0);
}
