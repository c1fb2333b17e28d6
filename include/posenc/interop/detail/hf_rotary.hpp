// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/hf_axes.hpp>
#include <posenc/interop/detail/hf_class_rope.hpp>
#include <posenc/interop/detail/hf_head_widths.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/hf_read.hpp>
#include <posenc/interop/detail/hf_repeated_keys.hpp>
#include <posenc/interop/detail/hf_rules.hpp>
#include <posenc/interop/detail/hf_scores.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/model_settings.hpp>
#include <posenc/interop/rotary_settings.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Returns the base of a layer type that the file gives beside its rope dicts, by default that of
/// the class; nullopt if the file must give it and does not.
///   Source: huggingface/transformers, convert_rope_params_to_dict() of gemma3, gemma3n and
///           modernbert
POSENC_COLD inline std::optional<double> hf_base_of(const HfRead& read,
                                                    std::string_view layer_type) {
  const JsonKeys& config = read.config;
  const HfTypeRope& rope = read.type.rope;
  const HfBases& bases = rope.bases;
  auto shared = config.any_of<double>(hf_base_names);
  if (shared && rope.dicts == HfDicts::OneForEachType && bases.local_key == nullptr) {
    config.reject("rope_theta", "is read by no class of this type");
  }
  if (rope.is_base_fixed && shared.value_or(rope.base) != rope.base) {
    config.reject("rope_theta", "must be ", static_cast<Index>(rope.base),
                  " in a model of this type");
  }
  if (bases.global_key != nullptr) {
    if (shared) config.reject("rope_theta", "contradicts ", bases.global_key);
    shared = config.real(bases.global_key);
  }
  if (!shared && rope.base != 0) shared = rope.base;
  if (bases.local_key == nullptr) return shared;
  const auto local = config.real(bases.local_key);
  if (layer_type != sliding_attention) return shared;
  // If global layers have their own key, null (unlike an absent key) means their base.
  const bool is_null = !local && bases.global_key != nullptr && config.has(bases.local_key);
  return is_null ? shared : local.value_or(bases.local_base);
}

/// Returns a rope dict, or nullptr for null and false.
POSENC_COLD inline const Json* hf_dict_of(const JsonKeys& config, const char* key) {
  const Json* given = config.find(key);
  return given != nullptr && given->is_flag(false) ? nullptr : given;
}

/// True if the dict holds a dict per layer type. A trained length may stand beside these.
POSENC_COLD inline bool hf_is_per_layer_type(const Json& dict) {
  if (!dict.is_object()) return false;
  bool some = false;
  for (const auto& [key, element] : dict.members()) {
    const bool is_length = key == hf_original_length_key && element.is_number();
    if (!element.is_null() && !element.is_object() && !is_length) return false;
    some = some || element.is_object();
  }
  return some;
}

/// Checks that the trained length beside the dicts agrees with the one inside, or is not needed.
POSENC_COLD inline void hf_check_shared_length(const Json& dict, const JsonKeys& keys) {
  const Json* shared = dict.find(hf_original_length_key);
  const Json* inner = keys.find(hf_original_length_key);
  const bool has_rule = keys.text("rope_type").value_or("default") != "default";
  if (shared != nullptr && (inner != nullptr ? *inner != *shared : has_rule)) {
    keys.reject(hf_original_length_key, "contradicts the one of the outer dict");
  }
}

/// Requires a share of the whole head to be that of its rotary part.
POSENC_COLD inline void hf_require_share_of_head(const HfRead& read, const JsonKeys& keys,
                                                 std::optional<double> share) {
  if (share && hf_width_of_share(read.head_dim, *share) != read.rotary_width) {
    keys.reject("partial_rotary_factor", "contradicts qk_rope_head_dim");
  }
}

/// Adds the share that the caller states for an unknown type.
POSENC_COLD inline void hf_check_share_of_caller(const HfRead& read, HfRuleContext& context) {
  auto& share = context.partial_rotary_factor;
  if (!read.options.rotary_share) return;
  if (!share && !read.config.find("rotary_dim")) share = read.options.rotary_share;
  if (share && *share != *read.options.rotary_share) {
    fail<ConfigError>(JsonKeys::function, "rotary_share of the options is ",
                      *read.options.rotary_share, " but the file's share is ", *share);
  }
}

