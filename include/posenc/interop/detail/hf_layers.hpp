// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_attention_defaults.hpp>
#include <posenc/interop/detail/hf_layer_patterns.hpp>
#include <posenc/interop/detail/hf_model_types.hpp>
#include <posenc/interop/detail/hf_own_layers.hpp>
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

/// Lists with an entry for each layer.
inline constexpr auto hf_lists_of_layers = std::to_array<const char*>(
    {"layer_types", "layers_block_type", "hybrid_layer_pattern", "no_rope_layers"});

/// Types whose lists go on for layers that predict further tokens.
inline constexpr auto hf_types_with_longer_lists =
    std::to_array<std::string_view>({"deepseek_v4", "step3p5"});

/// The list that is as good as none where it is empty.
inline constexpr std::string_view hf_list_that_may_be_empty = "no_rope_layers";

/// Refuses a list that has entries for another number of layers than the model has.
inline void hf_check_lengths_of_lists(const JsonKeys& config, const ModelSettings& model) {
  const auto layers = hf_layer_count(config);
  const bool may_be_longer =
      std::find(hf_types_with_longer_lists.begin(), hf_types_with_longer_lists.end(),
                model.model_type) != hf_types_with_longer_lists.end();
  for (const char* key : hf_lists_of_layers) {
    const nlohmann::json* list = layers ? config.peek(key) : nullptr;
    if (list == nullptr || !list->is_array()) continue;
    if (list->empty() && key == hf_list_that_may_be_empty) continue;
    const auto size = static_cast<Index>(list->size());
    if (may_be_longer ? size < *layers : size != *layers) {
      config.refuse(key, "has " + std::to_string(size) + " entries for " + std::to_string(*layers) +
                             " layers");
    }
  }
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
    case HfFamily::GraniteSwa:
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
    case HfFamily::Cohere2Moe:
      hf_read_cohere2_moe_types(config, model);
      break;
    case HfFamily::ListedAttention: {
      constexpr auto mamba = "mamba";
      const Index layers = config.required("num_hidden_layers", hf_layer_count(config));
      const auto listed = hf_listed_layers(config, "attn_layer_indices", layers);
      model.layer_types = hf_types_by_list(listed, layers, full_attention, mamba);
      model.types_without_rotary = {mamba};
      break;
    }
    case HfFamily::NemotronNas:
      for (const auto& group : hf_attention_blocks(config)) {
        model.layer_types.emplace_back(group ? full_attention : no_attention);
      }
      model.types_without_rotary = {no_attention};
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
        const bool is_full = model.model_type == "laguna" || model.model_type == "mellum";
        if (types.empty() && is_full && layers) {
          types.assign(static_cast<std::size_t>(*layers), full_attention);
        }
        model.layer_types = std::move(types);
      } else {
        // Windows and chosen keys apart, these are alike.
        const std::string sparse(find_hf_attention_defaults(model.model_type).sparse);
        std::replace(types.begin(), types.end(), sparse, std::string(full_attention));
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
