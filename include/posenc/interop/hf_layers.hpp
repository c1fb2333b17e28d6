// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/hf_model_types.hpp>
#include <posenc/interop/json_keys.hpp>
#include <posenc/interop/model_settings.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

constexpr auto full_attention = "full_attention";
constexpr auto sliding_attention = "sliding_attention";

/// Layers that a configuration may have; it bounds what a made-up number can allocate.
constexpr Index most_layers = 65536;

inline Index hf_layer_count(const JsonKeys& config) {
  const Index layers = config.required<Index>(
      "num_hidden_layers", config.any_of<Index>({"num_hidden_layers", "n_layer"}));
  if (layers < 0 || layers > most_layers) {
    config.refuse("num_hidden_layers", "must lie between 0 and 65536");
  }
  return layers;
}

/// The type of each layer: the list, or every period-th one global.
inline std::vector<std::string> hf_layer_types(const JsonKeys& config, const char* period_key,
                                               Index usual_period, Index global_rest) {
  if (auto types = config.texts("layer_types")) return *std::move(types);
  const Index period = config.integer(period_key).value_or(usual_period);
  if (period < 1) config.refuse(period_key, "must be positive");
  std::vector<std::string> types;
  const Index layers = hf_layer_count(config);
  for (Index i = 0; i < layers; ++i) {
    types.emplace_back(i % period == global_rest % period ? full_attention : sliding_attention);
  }
  return types;
}

/// Layers without rotary encoding: those whose entry in the list is 0, or every interval-th one.
inline std::vector<Index> hf_no_rope_layers(const JsonKeys& config) {
  std::vector<Index> without;
  const auto list = config.integers("no_rope_layers");
  const Index interval = config.integer("no_rope_layer_interval").value_or(4);
  if (list && !list->empty()) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      if ((*list)[i] != 0 && (*list)[i] != 1) {
        config.refuse("no_rope_layers", "must be a list of 0 (no rotary encoding) and 1");
      }
      if ((*list)[i] == 0) without.push_back(static_cast<Index>(i));
    }
    return without;
  }
  if (interval < 1) config.refuse("no_rope_layer_interval", "must be positive");
  const Index layers = hf_layer_count(config);
  for (Index i = interval - 1; i < layers; i += interval) without.push_back(i);
  return without;
}

/// What the type of model implies for its layers.
inline void hf_read_layer_types(const JsonKeys& config, HfFamily family, ModelSettings& model) {
  switch (family) {
    case HfFamily::Gemma3:
    case HfFamily::Gemma4:
      model.layer_types = hf_layer_types(config, "sliding_window_pattern", 6, 5);
      break;
    case HfFamily::ModernBert:
      model.layer_types = hf_layer_types(config, "global_attn_every_n_layers", 3, 0);
      break;
    case HfFamily::Olmo3:
      model.layer_types = hf_layer_types(config, "", 4, 3);
      break;
    case HfFamily::Cohere2:
      model.layer_types = hf_layer_types(config, "sliding_window_pattern", 4, 3);
      model.types_without_rotary = {full_attention};
      break;
    case HfFamily::Exaone4:
      if (config.find("sliding_window") == nullptr) break;
      model.layer_types = config.required("layer_types", config.texts("layer_types"));
      model.types_without_rotary = {full_attention};
      break;
    case HfFamily::NoRopeLayers:
      model.layers_without_rotary = hf_no_rope_layers(config);
      break;
    default:
      if (model.layers.size() > 1) {
        model.layer_types = config.texts("layer_types").value_or(std::vector<std::string>{});
      }
  }
  if (static_cast<Index>(model.layer_types.size()) > most_layers) {
    config.refuse("layer_types", "has more than 65536 entries");
  }
}

}  // namespace detail
POSENC_END
