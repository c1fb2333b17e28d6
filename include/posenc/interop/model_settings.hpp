// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/layer_attention.hpp>
#include <posenc/interop/rotary_settings.hpp>
#include <posenc/interop/vision_settings.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

POSENC_BEGIN

/// Layers of one type, and their rotation.
struct LayerRotary {
  /// "full_attention", "sliding_attention"; empty if all layers are alike.
  std::string layer_type = {};
  RotarySettings rotary = {};  ///< required
};

/// Settings of a model's rotary encoding and of the attention of its layers, as read from its file:
/// everything needed to build them except weights. Values that neither the file nor its class gives
/// are absent.
struct ModelSettings {
  std::string model_type = {};                ///< Hugging Face's model_type, or GGUF's architecture
  std::vector<LayerRotary> layers = {};       ///< required; one per layer type
  std::vector<std::string> layer_types = {};  ///< type of each layer, if the file gives it
  std::vector<Index> layers_without_rotary = {};       ///< sorted; layers without rotary encoding
  std::vector<std::string> types_without_rotary = {};  ///< types of layers without rotary encoding
  Index layer_count = 0;                               ///< 0 if the file does not give it
  /// One entry per layer, or a single entry if all layers are alike.
  std::vector<LayerAttention> attention = {};
  Index trained_length = 0;  ///< number of tokens that the model supports; 0 if the file does not
                             ///< give it
  /// Scale of scores, if it is not head_dim^-1/2. The frequencies' softmax_scale_multiplier() is
  /// not included; softmax_scale(model) is the product of both. Factors of all queries or keys are
  /// included. LongCat-Flash's factor of the latent of keys and values is not (see read_hf_config).
  std::optional<double> softmax_scale = std::nullopt;
  /// Soft cap of scores s, which become softcap * tanh(s / softcap) before the mask. nullopt: no
  /// cap.
  std::optional<double> softcap = std::nullopt;
  /// Temperature of queries, see temperature_of_layer(). nullopt: none.
  std::optional<QueryTemperature> query_temperature = std::nullopt;
  std::optional<VisionSettings> vision = std::nullopt;  ///< tower beside the text model
  /// Part of the file that these settings are of, as a path of keys; empty: the file itself.
  std::string part = {};
  /// Parts of a composite config.json that describe models, towers and codecs too, as paths of
  /// keys.
  std::vector<std::string> parts = {};

  // Sizes, as the file gives them. A class may derive others: Qwen 1 halves intermediate_size.
  std::optional<Index> hidden_size = std::nullopt;      ///< channels of a token between the layers
  std::optional<Index> vocabulary_size = std::nullopt;  ///< rows of the table of embeddings
  /// Widths of the dense feed-forward networks: one per layer, or a single one if all layers are
  /// alike; 0 without such a network. Experts have other widths.
  std::vector<Index> intermediate_sizes = {};
  /// Number that the norms add to the mean square or to the variance.
  std::optional<double> norm_epsilon = std::nullopt;
  /// True if the output projection has the weights of the table of embeddings.
  std::optional<bool> tied_embeddings = std::nullopt;
};

