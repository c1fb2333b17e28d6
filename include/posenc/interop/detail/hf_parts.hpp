// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/json_keys.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// Parts of a composite configuration: text model, talker, depth decoder, towers, and others.
POSENC_BEGIN
namespace detail {

/// Default type of a part whose class is fixed by the model that contains it.
struct HfPartType {
  std::string_view whole, part, type;
};

// Source: huggingface/transformers 5.24, sub_configs_defaults of the classes of each model
inline constexpr auto hf_part_types = std::to_array<HfPartType>({
    {"csm", "codec_config", "mimi"},
    {"csm", "depth_decoder_config", "csm_depth_decoder_model"},
    {"dia", "decoder_config", "dia_decoder"},
    {"dia", "encoder_config", "dia_encoder"},
    {"moshi", "audio_encoder_config", "mimi"},
    {"moshi", "depth_decoder_config", "moshi_depth"},
    {"qwen2_5_omni", "talker_config", "qwen2_5_omni_talker"},
    {"qwen2_5_omni", "thinker_config", "qwen2_5_omni_thinker"},
    {"qwen3_omni_moe", "talker_config", "qwen3_omni_moe_talker"},
    {"qwen3_omni_moe", "thinker_config", "qwen3_omni_moe_thinker"},
    {"qwen3_omni_moe_talker", "code_predictor_config", "qwen3_omni_moe_talker_code_predictor"},
    {"t5gemma2", "decoder", "t5gemma2_decoder"},
    {"t5gemma2", "encoder", "t5gemma2_encoder"},
});

/// True if a value of a configuration describes a model.
POSENC_COLD inline bool hf_is_part(const std::string& key, const Json& value) {
  constexpr auto names = std::to_array<std::string_view>(
      {"audio_config", "language_config", "llm_config", "talker_config", "text_config",
       "thinker_config", "vision_config"});
  constexpr auto model_keys = std::to_array<const char*>(
      {"d_model", "hidden_size", "model_type", "num_attention_heads", "num_hidden_layers"});
  if (!value.is_object()) return false;
  const bool is_named = is_one_of(names, key) ||
                        std::any_of(hf_part_types.begin(), hf_part_types.end(),
                                    [&key](const HfPartType& one) { return one.part == key; });
  return is_named || std::any_of(model_keys.begin(), model_keys.end(),
                                 [&value](const char* of) { return value.contains(of); });
}

/// Adds the paths of the parts of a configuration, in depth-first order.
POSENC_COLD inline void hf_add_parts(const Json& config, const std::string& path, int max_depth,
                                     std::vector<std::string>& parts) {
  constexpr std::size_t max_parts = 64;
  if (max_depth == 0 || !config.is_object()) return;
  for (const auto& [key, value] : config.members()) {
    if (!hf_is_part(key, value) || parts.size() == max_parts) continue;
    parts.push_back(path + key);
    hf_add_parts(value, path + key + '.', max_depth - 1, parts);
  }
}

/// Returns the paths of the parts of a configuration.
POSENC_COLD inline std::vector<std::string> hf_parts(const Json& config) {
  constexpr int max_depth = 4;
  std::vector<std::string> parts;
  hf_add_parts(config, "", max_depth, parts);
  return parts;
}

/// Part of a configuration, and the model type that its place gives it if it names none.
struct HfPart {
  const Json* config;
  std::string path = {}, default_type = {};

  /// Returns the path of a part of this part.
  std::string path_of(const std::string& key) const {
    return path.empty() ? key : path + '.' + key;
  }
};

/// Returns the part with this path of keys. The path of a text model is that of the part around it,
/// whose type defines the text model's.
///   Throws: ConfigError that lists the parts if there is none, and for vision_config
POSENC_COLD inline HfPart hf_named_part(const Json& config, std::string_view path) {
  constexpr auto text_models =
      std::to_array<std::string_view>({"language_config", "llm_config", "text_config"});
  HfPart part{&config};
  for (std::string_view rest = path; !rest.empty();) {
    const std::size_t end = (std::min)(rest.find('.'), rest.size());
    const std::string key(rest.substr(0, end));
    rest.remove_prefix((std::min)(end + 1, rest.size()));
    const JsonKeys keys(*part.config, "the configuration");
    const Json* inner = keys.find(key);
    if (inner == nullptr || !inner->is_object()) {
      std::string list;
      for (const std::string& one : hf_parts(config)) list += (list.empty() ? "" : ", ") + one;
      fail<ConfigError>(JsonKeys::function, "the file has no part '", path, "'; ",
                        list.empty() ? "it has none" : "its parts are " + list);
    }
    if (key == "vision_config") {
      fail<ConfigError>(JsonKeys::function, "the part '", path,
                        "' is a vision tower, which is read together with the text model, into ",
                        "ModelSettings::vision");
    }
    if (rest.empty() && is_one_of(text_models, key)) break;
    const std::string whole = keys.text("model_type").value_or(part.default_type);
    const auto row =
        std::find_if(hf_part_types.begin(), hf_part_types.end(),
                     [&](const HfPartType& one) { return one.whole == whole && one.part == key; });
    part = {inner, part.path_of(key), row == hf_part_types.end() ? "" : std::string(row->type)};
  }
  return part;
}

}  // namespace detail
POSENC_END
