// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/detail/names.hpp>
#include <posenc/interop/model_settings.hpp>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Layer types: from lists and periods, and from schemes of single classes.
POSENC_BEGIN
namespace detail {

/// Maximum number of layers of a configuration; bounds what a made-up number can allocate.
constexpr Index max_layers = 65536;

/// Returns the number of layers if the file gives it.
POSENC_COLD inline std::optional<Index> hf_layer_count(const JsonKeys& config) {
  const auto layers = config.any_of<Index>({"num_hidden_layers", "n_layer", "num_layers"});
  if (layers && (*layers < 0 || *layers > max_layers)) {
    config.reject("num_hidden_layers", "must lie between 0 and 65536");
  }
  return layers;
}

/// Rejects unknown layer types, because their rotary encoding would be a guess.
POSENC_COLD inline void hf_check_layer_types(const JsonKeys& config,
                                             const std::vector<std::string>& types,
                                             std::initializer_list<std::string_view> known) {
  for (const std::string& type : types) {
    if (std::find(known.begin(), known.end(), type) == known.end()) {
      config.reject("layer_types", "has the type '", std::string_view(type),
                    "', which is unknown in this model");
    }
  }
}

/// Returns the type of each layer, from the list or the pattern. Empty if the file does not give
/// the number of layers.
POSENC_COLD inline std::vector<std::string> hf_layer_types(const JsonKeys& config,
                                                           const HfTypeLayers& pattern) {
  auto given = config.texts("layer_types");
  if (given) hf_check_layer_types(config, *given, {pattern.rare_type, pattern.usual_type});
  std::optional<Index> given_period;
  if (pattern.period_key != nullptr) {
    given_period = config.any_of<Index>({pattern.period_key});
    if (given_period && *given_period < 1) config.reject(pattern.period_key, "must be positive");
  }
  const auto layers = hf_layer_count(config);
  const Index period = given_period.value_or(pattern.period);
  const auto type_of = [&](Index layer) {
    return layer % period == (pattern.rare_is_first ? 0 : period - 1) ? pattern.rare_type
                                                                      : pattern.usual_type;
  };
  for_each_name(pattern.unread_period_keys, [&](std::string_view name) {
    const std::string key(name);
    const auto other = config.integer(key);
    if (other && *other != period) config.reject(key, "contradicts the pattern of layers");
  });
  if (given) {
    for (std::size_t i = 0; given_period && i < given->size(); ++i) {
      if ((*given)[i] != type_of(static_cast<Index>(i))) {
        config.reject(pattern.period_key, "contradicts layer_types");
      }
    }
    return *std::move(given);
  }
  std::vector<std::string> types;
  for (Index i = 0; i < layers.value_or(0); ++i) types.emplace_back(type_of(i));
  return types;
}

/// Returns the layers that a list of indices names, sorted.
POSENC_COLD inline std::vector<Index> hf_listed_layers(const JsonKeys& config, const char* key,
                                                       std::optional<Index> layers) {
  auto listed = config.required(key, config.integers(key));
  for (const Index layer : listed) {
    if (layer < 0 || layer >= layers.value_or(max_layers)) {
      config.reject(key, "must list existing layers");
    }
  }
  std::sort(listed.begin(), listed.end());
  return listed;
}

/// Returns layer types: `listed_type` for layers in the list, `other` for the rest.
POSENC_COLD inline std::vector<std::string> hf_layer_types_from_list(
    const std::vector<Index>& listed, Index layers, const char* listed_type, const char* other) {
  std::vector<std::string> types;
  for (Index i = 0; i < layers; ++i) {
    types.emplace_back(std::binary_search(listed.begin(), listed.end(), i) ? listed_type : other);
  }
  return types;
}

/// Reads the layer types of a period, or of a string of L (local) and G (global). The class reads
/// letters only together with the list of types.
POSENC_COLD inline void hf_read_types_of_pattern(const JsonKeys& config, const HfTypeLayers& layers,
                                                 ModelSettings& model) {
  const char* key = layers.period_key;
  const Json* pattern = config.find(key);
  const auto given = config.texts("layer_types");
  if (config.has("sliding_window") && config.find("sliding_window") == nullptr) {
    // Every layer is global and has a rotary encoding.
    if (given) hf_check_layer_types(config, *given, {full_attention});
    return;
  }
  model.types_without_rotary = {full_attention};
  if (config.has(key) && pattern == nullptr && !given) {
    config.reject(key, "is null, and there are no layer_types");
  }
  if (pattern == nullptr || !pattern->is_string()) {
    model.layer_types = hf_layer_types(config, layers);
    return;
  }
  const auto letters = *config.text(key);
  if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos) {
    config.reject(key, "must consist of the letters L and G");
  }
  model.layer_types = config.required("layer_types", given);
  hf_check_layer_types(config, model.layer_types, {full_attention, sliding_attention});
  for (std::size_t i = 0; i + 1 < model.layer_types.size(); ++i) {  // the last layer may be global
                                                                    // regardless
    const bool is_global = letters[i % letters.size()] == 'G';
    if ((model.layer_types[i] == full_attention) != is_global) {
      config.reject(key, "contradicts layer_types");
    }
  }
}

