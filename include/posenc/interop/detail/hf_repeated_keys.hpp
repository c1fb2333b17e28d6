// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/json_keys.hpp>

#include <initializer_list>
#include <string>
#include <string_view>

// Keys that a file may have in a rope dict and outside of it.
POSENC_BEGIN
namespace detail {

/// Names outside of rope dicts of one of their keys.
POSENC_COLD inline std::initializer_list<const char*> hf_outer_names(std::string_view key) {
  if (is_one_of(hf_base_names, key)) return hf_base_names;
  if (key == "partial_rotary_factor") return hf_share_names;
  return {};
}

/// Returns the key outside of the dicts that gives the base of a layer type alone, or nullptr.
POSENC_COLD inline const char* hf_outer_base_key(const HfBases& bases,
                                                 std::string_view layer_type) {
  if (layer_type == "compress") return "compress_rope_theta";
  return layer_type == sliding_attention ? bases.local_key : bases.global_key;
}

/// Rejects a rope dict with a value that differs from the one outside of it. Releases of
/// transformers differ in which of both they use.
POSENC_COLD inline void hf_check_repeated_keys(const JsonKeys& config, const HfBases& bases,
                                               const Json& dict, const std::string& name,
                                               std::string_view layer_type) {
  const JsonKeys keys(dict, name);
  const auto compare = [&](std::string_view key, const Json& value, std::string_view other) {
    const Json* outer = config.peek(other);
    if (outer == nullptr || outer->is_object() || outer->is_array() || *outer == value) return;
    keys.reject(key, "contradicts ", other,
                " beside it; remove the one that the weights were not trained with");
  };
  for (const auto& [key, value] : dict.members()) {
    const bool is_repeated_length = key == "max_position_embeddings";  // see hf_rule()
    if (value.is_null() || value.is_object() || is_repeated_length) continue;
    const char* of_type =
        is_one_of(hf_base_names, key) ? hf_outer_base_key(bases, layer_type) : nullptr;
    if (of_type != nullptr) {
      compare(key, value, of_type);
      continue;
    }
    const auto names = hf_outer_names(key);
    for (const char* other : names) compare(key, value, other);
    if (names.size() == 0) compare(key, value, key);
  }
}

/// Rejects the file's rope dict, or one of its dicts per layer type, as hf_check_repeated_keys()
/// does.
POSENC_COLD inline void hf_check_repeated_keys_of_layers(const JsonKeys& config,
                                                         const HfBases& bases, const Json& dict,
                                                         const std::string& name) {
  hf_check_repeated_keys(config, bases, dict, name, "");
  for (const auto& [layer_type, inner] : dict.members()) {
    if (inner.is_object()) {
      hf_check_repeated_keys(config, bases, inner, name + "." + layer_type, layer_type);
    }
  }
}

}  // namespace detail
POSENC_END
