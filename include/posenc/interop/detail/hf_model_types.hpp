// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_custom_types.hpp>
#include <posenc/interop/detail/hf_key_aliases.hpp>
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
inline const HfModelType* find_hf_model_type(std::string_view name) {
  const HfModelType* row = find_row(hf_plain_types, name);
  if (row == nullptr) row = find_row(hf_layered_types, name);
  return row != nullptr ? row : find_row(hf_custom_types, name);
}

/// Returns a copy of a configuration in which the usual names replace those of its type. A part of
/// a file gets the default sizes of its class where it omits them.
inline Json hf_canonical(const Json& given, const HfModelType& row, bool is_part) {
  Json config = given;
  const JsonKeys keys(given, "the configuration");
  for_each_name(row.file.key_aliases, [&](std::string_view pair) {
    const std::size_t sign = pair.find('=');
    const std::string alias(pair.substr(0, sign)), canonical(pair.substr(sign + 1));
    const Json* value = keys.find(alias);
    if (value == nullptr) return;
    hf_set_canonical(config, keys, alias, canonical, *value);
    config.erase(alias);
  });
  if (row.file.convert != nullptr) row.file.convert(keys, config);
  const auto add_size = [&config](const char* key, Index size) {
    if (size != 0 && !config.contains(key)) config[key] = size;
  };
  if (is_part) {
    add_size("hidden_size", row.file.sizes.hidden_size);
    add_size("num_attention_heads", row.file.sizes.heads);
    add_size("num_hidden_layers", row.file.sizes.layers);
    add_size("max_position_embeddings", row.file.sizes.length);
  }
  return config;
}

}  // namespace detail
POSENC_END
