// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/hf_model_types.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/model_settings.hpp>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

constexpr auto full_attention = "full_attention";
constexpr auto sliding_attention = "sliding_attention";
constexpr auto compressed_attention = "compressed";

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

/// Layers of two types, every period-th of the one that is `rare`.
struct HfPattern {
  const char* period_key;  ///< nullptr where the class has none
  Index usual_period;
  bool rare_is_first = false;  ///< of its period, or else last
  const char* rare = full_attention;
  const char* usual = sliding_attention;
  std::vector<const char*> same = {};  ///< keys that no class reads and that must agree
};

/// The type of each layer: the list, or the pattern; empty where the file does not tell how many
/// layers there are.
inline std::vector<std::string> hf_layer_types(const JsonKeys& config, const HfPattern& pattern) {
  auto given = config.texts("layer_types");
  if (given) hf_check_layer_types(config, *given, {pattern.rare, pattern.usual});
  std::optional<Index> own_period;
  if (pattern.period_key != nullptr) {
    own_period = config.any_of<Index>({pattern.period_key});
    if (own_period && *own_period < 1) config.refuse(pattern.period_key, "must be positive");
  }
  const auto layers = hf_layer_count(config);
  const Index period = own_period.value_or(pattern.usual_period);
  const auto type_of = [&](Index layer) {
    return layer % period == (pattern.rare_is_first ? 0 : period - 1) ? pattern.rare
                                                                      : pattern.usual;
  };
  for (const char* key : pattern.same) {
    const auto other = config.integer(key);
    if (other && *other != period) config.refuse(key, "contradicts the pattern of layers");
  }
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

/// EXAONE 4 may write its pattern as letters: L for local layers, G for global ones. Its class reads
/// letters only beside the list of types.
inline void hf_read_exaone4_types(const JsonKeys& config, ModelSettings& model) {
  constexpr auto key = "sliding_window_pattern";
  const nlohmann::json* pattern = config.find(key);
  const auto given = config.texts("layer_types");
  if (config.has("sliding_window") && config.find("sliding_window") == nullptr) {
    // Every layer is global, and turns.
    if (given) hf_check_layer_types(config, *given, {full_attention});
    return;
  }
  model.types_without_rotary = {full_attention};
  if (config.has(key) && pattern == nullptr && !given) {
    config.refuse(key, "is null, and there are no layer_types");
  }
  if (pattern == nullptr || !pattern->is_string()) {
    model.layer_types = hf_layer_types(config, {.period_key = key, .usual_period = 4});
    return;
  }
  const auto letters = *config.text(key);
  if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos) {
    config.refuse(key, "must be made of the letters L and G");
  }
  model.layer_types = config.required("layer_types", given);
  hf_check_layer_types(config, model.layer_types, {full_attention, sliding_attention});
  for (std::size_t i = 0; i + 1 < model.layer_types.size(); ++i) {  // the last may be global anyway
    const bool is_global = letters[i % letters.size()] == 'G';
    if ((model.layer_types[i] == full_attention) != is_global) {
      config.refuse(key, "contradicts layer_types");
    }
  }
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

/// LFM2 has its layers of attention by index or by type; the rest are convolutions.
inline void hf_read_lfm2_types(const JsonKeys& config, ModelSettings& model) {
  constexpr auto conv = "conv";
  model.types_without_rotary = {conv};
  if (auto given = config.texts("layer_types")) {
    hf_check_layer_types(config, *given, {full_attention, conv});
    model.layer_types = *std::move(given);
    return;
  }
  const auto layers = hf_layer_count(config);
  const auto listed = hf_listed_layers(config, "full_attn_idxs", layers);
  model.layer_types = hf_types_by_list(listed, layers.value_or(0), full_attention, conv);
}

/// DeepSeek-V4 has the types of its layers by name, or by how many tokens a key stands for; the list may
/// go on for layers that predict further tokens.
inline void hf_read_deepseek_v4_types(const JsonKeys& config, ModelSettings& model) {
  constexpr auto names = "layer_types", rates = "compress_ratios";
  const Index layers = config.required("num_hidden_layers", hf_layer_count(config));
  for (const char* key : {"compress_rates", "compress_rate_csa", "compress_rate_hca"}) {
    config.find(key);  // how many tokens a key stands for
  }
  const auto given = config.texts(names);
  const auto ratios = config.integers(rates);
  if (given) {
    hf_check_layer_types(
        config, *given,
        {sliding_attention, "compressed_sparse_attention", "heavily_compressed_attention"});
  }
  const auto count = given ? given->size() : ratios ? ratios->size() : 0;
  if ((given || ratios) && static_cast<Index>(count) < layers) {
    config.refuse(given ? names : rates, "must have an entry for each layer");
  }
  for (std::size_t i = 0; static_cast<Index>(i) < layers; ++i) {
    const bool is_local = given ? (*given)[i] == sliding_attention : ratios && (*ratios)[i] == 0;
    model.layer_types.emplace_back(is_local ? sliding_attention : compressed_attention);
  }
}

/// MiMo-V2 has local layers by a list of 1 and 0, or by type.
inline void hf_read_mimo_v2_types(const JsonKeys& config, ModelSettings& model) {
  constexpr auto key = "hybrid_layer_pattern";
  const auto pattern = config.integers(key);
  if (auto given = config.texts("layer_types")) {
    if (pattern) config.refuse(key, "stands beside layer_types");
    hf_check_layer_types(config, *given, {full_attention, sliding_attention});
    model.layer_types = *std::move(given);
    return;
  }
  if (pattern) {
    for (const Index entry : *pattern) {
      if (entry != 0 && entry != 1) config.refuse(key, "must be a list of 0 and 1 (local layers)");
      model.layer_types.emplace_back(entry == 1 ? sliding_attention : full_attention);
    }
    return;
  }
  for (Index i = 0; i < hf_layer_count(config).value_or(0); ++i) {
    const bool is_global = i == 0 || i % 6 == 5;
    model.layer_types.emplace_back(is_global ? full_attention : sliding_attention);
  }
}

/// Step 3.5's list goes on for layers that predict further tokens.
inline std::vector<std::string> hf_step35_types(const JsonKeys& config) {
  constexpr auto key = "layer_types";
  auto types = config.required(key, config.texts(key));
  hf_check_layer_types(config, types, {full_attention, sliding_attention});
  const Index layers = config.required("num_hidden_layers", hf_layer_count(config));
  if (static_cast<Index>(types.size()) < layers) {
    config.refuse(key, "must have an entry for each layer");
  }
  types.resize(static_cast<std::size_t>(layers));
  return types;
}

/// Step 3.5's layers without rotary encoding; an empty list is none.
///   Source: vllm, vllm/model_executor/models/step3p5.py
inline void hf_read_use_rope_layers(const JsonKeys& config, ModelSettings& model) {
  constexpr auto key = "use_rope_layers";
  const auto turns = config.flags(key).value_or(std::vector<bool>{});
  if (turns.empty()) return;
  if (turns.size() < model.layer_types.size()) {
    config.refuse(key, "must have an entry for each layer");
  }
  for (std::size_t i = 0; i < model.layer_types.size(); ++i) {
    if (!turns[i]) model.layers_without_rotary.push_back(static_cast<Index>(i));
  }
}

/// Layers without rotary encoding: those whose entry in the list is 0, or every interval-th one.
inline void hf_read_no_rope_layers(const JsonKeys& config, ModelSettings& model) {
  const auto list = config.integers("no_rope_layers");
  const auto own = config.any_of<Index>({"no_rope_layer_interval", "nope_layer_interval"});
  const Index interval = own.value_or(4);
  if (interval < 1) config.refuse("no_rope_layer_interval", "must be positive");
  const auto layers = hf_layer_count(config);
  if (config.find("nope_layer_interval") != nullptr && interval != 4) {
    config.refuse("nope_layer_interval", "is read by no class; no_rope_layer_interval is");
  }
  if (const auto types = config.texts("layer_types")) {
    hf_check_layer_types(config, *types, {full_attention, sliding_attention, "chunked_attention"});
  }
  if (list && !list->empty()) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      if ((*list)[i] != 0 && (*list)[i] != 1) {
        config.refuse("no_rope_layers", "must be a list of 0 (no rotary encoding) and 1");
      }
      if ((*list)[i] == 0) model.layers_without_rotary.push_back(static_cast<Index>(i));
    }
    return;
  }
  for (Index i = interval - 1; i < layers.value_or(0); i += interval) {
    model.layers_without_rotary.push_back(i);
  }
  // Without their number no layer can be told from another.
  if (!layers) model.types_without_rotary = {"layers without rotary encoding"};
}

