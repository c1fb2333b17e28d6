// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/hf_rules.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/detail/json_parser.hpp>
#include <posenc/interop/rotary_settings.hpp>
#include <posenc/rotary/pair_axes.hpp>

#include <string>
#include <variant>

POSENC_BEGIN
namespace detail {

/// Returns the dict's base in a dict without scaling.
POSENC_COLD inline Json hf_unscaled_dict(const Json& dict) {
  constexpr auto key = "rope_theta";
  const Json* base = dict.find(key);
  return base != nullptr ? Json::object({{key, *base}}) : Json::object();
}

/// Returns the dict without its base.
POSENC_COLD inline Json hf_erase_base(Json dict) {
  dict.erase("rope_theta");
  return dict;
}

/// Returns a dict whose old key "type" is renamed to "rope_type", unless both exist and differ.
POSENC_COLD inline Json hf_with_rope_type(Json dict) {
  constexpr auto older = "type", newer = "rope_type";
  if (!dict.contains(older)) return dict;
  if (!dict.contains(newer)) dict[newer] = dict[older];
  const Json &type = dict[older], &given = dict[newer];
  const bool are_aliases =
      type.is_string() && given.is_string() &&
      hf_canonical_type(type.text(), {}) == hf_canonical_type(given.text(), {});
  if (type == given || are_aliases) dict.erase(older);
  return dict;
}

/// True if two dicts agree, up to the names of the type, and up to a base that the older form has
/// beside the dict.
POSENC_COLD inline bool hf_dicts_agree(const Json& current, const Json& legacy) {
  const bool has_base = legacy.contains("rope_theta");
  const auto newer = hf_with_rope_type(current), older = hf_with_rope_type(legacy);
  return newer == older || (!has_base && hf_erase_base(newer) == older);
}

/// Sets the axes of a grid of patches: half of the file's pairs rotate by rows, half by columns, at
/// the positions of dinov3_grid().
///   Source: huggingface/transformers, dinov3_vit/configuration_dinov3_vit.py (028ea9a) and
///           modeling_dinov3_vit.py (015e687)
POSENC_COLD inline void hf_set_grid_axes(const JsonKeys& config, RotarySettings& settings) {
  for (const char* key : {"pos_embed_shift", "pos_embed_jitter", "pos_embed_rescale"}) {
    config.real(key);  // random augmentation in training: Dinov3Augmentation
  }
  const Index dim = rotary_dim(settings);
  const bool is_plain =
      std::holds_alternative<Unscaled>(settings.rule) && settings.axes.plain() && dim % 4 == 0;
  if (!is_plain || dim != settings.head_dim) {
    fail<ConfigError>(JsonKeys::function,
                      "a 'dinov3_vit' must rotate all channels of a head, whose number is "
                      "divisible by 4, and have no scaling, but rotates ",
                      dim, " channels of ", settings.head_dim);
  }
  settings.axes = PairAxes::sections({dim / 4, dim / 4}).with_kind(PositionKind::PatchCentres);
  settings.index_per_axis = true;
}

/// Rejects scaling in a single dict for layers of two types: MiMo-V2's own class applies it to all
/// layers, and transformers' conversion to global layers only.
///   Source: XiaomiMiMo/MiMo-V2-Flash, modeling_mimo_v2_flash.py; huggingface/transformers,
///           mimo_v2_flash/convert_mimo_v2_flash_weights_to_hf.py (019770d)
POSENC_COLD inline void hf_reject_single_scaling(const JsonKeys& config, const Json& dict,
                                                 const std::string& name) {
  if (hf_rope_type(JsonKeys(dict, name), {}) == "default") return;
  config.reject(name,
                "scales local layers in one class of this model and not in another; it must have a "
                "dict for each type of layer");
}

/// Rejects an mscale_all_dim whose magnitude is not 1. Newer releases of Mistral 4's class in
/// transformers multiply the scale of scores by the square of the magnitude, as DeepSeek-V3's class
/// does. The releases that came with the model do not. Mistral's converter writes 1 for weights
/// without a magnitude (apply_scale is false), and 0 for those with one.
///   Source: huggingface/transformers, mistral4/modular_mistral4.py (0207579) and later versions of
///           it; SGLang, compute_mla_mscale_scaling()
POSENC_COLD inline void hf_reject_magnitude(const JsonKeys& rope) {
  constexpr auto key = "mscale_all_dim";
  const double mscale = rope.real(key).value_or(0), factor = rope.real("factor").value_or(1);
  const bool is_plain = hf_rope_type(rope, {}) == "default";
  const double magnitude = yarn_mscale(factor, mscale);
  if (is_plain || mscale == 0 || magnitude == 1) return;
  rope.reject(
      key,
      "multiplies the scale of scores by (0.1 mscale_all_dim ln(factor) + 1)^2 in newer releases "
      "of transformers and by 1 in older ones, as Mistral's own files do where apply_scale is "
      "false; for the latter, remove mscale and mscale_all_dim and set attention_factor to 1");
}

/// Returns the default dict of the class, for files without scaling.
POSENC_COLD inline Json hf_class_rope(const JsonKeys& config, const HfTypeRope& rope,
                                      const std::string& type) {
  if (rope.must_have_dict) {
    fail<ConfigError>(JsonKeys::function,
                      "the configuration must have rope_parameters: the class of '", type,
                      "' scales by default");
  }
  if (rope.is_null_ambiguous && (config.has("rope_scaling") || config.has("rope_parameters"))) {
    config.reject("rope_scaling", "is null, which releases of the class read differently");
  }
  if (rope.is_other_base_ambiguous) {
    const auto base = config.any_of<double>(hf_base_names);
    if (base.value_or(rope.base) != rope.base) {
      config.reject("rope_theta", "is not ", static_cast<Index>(rope.base),
                    ", which releases of the class read differently");
    }
  }
  return rope.default_dict.empty() ? Json::object()
                                   : JsonParser(JsonKeys::function, rope.default_dict).parse();
}

}  // namespace detail
POSENC_END
