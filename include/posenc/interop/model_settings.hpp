// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/rotary_settings.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

POSENC_BEGIN

/// The layers of one type, and how they turn queries and keys.
struct LayerRotary {
  std::string layer_type =
      {};                      ///< "full_attention", "sliding_attention"; empty where all are alike
  RotarySettings rotary = {};  ///< required
};

/// What a model's file says of its rotary encoding.
struct ModelSettings {
  std::string model_type = {};                ///< Hugging Face's model_type, or GGUF's architecture
  std::vector<LayerRotary> layers = {};       ///< required; one a type of layer
  std::vector<std::string> layer_types = {};  ///< the type of each layer, where the file tells it
  std::vector<Index> layers_without_rotary = {};       ///< sorted; these layers turn nothing
  std::vector<std::string> types_without_rotary = {};  ///< nor do layers of these types
  Index trained_length = 0;  ///< tokens that the file says the model is made for; 0 if it does not
  /// What the file says that scores are multiplied with, where that is not head_dim^-1/2. The
  /// frequencies' softmax_scale_multiplier() comes on top.
  std::optional<double> softmax_scale = std::nullopt;
};

namespace detail {

// Bounds on what a file can multiply: whoever reads one knows no more of its frequencies than this.
constexpr std::size_t most_layer_types = 64;
constexpr Index most_head_channels = Index{1} << 18;  ///< head_dim of all types of layers together

/// One type more must fit; to be asked before its axes and divisors are read.
inline void check_layer_types(std::size_t types) {
  if (types > most_layer_types) {
    fail<ConfigError>("ModelSettings", "there are ", static_cast<Index>(types),
                      " types of layers; at most ", static_cast<Index>(most_layer_types),
                      " may be");
  }
}

inline std::string list_of_types(const ModelSettings& model) {
  std::string list;
  for (const LayerRotary& layer : model.layers) {
    list += (list.empty() ? "'" : ", '") + layer.layer_type + "'";
  }
  return list;
}

}  // namespace detail

/// The settings of a type of layer.
///   Throws: ConfigError for a type that the model does not have.
inline const RotarySettings& rotary(const ModelSettings& model, std::string_view layer_type) {
  for (const LayerRotary& layer : model.layers) {
    if (layer.layer_type == layer_type) return layer.rotary;
  }
  detail::fail<ConfigError>("rotary", "no rotary layers of the type '", layer_type, "' but ",
                            detail::list_of_types(model));
}

/// The settings of a model whose layers are all alike.
///   Throws: ConfigError if they are not.
inline const RotarySettings& rotary(const ModelSettings& model) {
  if (model.layers.size() != 1) {
    detail::fail<ConfigError>("rotary", "name the type of layer, one of ",
                              detail::list_of_types(model));
  }
  return model.layers.front().rotary;
}

/// The settings of one layer, counted from 0; nullptr for a layer that turns nothing.
///   Throws: ConfigError where the file does not tell the type of this layer.
inline const RotarySettings* rotary_of_layer(const ModelSettings& model, Index layer) {
  constexpr auto function = "rotary_of_layer";
  if (layer < 0)
    detail::fail<ConfigError>(function, "the layer must not be negative but is ", layer);
  if (std::binary_search(model.layers_without_rotary.begin(), model.layers_without_rotary.end(),
                         layer)) {
    return nullptr;
  }
  const auto count = static_cast<Index>(model.layer_types.size());
  if (count == 0 && model.types_without_rotary.empty()) return &rotary(model);
  if (layer >= count) {
    detail::fail<ConfigError>(function, "the types of ", count,
                              " layers are known, not that of layer ", layer);
  }
  const std::string& type = model.layer_types[static_cast<std::size_t>(layer)];
  for (const std::string& without : model.types_without_rotary) {
    if (type == without) return nullptr;
  }
  if (model.layers.size() == 1 && model.layers.front().layer_type.empty()) return &rotary(model);
  return &rotary(model, type);
}

/// The rotation of a model whose layers are all alike, for sequences of `length` tokens; without
/// a length where the rule does not depend on it.
///   Throws: ConfigError.
inline AnyRope rope(const ModelSettings& model) { return rope(rotary(model)); }
inline AnyRope rope(const ModelSettings& model, Index length,
                    AnglePolicy policy = AnglePolicy::Exact) {
  return rope(rotary(model), length, policy);
}

/// Checks the settings of all types of layers: at most 64 types, whose widths of a head add up to at
/// most 2^18.
///   Throws: ConfigError.
///   Cost: evaluates each rule once
inline void validate(const ModelSettings& model) {
  if (model.layers.empty()) detail::fail<ConfigError>("ModelSettings", "layers must be given");
  detail::check_layer_types(model.layers.size());
  Index channels = 0;
  for (const LayerRotary& layer : model.layers) {
    validate(layer.rotary);
    channels += layer.rotary.head_dim;  // at most 2^16 each
  }
  if (channels > detail::most_head_channels) {
    detail::fail<ConfigError>("ModelSettings", "the heads of all types of layers have ", channels,
                              " channels together; at most ", detail::most_head_channels,
                              " may be");
  }
  for (const LayerRotary& layer : model.layers) {
    // Only evaluating a rule checks all of its fields.
    frequencies(layer.rotary, 1);
  }
}

POSENC_END
