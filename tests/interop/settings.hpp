// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/interop/model_settings.hpp>

#include <string>

namespace support {

/// Returns the first difference of two rotary encodings in what they compute, or an empty string.
inline std::string difference(const posenc::RotarySettings& a, const posenc::RotarySettings& b) {
  if (a.rule.index() != b.rule.index()) return "rule";
  if (a.pairing != b.pairing) return "pairing";
  if (a.head_dim != b.head_dim) return "head_dim";
  if (a.rotary_offset != b.rotary_offset) return "rotary_offset";
  if (!(a.axes == b.axes)) return "axes";
  if (a.index_per_axis != b.index_per_axis) return "index_per_axis";
  if (a.chatglm_halves != b.chatglm_halves) return "chatglm_halves";
  for (const posenc::Index length : {1, 4096, 5000, 1000000}) {
    if (!(frequencies(a, length) == frequencies(b, length))) return "frequencies";
  }
  return "";
}

inline std::string difference(const posenc::ModelSettings& a, const posenc::ModelSettings& b) {
  if (a.model_type != b.model_type) return "model_type";
  if (a.layer_types != b.layer_types) return "layer_types";
  if (a.layers_without_rotary != b.layers_without_rotary) return "layers_without_rotary";
  if (a.types_without_rotary != b.types_without_rotary) return "types_without_rotary";
  if (a.trained_length != b.trained_length) return "trained_length";
  if (a.softmax_scale != b.softmax_scale) return "softmax_scale";
  if (a.softcap != b.softcap) return "softcap";
  if (a.query_temperature != b.query_temperature) return "query_temperature";
  if (a.layers.size() != b.layers.size()) return "layers";
  for (const posenc::LayerRotary& layer : a.layers) {
    const auto found = difference(layer.rotary, rotary(b, layer.layer_type));
    if (!found.empty()) return "layers '" + layer.layer_type + "': " + found;
  }
  return "";
}

}  // namespace support
