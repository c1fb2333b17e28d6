// SPDX-License-Identifier: MIT
// interop/: models' files and presets, and what is made of them.
#include <posenc/interop/attention_options.hpp>
#include <posenc/interop/gguf.hpp>
#include <posenc/interop/gguf_file.hpp>
#include <posenc/interop/gguf_rules.hpp>
#include <posenc/interop/grid_presets.hpp>
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/hf_widths.hpp>
#include <posenc/interop/layer_attention.hpp>
#include <posenc/interop/model_settings.hpp>
#include <posenc/interop/presets.hpp>
#include <posenc/interop/rotary_settings.hpp>
#include <posenc/interop/vision_settings.hpp>

#include <Eigen/Core>

#include <cstddef>
#include <span>
#include <string_view>

double ropes_of(const posenc::ModelSettings& model) {
  const posenc::AnyRope rope = posenc::rope(model, 4096);
  const auto options = posenc::attention_options<Eigen::bfloat16>(model, 0);
  return options.scale.value_or(posenc::softmax_scale(model)) +
         static_cast<double>(rope.rotary_dim());
}

double use_interop(std::string_view config, std::span<const std::byte> file) {
  double sum = ropes_of(posenc::read_hf_config(config)) + ropes_of(posenc::read_gguf(file)) +
               ropes_of(posenc::presets::model("llama-3.1-8b")) +
               static_cast<double>(posenc::presets::on_grid("flux").rotary_dim());
  const posenc::GgufFile keys = posenc::GgufFile::from_bytes(file);
  for (const auto& preset : posenc::presets::all()) sum += ropes_of(preset.model);
  return sum + keys.real("general.alignment").value_or(0);
}