namespace detail {

// Limits of what a file can multiply: reading it evaluates no more frequencies than this.
constexpr std::size_t max_layer_types = 64;
constexpr Index max_head_channels = Index{1} << 18;     ///< sum of head_dim over all layer types
constexpr Index max_model_size = (Index{1} << 31) - 1;  ///< of hidden_size and the like

/// Checks that `types` layer types are allowed. Call it before reading axes and divisors of another
/// type.
inline void check_layer_types(std::size_t types) {
  if (types > max_layer_types) {
    fail<ConfigError>("ModelSettings", "there are ", static_cast<Index>(types),
                      " types of layers; the maximum is ", static_cast<Index>(max_layer_types));
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

/// Returns the settings of a layer type.
///   Throws: ConfigError for a type that the model does not have
inline const RotarySettings& rotary(const ModelSettings& model, std::string_view layer_type) {
  for (const LayerRotary& layer : model.layers) {
    if (layer.layer_type == layer_type) return layer.rotary;
  }
  detail::fail<ConfigError>("rotary", "no rotary layers of the type '", layer_type, "' but ",
                            detail::list_of_types(model));
}

/// Returns the settings of a model whose layers are alike.
///   Throws: ConfigError if they are not
inline const RotarySettings& rotary(const ModelSettings& model) {
  if (model.layers.size() != 1) {
    detail::fail<ConfigError>("rotary", "pass the type of layer, one of ",
                              detail::list_of_types(model));
  }
  return model.layers.front().rotary;
}

namespace detail {

inline double softmax_scale(const ModelSettings& model, const RotarySettings& settings) {
  const double own_scale =
      model.softmax_scale.value_or(1 / std::sqrt(static_cast<double>(settings.head_dim)));
  // The multiplier does not depend on the length for any rule.
  return own_scale * frequencies(settings, 1).softmax_scale_multiplier();
}

}  // namespace detail

/// Returns the total factor of scores before the softmax: the model's own scale or head_dim^-1/2,
/// times the multiplier of the frequencies (DeepSeek's squared mscale). The factor of cos and sin
/// (attention_factor) is not included, because the rotation applies it.
///   Throws: ConfigError if it differs between layer types, and as frequencies() does
inline double softmax_scale(const ModelSettings& model) {
  if (model.layers.empty()) {
    detail::fail<ConfigError>("softmax_scale", "layers must not be empty");
  }
  const double scale = detail::softmax_scale(model, model.layers.front().rotary);
  for (const LayerRotary& layer : model.layers) {
    const double other = detail::softmax_scale(model, layer.rotary);
    if (other != scale) {
      detail::fail<ConfigError>("softmax_scale", "it is ", scale, " and ", other,
                                " by type of layer; pass one of ", detail::list_of_types(model));
    }
  }
  return scale;
}

/// Returns the total factor of scores for one layer type, which may have no rotary encoding but
/// must attend.
///   Throws: ConfigError for a type that the model does not have, or without a softmax (linear
///           attention, convolutions)
inline double softmax_scale(const ModelSettings& model, std::string_view layer_type) {
  for (const LayerRotary& layer : model.layers) {
    if (layer.layer_type == layer_type) return detail::softmax_scale(model, layer.rotary);
  }
  constexpr std::string_view with_softmax[] = {"full_attention", "sliding_attention",
                                               "chunked_attention", "self_attention",
                                               "cross_attention"};
  const auto is_type = [layer_type](std::string_view type) { return type == layer_type; };
  const bool attends =
      std::any_of(std::begin(with_softmax), std::end(with_softmax), is_type) &&
      (std::any_of(model.layer_types.begin(), model.layer_types.end(), is_type) ||
       std::any_of(model.types_without_rotary.begin(), model.types_without_rotary.end(), is_type));
  if (!attends) {
    detail::fail<ConfigError>("softmax_scale", "no layers of the type '", layer_type,
                              "' with a softmax, but ", detail::list_of_types(model));
  }
  return softmax_scale(model);
}

/// Returns the settings of one layer (0-based), or nullptr for a layer without rotary encoding.
///   Throws: ConfigError if the file does not give the type of this layer
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
                              " layers are known, but not those of layer ", layer);
  }
  const std::string& type = model.layer_types[static_cast<std::size_t>(layer)];
  for (const std::string& without : model.types_without_rotary) {
    if (type == without) return nullptr;
  }
  if (model.layers.size() == 1 && model.layers.front().layer_type.empty()) return &rotary(model);
  return &rotary(model, type);
}

/// Returns the attention of one layer (0-based).
///   Throws: ConfigError if the file does not give it, and for layers that do not exist
inline const LayerAttention& attention_of_layer(const ModelSettings& model, Index layer) {
  constexpr auto function = "attention_of_layer";
  if (layer < 0 || (model.layer_count != 0 && layer >= model.layer_count)) {
    detail::fail<ConfigError>(function, "the layer must be one of ", model.layer_count, " but is ",
                              layer);
  }
  const auto count = static_cast<Index>(model.attention.size());
  if (count == 1) return model.attention.front();
  if (layer >= count) {
    detail::fail<ConfigError>(function, "the attention of ", count,
                              " layers is known, not that of layer ", layer);
  }
  return model.attention[static_cast<std::size_t>(layer)];
}

/// Returns the width of the dense feed-forward network of one layer (0-based), 0 for a layer
/// without one, or nullopt if the file does not give it.
///   Throws: ConfigError for layers that do not exist
inline std::optional<Index> intermediate_size_of_layer(const ModelSettings& model, Index layer) {
  const auto count = static_cast<Index>(model.intermediate_sizes.size());
  const Index layers = model.layer_count == 0 && count > 1 ? count : model.layer_count;
  if (layer < 0 || (layers != 0 && layer >= layers)) {
    detail::fail<ConfigError>("intermediate_size_of_layer", "the layer must be one of ", layers,
                              " but is ", layer);
  }
  if (count == 0) return std::nullopt;
  return model.intermediate_sizes[count == 1 ? 0 : static_cast<std::size_t>(layer)];
}

