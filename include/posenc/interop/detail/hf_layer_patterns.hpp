// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/detail/names.hpp>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Layers that a configuration may have; it bounds what a made-up number can allocate.
constexpr Index most_layers = 65536;

/// The number of layers, where the file tells it.
inline std::optional<Index> hf_layer_count(const JsonKeys& config) {
  const auto layers = config.any_of<Index>({"num_hidden_layers", "n_layer", "num_layers"});
  if (layers && (*layers < 0 || *layers > most_layers)) {
    config.refuse("num_hidden_layers", "must lie between 0 and 65536");
  }
  return layers;
}

/// Refuses types of layers other than these, whose rotary encoding would be a guess.
inline void hf_check_layer_types(const JsonKeys& config, const std::vector<std::string>& types,
                                 std::initializer_list<std::string_view> known) {
  for (const std::string& type : types) {
    if (std::find(known.begin(), known.end(), type) == known.end()) {
      config.refuse("layer_types", "has the type '" + type + "', which is unknown in this model");
    }
  }
}

/// The type of each layer: the list, or the pattern; empty where the file does not tell how many
/// layers there are.
inline std::vector<std::string> hf_layer_types(const JsonKeys& config,
                                               const HfTypeLayers& pattern) {
  auto given = config.texts("layer_types");
  if (given) hf_check_layer_types(config, *given, {pattern.rare, pattern.usual});
  std::optional<Index> own_period;
  if (pattern.period_key != nullptr) {
    own_period = config.any_of<Index>({pattern.period_key});
    if (own_period && *own_period < 1) config.refuse(pattern.period_key, "must be positive");
  }
  const auto layers = hf_layer_count(config);
  const Index period = own_period.value_or(pattern.period);
  const auto type_of = [&](Index layer) {
    return layer % period == (pattern.rare_is_first ? 0 : period - 1) ? pattern.rare
                                                                      : pattern.usual;
  };
  for_each_name(pattern.same_keys, [&](std::string_view name) {
    const std::string key(name);
    const auto other = config.integer(key);
    if (other && *other != period) config.refuse(key, "contradicts the pattern of layers");
  });
  if (given) {
    for (std::size_t i = 0; own_period && i < given->size(); ++i) {
      if ((*given)[i] != type_of(static_cast<Index>(i))) {
        config.refuse(pattern.period_key, "contradicts layer_types");
      }
    }
    return *std::move(given);
  }
  std::vector<std::string> types;
  for (Index i = 0; i < layers.value_or(0); ++i) types.emplace_back(type_of(i));
  return types;
}

/// The layers that a list of indices names.
inline std::vector<Index> hf_listed_layers(const JsonKeys& config, const char* key,
                                           std::optional<Index> layers) {
  auto listed = config.required(key, config.integers(key));
  for (const Index layer : listed) {
    if (layer < 0 || layer >= layers.value_or(most_layers)) {
      config.refuse(key, "must name layers that there are");
    }
  }
  std::sort(listed.begin(), listed.end());
  return listed;
}

/// The types of layers of which a list names those of the type `listed_type`.
inline std::vector<std::string> hf_types_by_list(const std::vector<Index>& listed, Index layers,
                                                 const char* listed_type, const char* other) {
  std::vector<std::string> types;
  for (Index i = 0; i < layers; ++i) {
    types.emplace_back(std::binary_search(listed.begin(), listed.end(), i) ? listed_type : other);
  }
  return types;
}

}  // namespace detail
POSENC_END
