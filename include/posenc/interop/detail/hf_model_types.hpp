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

/// Returns a configuration in which the usual names replace those of its type.
inline Json hf_with_canonical_names(Json config, const HfTypeFile& file) {
  const Json given = config;
  const JsonKeys keys(given, "the configuration");
  for_each_name(file.key_aliases, [&](std::string_view pair) {
    const std::size_t sign = pair.find('=');
    const std::string alias(pair.substr(0, sign)), canonical(pair.substr(sign + 1));
    const Json* value = keys.find(alias);
    if (value == nullptr) return;
    hf_set_canonical(config, keys, alias, canonical, *value);
    config.erase(alias);
  });
  if (file.convert != nullptr) file.convert(keys, config);
  return config;
}

/// Returns a part to which the default sizes of its class are added where it omits them.
inline Json hf_with_default_sizes(Json part, const HfDefaultSizes& sizes) {
  for (const auto& [key, value] :
       {std::pair("hidden_size", sizes.hidden_size), std::pair("num_attention_heads", sizes.heads),
        std::pair("num_hidden_layers", sizes.layers),
        std::pair("max_position_embeddings", sizes.length)}) {
    if (value != 0 && !part.contains(key)) part[key] = value;
  }
  return part;
}

}  // namespace detail
POSENC_END