/// Reads the attention layers, by index or by type. The rest are convolutions.
POSENC_COLD inline void hf_read_convolutions(const JsonKeys& config, ModelSettings& model) {
  constexpr auto conv = "conv";
  model.types_without_rotary = {conv};
  if (auto given = config.texts("layer_types")) {
    hf_check_layer_types(config, *given, {full_attention, conv});
    model.layer_types = *std::move(given);
    constexpr auto repeated = "full_attn_idxs";
    const auto count = static_cast<Index>(model.layer_types.size());
    if (config.find(repeated) != nullptr &&
        hf_layer_types_from_list(hf_listed_layers(config, repeated, count), count, full_attention,
                                 conv) != model.layer_types) {
      config.reject(repeated, "contradicts layer_types");
    }
    return;
  }
  const auto layers = hf_layer_count(config);
  const auto listed = hf_listed_layers(config, "full_attn_idxs", layers);
  model.layer_types = hf_layer_types_from_list(listed, layers.value_or(0), full_attention, conv);
}

/// Reads the layer types of a model whose period starts at its first layer of experts. Layers that
/// see all keys have no rotary encoding. Exceptions are those before the first layer of experts, if
/// all of these see all keys.
///   Source: huggingface/transformers, cohere2_moe/configuration_cohere2_moe.py (008e574) and
///           modular_cohere2_moe.py; llama.cpp, src/models/cohere2moe.cpp (00487aa)
POSENC_COLD inline void hf_read_types_after_dense(const JsonKeys& config,
                                                  const HfTypeLayers& pattern,
                                                  ModelSettings& model) {
  const auto mlps = config.texts("mlp_layer_types").value_or(std::vector<std::string>{});
  const auto sparse =
      std::find_if(mlps.begin(), mlps.end(), [](const auto& mlp) { return mlp != "dense"; });
  const auto counted = static_cast<Index>(sparse - mlps.begin());
  const Index dense = config.integer("first_k_dense_replace").value_or(counted);
  constexpr auto dense_period_key = "prefix_dense_sliding_window_pattern";
  const Index dense_period = config.integer(dense_period_key).value_or(1);
  if (dense_period < 1) config.reject(dense_period_key, "must be positive");
  const auto layers = hf_layer_count(config);
  if (dense < 0 || dense > layers.value_or(max_layers)) {
    config.reject("first_k_dense_replace", "must lie between 0 and the number of layers");
  }
  const bool is_listed = config.texts("layer_types").has_value();
  model.layer_types = hf_layer_types(config, pattern);
  if (!is_listed && dense > 0) {  // either kind of layers has its own count
    const auto pattern_types = model.layer_types;
    for (std::size_t i = 0; i < pattern_types.size(); ++i) {
      const auto at = static_cast<Index>(i);
      model.layer_types[i] = at >= dense ? pattern_types[i - static_cast<std::size_t>(dense)]
                             : (at + 1) % dense_period == 0 ? full_attention
                                                            : sliding_attention;
    }
  }
  for (std::size_t i = 0; i < model.layer_types.size(); ++i) {
    const bool is_rotated = static_cast<Index>(i) < dense && dense_period == 1;
    if (model.layer_types[i] == full_attention && !is_rotated) {
      model.layers_without_rotary.push_back(static_cast<Index>(i));
    }
  }
}

