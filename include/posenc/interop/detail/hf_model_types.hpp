// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_custom_types.hpp>
#include <posenc/interop/detail/hf_key_aliases.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/hf_layered_types.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/hf_plain_types.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/detail/names.hpp>

#include <string>
#include <string_view>
#include <utility>

POSENC_BEGIN
namespace detail {

/// Returns the row of a model_type, or nullptr.
POSENC_COLD inline const HfModelType* find_hf_model_type(std::string_view name) {
  const HfModelType* row = find_row(hf_plain_types, name);
  if (row == nullptr) row = find_row(hf_layered_types, name);
  return row != nullptr ? row : find_row(hf_custom_types, name);
}

/// Returns the object that has a key, or nullptr: the configuration, or a part of it.
POSENC_COLD inline Json* hf_object_of(Json& config, std::string_view path) {
  const std::size_t dot = path.find('.');
  if (dot == path.npos) return &config;
  const Json* part = config.find(path.substr(0, dot));
  return part != nullptr && part->is_object() ? &config[path.substr(0, dot)] : nullptr;
}

/// Moves a value to the usual name of its key, as HfTypeFile::key_aliases describes.
POSENC_COLD inline void hf_rename_key(Json& config, std::string_view alias,
                                      std::string_view canonical) {
  Json* from = hf_object_of(config, alias);
  const std::string key(alias.substr(alias.find('.') + 1));
  const Json* found = from == nullptr ? nullptr : from->find(key);
  if (found == nullptr || found->is_null()) return;
  const Json value = *found;
  from->erase(key);
  const bool is_part = from != &config;
  const std::string name(is_part ? alias.substr(0, alias.find('.')) : "the configuration");
  hf_set_canonical(*hf_object_of(config, canonical), JsonKeys(*from, name), key,
                   std::string(canonical.substr(canonical.find('.') + 1)), value);
}

/// Calls f(alias, canonical) for each pair of a list.
template <class F>
void for_each_alias(std::string_view pairs, const F& f) {
  for_each_name(pairs, [&f](std::string_view pair) {
    const std::size_t sign = pair.find('=');
    f(pair.substr(0, sign), pair.substr(sign + 1));
  });
}

/// Renames keys. Removes parts all of whose keys have other places, or no effect.
POSENC_COLD inline void hf_rename_keys(Json& config, std::string_view aliases) {
  for_each_alias(aliases, [&config](std::string_view alias, std::string_view canonical) {
    hf_rename_key(config, alias, canonical);
  });
  for_each_alias(aliases, [&config](std::string_view alias, std::string_view canonical) {
    const Json* part = hf_object_of(config, alias);
    if (part == nullptr || part == &config || canonical.find('.') != canonical.npos) return;
    const std::string name(alias.substr(0, alias.find('.')));
    JsonKeys(*part, name).reject_unread(hf_is_ignorable);
    config.erase(name);
  });
}

/// Renames layer types in lists and in rope dicts.
POSENC_COLD inline void hf_rename_layer_types(Json& config, std::string_view aliases) {
  for_each_alias(aliases, [&config](std::string_view alias, std::string_view canonical) {
    for (const char* list : {"layer_types", "layers_block_type"}) {
      if (!config.contains(list)) continue;
      Json types = Json::array();
      for (const Json& type : config[list].elements()) {
        types.push_back(type.is_text(alias) ? Json(std::string(canonical)) : type);
      }
      if (config[list].is_array()) config[list] = types;
    }
    for (const std::string dict : {"rope_parameters.", "rope_scaling."}) {
      hf_rename_key(config, dict + std::string(alias), dict + std::string(canonical));
    }
  });
}

/// Returns a copy of a configuration in the form that the readers know: with the usual names, and
/// the defaults that its row states. A part of a file gets the default sizes of its class where it
/// omits them.
POSENC_COLD inline Json hf_canonical(const Json& given, const HfModelType& row, bool is_part) {
  Json config = given;
  hf_rename_keys(config, row.file.key_aliases);
  hf_rename_layer_types(config, row.layers.type_aliases);
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    if (!row.rope.has_stray_keys || !config.contains(name) || !hf_has_dicts(config[name])) continue;
    for (const char* stray : {"rope_type", "rope_theta"}) config[name].erase(stray);
  }
  if (row.file.convert != nullptr) {
    row.file.convert(JsonKeys(given, "the configuration"), config);
  }
  const Json defaults =
      row.file.default_keys.empty() ? Json::object() : parse_json(row.file.default_keys);
  for (const auto& [key, value] : defaults.members()) {
    if (!config.contains(key)) config[key] = value;
  }
  const auto& sizes = row.file.sizes;
  for (const auto& [key, size] :
       {std::pair("hidden_size", sizes.hidden_size), std::pair("num_attention_heads", sizes.heads),
        std::pair("num_hidden_layers", sizes.layers),
        std::pair("max_position_embeddings", sizes.length)}) {
    if (is_part && size != 0 && !config.contains(key)) config[key] = size;
  }
  return config;
}

}  // namespace detail
POSENC_END