/// What the type of model implies for its layers.
inline void hf_read_layer_types(const JsonKeys& config, HfFamily family, ModelSettings& model) {
  switch (family) {
    case HfFamily::Gemma3:
      model.layer_types = hf_layer_types(config, {.period_key = "sliding_window_pattern",
                                                  .usual_period = 6,
                                                  .same = {"_sliding_window_pattern"}});
      break;
    case HfFamily::Gemma3n:
      model.layer_types = hf_layer_types(config, {.period_key = nullptr, .usual_period = 5});
      break;
    case HfFamily::Gemma4:
      model.layer_types = hf_layer_types(config, {.period_key = nullptr, .usual_period = 6});
      // The class makes the last layer a global one, whatever the file says.
      if (!model.layer_types.empty()) model.layer_types.back() = full_attention;
      break;
    case HfFamily::ModernBert:
      model.layer_types =
          hf_layer_types(config, {.period_key = "global_attn_every_n_layers",
                                  .usual_period = 3,
                                  .rare_is_first = model.model_type != "modernbert-decoder"});
      break;
    case HfFamily::FirstGlobal:
      model.layer_types =
          hf_layer_types(config, {.period_key = nullptr, .usual_period = 4, .rare_is_first = true});
      break;
    case HfFamily::Olmo3:
      model.layer_types = hf_layer_types(config, {.period_key = nullptr, .usual_period = 4});
      break;
    case HfFamily::Cohere2:
      if (config.has("sliding_window") && config.find("sliding_window") == nullptr) {
        config.refuse("sliding_window", "is null, and no layer without a window turns");
      }
      model.layer_types =
          hf_layer_types(config, {.period_key = "sliding_window_pattern",
                                  .usual_period = 4,
                                  .same = {"_sliding_window_pattern", "layer_switch"}});
      model.types_without_rotary = {full_attention};
      break;
    case HfFamily::Afmoe:
      model.layer_types =
          hf_layer_types(config, {.period_key = "global_attn_every_n_layers", .usual_period = 4});
      model.types_without_rotary = {full_attention};
      break;
    case HfFamily::DeepSeekV4:
      hf_read_deepseek_v4_types(config, model);
      break;
    case HfFamily::Step35:
      break;  // read with their bases
    case HfFamily::MimoV2:
      hf_read_mimo_v2_types(config, model);
      break;
    case HfFamily::GraniteHybrid: {
      constexpr auto key = "layer_types", mamba = "mamba", attention = "attention";
      const auto given = config.texts("layers_block_type");
      model.layer_types = config.required(key, given ? given : config.texts(key));
      hf_check_layer_types(config, model.layer_types, {mamba, attention});
      model.types_without_rotary = {mamba};
      break;
    }
    case HfFamily::Exaone4:
      hf_read_exaone4_types(config, model);
      break;
    case HfFamily::Hybrid:
    case HfFamily::HybridMrope: {
      constexpr auto linear = "linear_attention";
      for (const char* key :
           {"linear_conv_kernel_dim", "linear_key_head_dim", "linear_num_key_heads",
            "linear_num_value_heads", "linear_value_head_dim"}) {
        config.find(key);
      }
      const bool is_olmo = model.model_type == "olmo_hybrid";
      model.layer_types =
          hf_layer_types(config, {.period_key = is_olmo ? nullptr : "full_attention_interval",
                                  .usual_period = 4,
                                  .usual = linear});
      model.types_without_rotary = {linear};
      break;
    }
    case HfFamily::Lfm2:
      hf_read_lfm2_types(config, model);
      break;
    case HfFamily::Mllama: {
      constexpr auto cross = "cross_attention";
      const auto layers = hf_layer_count(config);
      model.layers_without_rotary = hf_listed_layers(config, "cross_attention_layers", layers);
      model.layer_types = hf_types_by_list(model.layers_without_rotary, layers.value_or(0), cross,
                                           "self_attention");
      if (layers) model.types_without_rotary = {cross};
      break;
    }
    case HfFamily::NoRopeLayers:
      hf_read_no_rope_layers(config, model);
      break;
    default: {
      auto types = config.texts("layer_types").value_or(std::vector<std::string>{});
      if (model.layers.size() > 1) {
        const auto layers = hf_layer_count(config);
        if (types.empty() && model.model_type == "laguna" && layers) {
          types.assign(static_cast<std::size_t>(*layers), full_attention);
        }
        model.layer_types = std::move(types);
      } else {
        // Windows apart, these are alike.
        hf_check_layer_types(config, types,
                             {full_attention, sliding_attention, "chunked_attention"});
      }
    }
  }
  if (static_cast<Index>(model.layer_types.size()) > most_layers) {
    config.refuse("layer_types", "has more than 65536 entries");
  }
}

}  // namespace detail
POSENC_END