/// Returns the number of query heads per KV head of each block of Nemotron's pruned Llamas, or
/// nullopt for blocks without attention.
///   Source: NVIDIA's configuration_decilm.py and block_config.py
POSENC_COLD inline std::vector<std::optional<Index>> hf_attention_blocks(const JsonKeys& config) {
  constexpr auto key = "block_configs";
  const Json* blocks = config.find(key);
  if (blocks == nullptr || !blocks->is_array() ||
      static_cast<Index>(blocks->elements().size()) != hf_layer_count(config).value_or(0)) {
    config.reject(key, "must be a list with an entry for each layer");
  }
  std::vector<std::optional<Index>> groups;
  for (const Json& block : blocks->elements()) {
    const Json* attention = JsonKeys(block, key).find("attention");
    if (attention == nullptr) config.reject(key, "must define the attention of each layer");
    const JsonKeys keys(*attention, "block_configs");
    const bool is_none = keys.flag("no_op").value_or(false);
    const bool is_linear = keys.flag("replace_with_linear").value_or(false);
    const auto group = keys.integer("n_heads_in_group");
    groups.push_back(is_none || is_linear
                         ? std::nullopt
                         : std::optional(keys.required("n_heads_in_group", group)));
    keys.reject_unread([](const std::string&, const Json& value) {
      return value.is_flag(false);  // the other keys are windows and sinks
    });
  }
  return groups;
}

/// Reads layer types by name, or by the number of tokens that a compressed key stands for. The list
/// may continue for layers that predict further tokens.
POSENC_COLD inline void hf_read_types_of_ratios(const JsonKeys& config, ModelSettings& model) {
  constexpr auto names = "layer_types", rates = "compress_ratios";
  const Index layers = config.required("num_hidden_layers", hf_layer_count(config));
  const auto given = config.texts(names);
  const auto ratios = config.integers(rates);
  if (given) {
    hf_check_layer_types(
        config, *given,
        {sliding_attention, "compressed_sparse_attention", "heavily_compressed_attention"});
  }
  const auto count = given ? given->size() : ratios ? ratios->size() : 0;
  if ((given || ratios) && static_cast<Index>(count) < layers) {
    config.reject(given ? names : rates, "must have an entry for each layer");
  }
  for (std::size_t i = 0; static_cast<Index>(i) < layers; ++i) {
    const bool is_local = given ? (*given)[i] == sliding_attention : ratios && (*ratios)[i] == 0;
    model.layer_types.emplace_back(is_local ? sliding_attention : compressed_attention);
  }
}

/// Reads layer types from a list of 1 (local) and 0, or by name. By default the first layer and
/// every sixth are global.
POSENC_COLD inline void hf_read_marked_types(const JsonKeys& config, ModelSettings& model) {
  constexpr auto key = "hybrid_layer_pattern";
  const auto pattern = config.integers(key);
  if (auto given = config.texts("layer_types")) {
    if (pattern) config.reject(key, "must not be set together with layer_types");
    hf_check_layer_types(config, *given, {full_attention, sliding_attention});
    model.layer_types = *std::move(given);
    return;
  }
  if (pattern) {
    for (const Index entry : *pattern) {
      if (entry != 0 && entry != 1) config.reject(key, "must be a list of 0 and 1 (local layers)");
      model.layer_types.emplace_back(entry == 1 ? sliding_attention : full_attention);
    }
    return;
  }
  for (Index i = 0; i < hf_layer_count(config).value_or(0); ++i) {
    const bool is_global = i == 0 || i % 6 == 5;
    model.layer_types.emplace_back(is_global ? full_attention : sliding_attention);
  }
}

