// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_custom_layers.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/model_settings.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Lists with an entry per layer.
inline constexpr auto hf_per_layer_lists = std::to_array<const char*>(
    {"layer_types", "layers_block_type", "hybrid_layer_pattern", "no_rope_layers"});

/// List whose empty value counts as absent.
inline constexpr std::string_view hf_optional_list = "no_rope_layers";

/// Rejects a list whose length is not the model's number of layers.
POSENC_COLD inline void hf_check_list_lengths(const JsonKeys& config, bool may_be_longer) {
  const auto layers = hf_layer_count(config);
  for (const char* key : hf_per_layer_lists) {
    const Json* list = layers ? config.peek(key) : nullptr;
    if (list == nullptr || !list->is_array()) continue;
    if (list->elements().empty() && key == hf_optional_list) continue;
    const auto size = static_cast<Index>(list->elements().size());
    if (may_be_longer ? size < *layers : size != *layers) {
      config.reject(key, "has ", size, " entries for ", *layers, " layers");
    }
  }
}

/// Rejects layer types for which the file has no rope dict.
POSENC_COLD inline void hf_check_rotary_types(const JsonKeys& config,
                                              const std::vector<std::string>& types,
                                              const ModelSettings& model) {
  const auto& without = model.types_without_rotary;
  for (const std::string& type : types) {
    const bool is_known =
        std::find(without.begin(), without.end(), type) != without.end() ||
        std::any_of(model.layers.begin(), model.layers.end(),
                    [&type](const LayerRotary& layer) { return layer.layer_type == type; });
    if (!is_known)
      config.reject("layer_types", "has the type '", std::string_view(type),
                    "', which has no rope dict");
  }
}

/// Reads the layer types in the way that the model type implies.
POSENC_COLD inline void hf_read_layer_types(const JsonKeys& config, const HfModelType& type,
                                            ModelSettings& model) {
  const HfTypeLayers& layers = type.layers;
  if (!layers.type_without_rotary.empty())
    model.types_without_rotary = {std::string(layers.type_without_rotary)};
  switch (layers.form) {
    case HfLayers::Ratios:
      hf_read_types_of_ratios(config, model);
      break;
    case HfLayers::ListedBases:
    case HfLayers::ListedRotations:
      break;  // read together with their bases
    case HfLayers::LocalMarks:
      hf_read_marked_types(config, model);
      break;
    case HfLayers::Mixers: {
      constexpr auto key = "layer_types";
      const auto given = config.texts("layers_block_type");
      model.layer_types = config.required(key, given ? given : config.texts(key));
      hf_check_layer_types(config, model.layer_types, {layers.type_without_rotary, "attention"});
      break;
    }
    case HfLayers::PeriodOrLetters:
      hf_read_types_of_pattern(config, layers, model);
      break;
    case HfLayers::Convolutions:
      hf_read_convolutions(config, model);
      break;
    case HfLayers::PeriodAfterDense:
      hf_read_types_after_dense(config, layers, model);
      break;
    case HfLayers::AttentionIndex: {
      const Index count = config.required("num_hidden_layers", hf_layer_count(config));
      const auto listed = hf_listed_layers(config, "attn_layer_indices", count);
      model.layer_types = hf_layer_types_from_list(listed, count, full_attention,
                                                   model.types_without_rotary.front().c_str());
      break;
    }
    case HfLayers::Blocks:
      for (const auto& group : hf_attention_blocks(config)) {
        model.layer_types.emplace_back(group ? full_attention : no_attention);
      }
      break;
    case HfLayers::CrossIndex: {
      constexpr auto cross = "cross_attention";
      const auto count = hf_layer_count(config);
      model.layers_without_rotary = hf_listed_layers(config, "cross_attention_layers", count);
      model.layer_types = hf_layer_types_from_list(model.layers_without_rotary, count.value_or(0),
                                                   cross, "self_attention");
      if (count) model.types_without_rotary = {cross};
      break;
    }
    case HfLayers::NoRopeIndex:
      hf_read_no_rope_layers(config, model);
      break;
    case HfLayers::Listed: {
      if (layers.period != 0) {
        const bool needs_window = layers.type_without_rotary == full_attention;
        if (needs_window && config.has("sliding_window") && !config.find("sliding_window")) {
          config.reject("sliding_window", "is null, and no layer without a window is rotated");
        }
        model.layer_types = hf_layer_types(config, layers);
        if (layers.last_is_rare && !model.layer_types.empty())
          model.layer_types.back() = layers.rare_type;
        break;
      }
      auto types = config.texts("layer_types").value_or(std::vector<std::string>{});
      if (model.layers.size() > 1 || !model.layers.front().layer_type.empty()) {
        const auto count = hf_layer_count(config);
        if (types.empty() && !layers.default_type.empty() && count) {
          types.assign(static_cast<std::size_t>(*count), std::string(layers.default_type));
        }
        hf_check_rotary_types(config, types, model);
        model.layer_types = std::move(types);
      } else {
        // Apart from windows and chosen keys, these layers are alike.
        if (const auto sparse = type.attention.sparse; !sparse.empty()) {
          std::replace(types.begin(), types.end(), std::string(sparse),
                       std::string(full_attention));
        }
        hf_check_layer_types(config, types,
                             {full_attention, sliding_attention, "chunked_attention"});
      }
    }
  }
  if (static_cast<Index>(model.layer_types.size()) > max_layers) {
    config.reject("layer_types", "has more than 65536 entries");
  }
}

}  // namespace detail
POSENC_END