/// Returns the width of the share, or rotary_dim if the file gives that.
POSENC_COLD inline Index hf_rotary_dim(const HfRead& read, Index width,
                                       std::optional<double> share) {
  const auto given = read.config.integer("rotary_dim");
  if (read.type.rope.needs_width && !share) read.config.required("rotary_dim", given);
  const Index from_share = hf_width_of_share(width, share.value_or(read.type.rope.share));
  if (given && share && *given != from_share) {
    fail<ConfigError>(JsonKeys::function, "rotary_dim is ", *given,
                      " but partial_rotary_factor makes it ", from_share);
  }
  const Index dim = given.value_or(from_share);
  if (dim < 2 || dim % 2 != 0 || dim > width) {
    fail<ConfigError>(JsonKeys::function,
                      "the number of rotary channels must be even, and from 2 to ", width,
                      ", but is ", dim);
  }
  return dim;
}

/// Adds a rotation of half of a head. ChatGLM-6B rotates both halves, by two ids. Its successors
/// rotate the first half, by one id; CogAgent (original_rope: false) pairs the halves of that.
///
/// rope_ratio multiplies the base, as in ChatGLM3 and GLM-4. ChatGLM2-6B-32K divides positions by
/// it instead, and no key tells its file apart: for that model, replace the key by a rope_scaling
/// of the type linear whose factor is the ratio.
///   Source: vllm, vllm/model_executor/models/chatglm.py
POSENC_COLD inline void hf_add_half_heads(HfRead& read, HfRuleContext& context,
                                          RotarySettings& settings, const JsonKeys& keys) {
  context.base *= read.config.real("rope_ratio").value_or(1);
  context.full_rotary_dim = context.rotary_dim = hf_rotary_dim(read, read.head_dim, 0.5);
  // ChatGLM-6B is recognised by a key that its successors lack. Its class has two ids by default.
  const bool is_first = read.config.find("inner_hidden_size") != nullptr;
  settings.chatglm_halves = read.config.flag("position_encoding_2d").value_or(is_first);
  if (is_first && !settings.chatglm_halves) {
    read.config.reject("position_encoding_2d", "is false, which is not supported in this model");
  }
  const bool pairs_neighbours = read.config.flag("original_rope").value_or(true);
  if (settings.chatglm_halves || (!pairs_neighbours && !read.options.pairing)) {
    settings.pairing = PairingKind::HalfRotate;
  }
  settings.rule = hf_rule(keys, context);
  read.model.layers.push_back({"", std::move(settings)});
}

/// Reads the rope dict of a layer type. `own_base` is a base of this type alone beside the dict.
POSENC_COLD inline void hf_add_layer(HfRead& read, const std::string& layer_type, const Json& dict,
                                     const std::string& name,
                                     std::optional<double> own_base = std::nullopt) {
  check_layer_types(read.model.layers.size() + 1);
  const JsonKeys keys(dict, name);
  const HfTypeRope& rope = read.type.rope;
  const HfHeads heads = read.type.attention.heads;
  // The length beside the dicts replaces that of a single dict alone, as in transformers.
  const bool has_own_length = read.is_nested && keys.peek(hf_original_length_key) != nullptr;
  HfRuleContext context{.max_position = read.max_position,
                        .original_max_position = has_own_length ? std::nullopt : read.original,
                        .softmax_mscale = heads == HfHeads::Latent && rope.has_mscale,
                        .yarn_is_longrope = rope.yarn_is_longrope};
  if (rope.trained_length != 0 && !read.original && keys.find(hf_original_length_key) == nullptr) {
    context.original_max_position = rope.trained_length;
  }
  const auto dict_base = keys.any_of<double>(hf_base_names);
  const auto outer_base = own_base ? own_base : hf_base_of(read, layer_type);
  auto dict_share = keys.real("partial_rotary_factor");
  if (rope.is_mscale_ambiguous) hf_reject_magnitude(keys);
  if (rope.is_share_of_whole_head) {
    hf_require_share_of_head(read, keys, dict_share);
    dict_share.reset();  // the rotary part is rotated completely
  }
  context.base = read.config.required("rope_theta", dict_base ? dict_base : outer_base);
  context.partial_rotary_factor = dict_share ? dict_share : read.outer_share;
  hf_check_share_of_caller(read, context);

  RotarySettings settings{
      .pairing = rope.pairing, .head_dim = read.head_dim, .rotary_offset = read.rotary_offset};
  Index width = read.rotary_width;
  if (heads == HfHeads::WideGlobal && layer_type == full_attention) {
    if (read.config.has("global_head_dim") && read.config.find("global_head_dim") == nullptr) {
      read.config.reject("global_head_dim", "is null, which is not supported");
    }
    width = settings.head_dim = read.config.integer("global_head_dim").value_or(512);
    hf_check_width(read.config, "global_head_dim", width);
  }
  if (rope.form == HfRotationForm::HalfHeads)
    return hf_add_half_heads(read, context, settings, keys);
  if (heads == HfHeads::LocalByKeys && layer_type == sliding_attention) {
    width = settings.head_dim = read.config.integer("swa_head_dim").value_or(width);
    hf_check_width(read.config, "swa_head_dim", width);
  }
  if (read.type.scores.temperature == HfTemperature::ScalingBeta) {
    read.model.query_temperature = hf_scaling_beta_temperature(keys);
  }

  context.full_rotary_dim = width;
  context.rotary_dim = hf_rotary_dim(read, width, context.partial_rotary_factor);
  hf_require_neutral(read.config, "use_3d_rope", read.config.flag("use_3d_rope"),
                     rope.mrope != HfMrope::None);
  settings.axes = hf_axes(keys, rope.mrope, read.options.mrope_order, context.rotary_dim / 2);
  settings.rule = hf_rule(keys, context);
  read.model.layers.push_back({layer_type, std::move(settings)});
}

