// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_custom_layers.hpp>
#include <posenc/interop/detail/hf_key_aliases.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/json_keys.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
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

/// Converts Gemma 4's overrides of single layers, which newer files have instead of the width and the
/// KV heads of global layers.
///   Source: huggingface/transformers 5.24, Gemma4TextConfig
inline void hf_set_gemma4_layers(const JsonKeys& keys, nlohmann::json& config) {
  constexpr auto part = "per_layer_config", width = "head_dim", groups = "num_key_value_heads";
  const nlohmann::json* layers = keys.find(part);
  if (layers == nullptr || !layers->is_object() || layers->empty()) return;
  config.erase(part);
  const auto types = keys.required("layer_types", keys.texts("layer_types"));
  std::size_t global = 0;
  for (const auto& type : types) global += type == full_attention ? 1 : 0;
  if (layers->size() != global) keys.reject(part, "must have an entry for each global layer");
  for (const auto& [number, given] : layers->items()) {
    const bool is_number = !number.empty() && number.size() < 6 &&
                           number.find_first_not_of("0123456789") == std::string::npos;
    const std::size_t layer = is_number ? std::stoul(number) : types.size();
    if (layer >= types.size() || types[layer] != full_attention || given != layers->front()) {
      keys.reject(part, "must have equal entries, for global layers");
    }
  }
  const JsonKeys entry(layers->front(), part);
  if (const auto value = entry.integer(width)) {
    hf_set_canonical(config, entry, width, "global_head_dim", *value);
  }
  if (const auto value = entry.integer(groups)) {
    hf_set_canonical(config, entry, groups, "num_global_key_value_heads", *value);
    config["attention_k_eq_v"] = true;  // the override applies regardless
  }
  entry.reject_unread([](const std::string&, const nlohmann::json&) { return false; });
}

/// Adds EmbeddingGemma 2's default number of KV heads in global layers, which only its class gives.
///   Source: huggingface/transformers 5.24, EmbeddingGemma2TextConfig
inline void hf_set_embedding_gemma2_layers(const JsonKeys& keys, nlohmann::json& config) {
  constexpr auto groups = "num_global_key_value_heads";
  if (keys.find("per_layer_config") == nullptr) {
    if (keys.find(groups) == nullptr) config[groups] = 1;
    config["attention_k_eq_v"] = true;
  }
  hf_set_gemma4_layers(keys, config);
}

/// Adds the default layer types of a class: type_of(layer, layers).
template <class TypeOf>
void hf_add_layer_types(const JsonKeys& keys, nlohmann::json& config, const TypeOf& type_of) {
  const auto layers = hf_layer_count(keys);
  if (!layers || keys.find("layer_types") != nullptr) return;
  auto types = nlohmann::json::array();
  for (Index i = 0; i < *layers; ++i) types.push_back(type_of(i, *layers));
  config["layer_types"] = types;
}

/// Adds Flint's default layer types. Layers that see all keys have no rotary encoding.
///   Source: huggingface/transformers 5.24, FlintConfig and FlintAttention
inline void hf_set_flint_types(const JsonKeys& keys, nlohmann::json& config) {
  hf_add_layer_types(keys, config, [](Index layer, Index layers) {
    const bool is_global = layer < 2 || layer % 4 == 1 || layer == layers - 1;
    return is_global ? full_attention : sliding_attention;
  });
}

/// Adds LFM3's default layer types.
///   Source: huggingface/transformers 5.24, Lfm3Config
inline void hf_set_lfm3_types(const JsonKeys& keys, nlohmann::json& config) {
  hf_add_layer_types(keys, config, [](Index layer, Index) {
    return layer % 4 == 2                ? full_attention
           : layer % 4 == 0 && layer > 0 ? sliding_attention
                                         : "conv";
  });
}

/// Adds the default multiplier of Granite Docling's scores, which differs from Granite's.
///   Source: huggingface/transformers 5.24, GraniteDoclingTextConfig
inline void hf_set_docling_multiplier(const JsonKeys& keys, nlohmann::json& config) {
  constexpr auto key = "attention_multiplier";
  if (keys.find(key) == nullptr) config[key] = 0.015625;
}

}  // namespace detail
POSENC_END
