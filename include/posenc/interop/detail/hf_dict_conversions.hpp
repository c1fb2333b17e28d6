// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_key_aliases.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/json_keys.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

// Conversions of rope dicts per layer type.
POSENC_BEGIN
namespace detail {

/// Removes a type and a base beside dicts per layer type, in the same dict, which published files
/// have and their classes remove.
///   Source: huggingface/transformers 5.24, convert_rope_params_to_dict() of CohereCompassTextConfig
///           and ZayaConfig
inline void hf_drop_stray_rope_keys(const JsonKeys& keys, nlohmann::json& config) {
  const auto [dict, name] = hf_rope_dict(keys);
  if (dict == nullptr) return;
  const bool is_nested = std::any_of(dict->begin(), dict->end(),
                                     [](const nlohmann::json& value) { return value.is_object(); });
  if (!is_nested) return;
  for (const char* stray : {"rope_type", "rope_theta"}) config[name].erase(stray);
}

/// Converts Zaya's layer types, each of which has a convolution of queries, keys and values before
/// the rotation.
///   Source: huggingface/transformers 5.24, ZayaConfig and ZayaAttention
inline void hf_set_zaya_types(const JsonKeys& keys, nlohmann::json& config) {
  constexpr auto names = std::to_array<std::pair<const char*, const char*>>(
      {{"hybrid", full_attention}, {"hybrid_sliding", sliding_attention}});
  hf_drop_stray_rope_keys(keys, config);
  hf_rename_layer_types(keys, config, {names[0], names[1]});
  const auto [dict, name] = hf_rope_dict(keys);
  if (dict == nullptr) return;
  for (const auto& [type, canonical] : names) {
    if (!dict->contains(type)) continue;
    config[name][canonical] = dict->at(type);
    config[name].erase(type);
  }
}

}  // namespace detail
POSENC_END