/// Reads the dicts of a model some of whose layers have compressed keys. These have scaling and
/// their own base; local layers are unscaled. The factor of cos and sin is 1 in all layers.
POSENC_COLD inline void hf_read_compressed_layers(HfRead& read, const Json& dict,
                                                  const std::string& name) {
  const Json nothing = Json::object();
  const JsonKeys parts(dict, name);
  const Json* main = read.is_nested ? parts.find("main") : nullptr;
  const Json* compress = read.is_nested ? parts.find("compress") : &dict;
  if (read.is_nested && (main == nullptr || compress == nullptr || dict.members().size() != 2)) {
    read.config.reject(name, "must have main and compress, or neither");
  }
  if (!read.is_nested && parts.find("rope_theta") != nullptr) {
    read.config.reject(name, "has one rope_theta, which cannot apply to both types of layers");
  }
  Json scaled = *compress;
  if (JsonKeys(scaled, name).find("type") != nullptr ||
      JsonKeys(scaled, name).find("rope_type") != nullptr) {
    const auto is_default = [&scaled](const char* key) {
      const Json* type = scaled.find(key);
      return type == nullptr || type->is_text("default");
    };
    const bool is_plain = is_default("rope_type") && is_default("type");
    if (!is_plain && !scaled.contains("attention_factor")) scaled["attention_factor"] = 1.0;
  }
  hf_add_layer(read, sliding_attention, main != nullptr ? *main : nothing, name);
  hf_add_layer(read, compressed_attention, scaled, name,
               read.config.real("compress_rope_theta").value_or(160000));
}

/// Reads lists of type, base and rotary share of each layer.
POSENC_COLD inline void hf_read_layers_of_lists(HfRead& read, const Json& dict,
                                                const std::string& name) {
  const auto types = hf_required_types(read.config);
  if (read.is_nested) {  // the form in which transformers saves them
    for (const auto& [type, parameters] : dict.members()) {
      if (parameters.is_null() || parameters.is_number()) continue;
      hf_add_layer(read, type, parameters, name + "." + type, read.type.rope.base);
    }
    read.model.layer_types = types;
    return hf_read_use_rope_layers(read.config, read.model);
  }
  const Json* base = read.config.find("rope_theta");
  const bool is_list = base != nullptr && base->is_array();
  const auto bases =
      is_list ? *read.config.reals("rope_theta")
              : std::vector<double>(types.size(),
                                    read.config.real("rope_theta").value_or(read.type.rope.base));
  auto shares = read.config.reals("partial_rotary_factors").value_or(std::vector<double>{});
  if (bases.size() < types.size()) {
    read.config.reject("rope_theta", "must have an entry for each layer");
  }
  shares.resize((std::max)(shares.size(), types.size()), 1.0);
  const auto scaled = read.config.texts("yarn_only_types");
  const Json nothing = Json::object();
  HfLayerVariants variants;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const auto [variant, is_new] = variants.name(types[i], bases[i], shares[i]);
    if (is_new) {
      const bool is_scaled =
          !scaled || std::find(scaled->begin(), scaled->end(), types[i]) != scaled->end();
      read.outer_share = shares[i];
      hf_add_layer(read, variant, is_scaled ? dict : nothing, name, bases[i]);
    }
    read.model.layer_types.push_back(variant);
  }
  hf_read_use_rope_layers(read.config, read.model);
}