/// Returns the required list of layer types, which may continue for layers that predict further
/// tokens.
POSENC_COLD inline std::vector<std::string> hf_required_types(const JsonKeys& config) {
  constexpr auto key = "layer_types";
  auto types = config.required(key, config.texts(key));
  hf_check_layer_types(config, types, {full_attention, sliding_attention});
  const Index layers = config.required("num_hidden_layers", hf_layer_count(config));
  if (static_cast<Index>(types.size()) < layers) {
    config.reject(key, "must have an entry for each layer");
  }
  types.resize(static_cast<std::size_t>(layers));
  return types;
}

/// Names of variants of a layer type that differ in their rotation: "full_attention",
/// "full_attention 2", ....
class HfLayerVariants {
 public:
  /// Returns the name of the variant with this base and share, and whether it is new.
  std::pair<std::string, bool> name(const std::string& type, double base, double share) {
    int of_type = 1;
    for (const Variant& known : known_) {
      if (known.type != type) continue;
      if (known.base == base && known.share == share) return {known.name, false};
      ++of_type;
    }
    const std::string name = of_type == 1 ? type : type + ' ' + std::to_string(of_type);
    known_.push_back({type, name, base, share});
    return {name, true};
  }

 private:
  struct Variant {
    std::string type, name;
    double base, share;
  };

  std::vector<Variant> known_;  ///< at most max_layer_types, because each becomes a type
};

/// Returns the layer types of files that must give the number of layers.
POSENC_COLD inline std::vector<std::string> hf_counted_types(const JsonKeys& config,
                                                             const HfTypeLayers& layers) {
  config.required("num_hidden_layers", hf_layer_count(config));
  return hf_layer_types(config, layers);
}

/// Reads the layers without rotary encoding from a list of flags. An empty list means that there
/// are none.
///   Source: vllm, vllm/model_executor/models/step3p5.py
POSENC_COLD inline void hf_read_use_rope_layers(const JsonKeys& config, ModelSettings& model) {
  constexpr auto key = "use_rope_layers";
  const auto is_rotated = config.flags(key).value_or(std::vector<bool>{});
  if (is_rotated.empty()) return;
  if (is_rotated.size() < model.layer_types.size()) {
    config.reject(key, "must have an entry for each layer");
  }
  for (std::size_t i = 0; i < model.layer_types.size(); ++i) {
    if (!is_rotated[i]) model.layers_without_rotary.push_back(static_cast<Index>(i));
  }
}

/// Reads layers without rotary encoding: those with entry 0 in the list, or every interval-th
/// layer.
POSENC_COLD inline void hf_read_no_rope_layers(const JsonKeys& config, ModelSettings& model) {
  const auto list = config.integers("no_rope_layers");
  const auto given_interval =
      config.any_of<Index>({"no_rope_layer_interval", "nope_layer_interval"});
  const Index interval = given_interval.value_or(4);
  if (interval < 1) config.reject("no_rope_layer_interval", "must be positive");
  const auto layers = hf_layer_count(config);
  if (config.find("nope_layer_interval") != nullptr && interval != 4) {
    config.reject("nope_layer_interval", "is read by no class; no_rope_layer_interval is");
  }
  if (const auto types = config.texts("layer_types")) {
    hf_check_layer_types(config, *types, {full_attention, sliding_attention, "chunked_attention"});
  }
  if (list && !list->empty()) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      if ((*list)[i] != 0 && (*list)[i] != 1) {
        config.reject("no_rope_layers", "must be a list of 0 (no rotary encoding) and 1");
      }
      if ((*list)[i] == 0) model.layers_without_rotary.push_back(static_cast<Index>(i));
    }
    return;
  }
  for (Index i = interval - 1; i < layers.value_or(0); i += interval) {
    model.layers_without_rotary.push_back(i);
  }
  // If their number is unknown, layers cannot be distinguished.
  if (!layers) model.types_without_rotary = {"layers without rotary encoding"};
}

}  // namespace detail
POSENC_END