/// Returns the temperature of the queries of one layer, or nullopt if it has none.
///   Throws: as rotary_of_layer() does
inline std::optional<QueryTemperature> temperature_of_layer(const ModelSettings& model,
                                                            Index layer) {
  const auto& temperature = model.query_temperature;
  const bool has_none =
      temperature && temperature->only_without_rotary && rotary_of_layer(model, layer) != nullptr;
  return has_none ? std::nullopt : temperature;
}

/// Returns the rotation of a model whose layers are alike, by a rule that does not depend on the
/// length of the sequence.
///   Throws: ConfigError, also if layers differ or the rule depends on the length
inline AnyRope rope(const ModelSettings& model) { return rope(rotary(model)); }
/// Overload of rope() for sequences of `length` tokens. Rules that do not depend on the length
/// ignore it.
///   Throws: ConfigError, also if layers differ; PositionError for a negative length
inline AnyRope rope(const ModelSettings& model, Index length,
                    AnglePolicy policy = AnglePolicy::Exact) {
  return rope(rotary(model), length, policy);
}

namespace detail {

inline void check_model_sizes(const ModelSettings& model) {
  const auto check = [](const char* field, Index value, Index min_value) {
    if (value < min_value || value > max_model_size) {
      fail<ConfigError>("ModelSettings", field, " must be from ", min_value, " to ", max_model_size,
                        " but is ", value);
    }
  };
  if (model.hidden_size) check("hidden_size", *model.hidden_size, 1);
  if (model.vocabulary_size) check("vocabulary_size", *model.vocabulary_size, 1);
  for (const Index size : model.intermediate_sizes) check("intermediate_sizes", size, 0);
  const auto count = static_cast<Index>(model.intermediate_sizes.size());
  if (count > 1 && model.layer_count != 0 && count != model.layer_count) {
    fail<ConfigError>("ModelSettings", "layer_count is ", model.layer_count,
                      " but there are intermediate_sizes of ", count, " layers");
  }
}

}  // namespace detail

/// Checks the settings of all layer types, of scores, and sizes. At most 64 types are allowed,
/// whose widths of a head add up to at most 2^18.
///   Throws: ConfigError
///   Cost:   evaluates each rule once
inline void validate(const ModelSettings& model) {
  if (model.layers.empty()) detail::fail<ConfigError>("ModelSettings", "layers must be set");
  detail::check_layer_types(model.layers.size());
  Index channels = 0;
  for (const LayerRotary& layer : model.layers) {
    validate(layer.rotary);
    channels += layer.rotary.head_dim;  // at most 2^16 each
  }
  if (channels > detail::max_head_channels) {
    detail::fail<ConfigError>("ModelSettings", "the heads of all types of layers have ", channels,
                              " channels together; the maximum is ", detail::max_head_channels);
  }
  for (const LayerRotary& layer : model.layers) {
    // Evaluating a rule is the only complete check of its fields.
    frequencies(layer.rotary, 1);
  }
  const auto known = static_cast<Index>(model.attention.size());
  if (model.layer_count < 0 || (known > 1 && known != model.layer_count)) {
    detail::fail<ConfigError>("ModelSettings", "layer_count is ", model.layer_count,
                              " but there is attention of ", known, " layers");
  }
  for (Index i = 0; i < known; ++i) {
    detail::check_layer_attention(model.attention[static_cast<std::size_t>(i)], i);
  }
  const auto check = [](const char* field, const std::optional<double>& value) {
    if (value && !(*value > 0 && std::isfinite(*value))) {
      detail::fail<ConfigError>("ModelSettings", field, " must be finite and positive but is ",
                                *value);
    }
  };
  check("softmax_scale", model.softmax_scale);
  check("softcap", model.softcap);
  check("norm_epsilon", model.norm_epsilon);
  detail::check_model_sizes(model);
  if (const auto& t = model.query_temperature) {
    check("the length of query_temperature", t->length);
    if (!std::isfinite(t->scale)) {
      detail::fail<ConfigError>("ModelSettings", "the scale of query_temperature must be finite ",
                                "but is ", t->scale);
    }
    // The formulas divide by its logarithm.
    if (t->formula != QueryTemperatureFormula::LogFloor && !(t->length > 1)) {
      detail::fail<ConfigError>("ModelSettings", "the length of query_temperature must be more ",
                                "than 1 for a ratio of logarithms but is ", t->length);
    }
    // Each formula is monotonic from position 0 on.
    if (!std::isfinite((*t)(0x1p53))) {
      detail::fail<ConfigError>("ModelSettings", "query_temperature, of scale ", t->scale,
                                " and length ", t->length, ", must be finite up to position 2^53");
    }
  }
  if (model.vision) validate(*model.vision);
}

POSENC_END