/// Reads a list of bases, one per layer, which overrides the dict's base. 0 means no rotary
/// encoding.
///   Source: huggingface/transformers, granite_swa/modular_granite_swa.py (1b27b6b)
POSENC_COLD inline void hf_read_layers_of_bases(HfRead& read, const Json& dict,
                                                const std::string& name) {
  constexpr auto list = "layer_rope_theta";
  const auto types = hf_counted_types(read.config, read.type.layers);
  const auto bases = read.config.reals(list);
  if (bases && bases->size() != types.size()) {
    read.config.reject(list, "must have an entry for each layer");
  }
  HfLayerVariants variants;
  for (std::size_t i = 0; i < types.size(); ++i) {
    read.model.layer_types.push_back(types[i]);
    const double base = bases ? (*bases)[i] : 0;
    if (bases && base == 0) {
      read.model.layers_without_rotary.push_back(static_cast<Index>(i));
      continue;
    }
    const auto [variant, is_new] = variants.name(types[i], base, 1);
    if (is_new) {
      Json rotated = dict;  // once for each variant, because a dict may be large
      if (bases && dict.is_object()) rotated["rope_theta"] = base;
      hf_add_layer(read, variant, rotated, name);
    }
    read.model.layer_types.back() = variant;
  }
  if (read.model.layers.empty()) read.config.reject(list, "lists no layer with a rotary encoding");
}

/// Rejects dicts for layer types that this model does not have, and missing dicts, because a
/// default would be a guess.
POSENC_COLD inline void hf_require_types_of_class(const HfRead& read, const Json& dict,
                                                  const std::string& name) {
  if (read.type.rope.dicts == HfDicts::AnyTypes) return;
  if (read.type.rope.dicts == HfDicts::One) {
    read.config.reject(name, "has a dict per type of layer, but this model's layers share one");
  }
  const JsonKeys types(dict, name);
  for (const char* type : {full_attention, sliding_attention}) {
    if (types.find(type) == nullptr) read.config.reject(name, "must have ", type);
  }
  types.reject_unread([](const std::string&, const Json&) { return false; });
}

/// Reads the rope dict, or one dict per layer type.
POSENC_COLD inline void hf_read_rope_layers(HfRead& read) {
  const Json* current = hf_dict_of(read.config, "rope_parameters");
  const Json* legacy = hf_dict_of(read.config, "rope_scaling");
  if (current != nullptr && legacy != nullptr && !hf_dicts_agree(*current, *legacy)) {
    fail<ConfigError>(JsonKeys::function,
                      "rope_parameters and rope_scaling are both given, and differ");
  }
  const Json* given = current != nullptr ? current : legacy;
  const std::string name = current != nullptr ? "rope_parameters" : "rope_scaling";
  const Json nothing = Json::object();
  const Json default_dict =
      given == nullptr ? hf_class_rope(read.config, read.type.rope, read.model.model_type) : Json();
  const Json& dict = given != nullptr ? *given : default_dict;

  if (given != nullptr)
    hf_check_repeated_keys_of_layers(read.config, read.type.rope.bases,
                                     JsonKeys(dict, name).object(), name);
  read.is_nested = hf_is_per_layer_type(dict);
  const HfLayers form = read.type.layers.form;
  if (form == HfLayers::Ratios) return hf_read_compressed_layers(read, dict, name);
  if (form == HfLayers::ListedRotations) return hf_read_layers_of_lists(read, dict, name);
  if (form == HfLayers::ListedBases) return hf_read_layers_of_bases(read, dict, name);
  if (read.is_nested) {
    for (const auto& [layer_type, parameters] : dict.members()) {
      if (parameters.is_null() && read.type.rope.null_is_no_rotary) {
        read.model.types_without_rotary.push_back(layer_type);
      }
      if (parameters.is_null() || parameters.is_number()) continue;
      hf_check_shared_length(dict, JsonKeys(parameters, name + "." + layer_type));
      hf_add_layer(read, layer_type, parameters, name + "." + layer_type);
    }
    hf_require_types_of_class(read, dict, name);
    return;
  }
  const HfDicts dicts = read.type.rope.dicts;
  if (dicts == HfDicts::AnyTypes || dicts == HfDicts::One) {
    hf_add_layer(read, "", dict, name);
    if (read.type.rope.form == HfRotationForm::PatchGrid)
      hf_set_grid_axes(read.config, read.model.layers.back().rotary);
    return;
  }
  if (dicts == HfDicts::OneForEachType && given != nullptr) {
    read.config.reject(name, "must have a dict for each type of layer in this model");
  }
  const bool never_scales = dicts == HfDicts::NeverScales;
  if (never_scales) hf_reject_single_scaling(read.config, dict, name);
  const bool has_local_base = read.type.rope.bases.local_key != nullptr;
  hf_add_layer(read, full_attention, dict, name);
  hf_add_layer(read, sliding_attention,
               never_scales     ? hf_erase_base(dict)
               : has_local_base ? nothing
                                : hf_unscaled_dict(dict),
               name);
}

}  // namespace detail
POSENC_END
