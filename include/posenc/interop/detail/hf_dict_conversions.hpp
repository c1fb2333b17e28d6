// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_custom_layers.hpp>
#include <posenc/interop/detail/hf_key_aliases.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/json_keys.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <system_error>

// Conversions of rope dicts per layer type.
POSENC_BEGIN
namespace detail {

/// Rejects scaling in rope_parameters without a dict per layer type. Gemma 3's classes keep it
/// without effect, while the same keys in rope_scaling scale global layers.
///   Source: huggingface/transformers 5.24, Gemma3TextConfig
POSENC_COLD inline void hf_reject_flat_rope_parameters(const JsonKeys& keys, Json&) {
  constexpr auto name = "rope_parameters", key = "rope_type";
  const Json* dict = keys.find(name);
  const Json* type = dict == nullptr ? nullptr : dict->find(key);
  if (type == nullptr || type->is_text("default")) return;
  keys.reject(name, "must have a dict per layer type: the class ignores scaling outside of them");
}

/// Rejects a share of rotated channels beside the dict, which the class does not read: it reads
/// rotary_pct, and the dict that it writes.
///   Source: huggingface/transformers 5.24, GPTNeoXConfig
POSENC_COLD inline void hf_reject_unread_share(const JsonKeys& keys, Json&) {
  constexpr auto key = "partial_rotary_factor";
  const auto [dict, name] = hf_rope_dict(keys);
  const bool is_repeated =
      keys.find("rotary_pct") != nullptr || (dict != nullptr && dict->contains(key));
  if (keys.find(key) == nullptr || is_repeated || keys.real(key) == 0.25) return;
  keys.reject(key, "has no effect in this class, which reads rotary_pct");
}

/// Returns the number of a layer in per_layer_config, which may begin with zeros; nullopt if it is
/// not one of `layers`.
POSENC_COLD inline std::optional<std::size_t> hf_layer_number(const std::string& text,
                                                              std::size_t layers) {
  std::size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  const bool is_number = error == std::errc() && last == end;
  return is_number && number < layers ? std::optional(number) : std::nullopt;
}

/// Converts widths and KV heads by layer, in files of transformers 5.24, to those of all global
/// layers. A layer without an entry is as wide as local ones.
///   Source: huggingface/transformers 5.24, Gemma4TextConfig
POSENC_COLD inline void hf_set_global_widths(const JsonKeys& keys, Json& config) {
  constexpr auto part = "per_layer_config", width = "head_dim", groups = "num_key_value_heads";
  const Json* layers = keys.find(part);
  if (layers == nullptr) return;
  if (!layers->is_object()) keys.reject(part, "must map layers to their keys");
  config.erase(part);
  const auto types = keys.required("layer_types", keys.texts("layer_types"));
  const auto global =
      static_cast<std::size_t>(std::count(types.begin(), types.end(), std::string(full_attention)));
  for (const auto& [text, entry] : layers->members()) {
    const auto number = hf_layer_number(text, types.size());
    if (!number) keys.reject(part, "has layers that the model lacks");
    if (types[*number] != full_attention) keys.reject(part, "has layers that are not global");
    if (entry != layers->members().begin()->second)
      keys.reject(part, "has global layers that differ");
  }
  const bool is_empty = layers->members().empty() || global == 0;
  if (!is_empty && layers->members().size() != global)
    keys.reject(part, "has global layers that differ");
  const Json nothing = Json::object();
  const JsonKeys entry(is_empty ? nothing : layers->members().begin()->second, part);
  const auto given = entry.integer(width);
  const Json* shared = config.find(width);
  hf_set_canonical(config, entry, width, "global_head_dim",
                   given               ? Json(*given)
                   : shared != nullptr ? *shared
                                       : Json(256));
  if (const auto value = entry.integer(groups)) {
    hf_set_canonical(config, entry, groups, "num_global_key_value_heads", *value);
    config["attention_k_eq_v"] = true;  // the override applies regardless
  }
  entry.reject_unread([](const std::string&, const Json&) { return false; });
}

/// Like hf_set_global_widths(), but global layers have one KV head by default.
///   Source: huggingface/transformers 5.24, EmbeddingGemma2TextConfig
POSENC_COLD inline void hf_set_global_widths_of_one_group(const JsonKeys& keys, Json& config) {
  constexpr auto groups = "num_global_key_value_heads";
  if (keys.find("per_layer_config") == nullptr) {
    if (keys.find(groups) == nullptr) config[groups] = 1;
    config["attention_k_eq_v"] = true;
  }
  hf_set_global_widths(keys, config);
}

/// Adds the default layer types of a class: type_of(layer, layers).
template <class TypeOf>
void hf_add_layer_types(const JsonKeys& keys, Json& config, const TypeOf& type_of) {
  const auto layers = hf_layer_count(keys);
  if (!layers || keys.find("layer_types") != nullptr) return;
  Json types = Json::array();
  for (Index i = 0; i < *layers; ++i) types.push_back(type_of(i, *layers));
  config["layer_types"] = types;
}

/// Adds default layer types: the first two layers, the last one, and one of four see all keys.
///   Source: huggingface/transformers 5.24, FlintConfig and FlintAttention
POSENC_COLD inline void hf_add_types_with_global_ends(const JsonKeys& keys, Json& config) {
  hf_add_layer_types(keys, config, [](Index layer, Index layers) {
    const bool is_global = layer < 2 || layer % 4 == 1 || layer == layers - 1;
    return is_global ? full_attention : sliding_attention;
  });
}

/// Adds default layer types: every second layer is attention, global and local in turn.
///   Source: huggingface/transformers 5.24, Lfm3Config
POSENC_COLD inline void hf_add_types_with_convolutions(const JsonKeys& keys, Json& config) {
  hf_add_layer_types(keys, config, [](Index layer, Index) {
    return layer % 4 == 2                ? full_attention
           : layer % 4 == 0 && layer > 0 ? sliding_attention
                                         : "conv";
  });
}

}  // namespace detail
POSENC_END
