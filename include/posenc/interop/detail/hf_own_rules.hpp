// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/json_keys.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <utility>

// Rules that types tell in a form of their own, brought into the usual one.
POSENC_BEGIN
namespace detail {

/// Gives a key its usual name too, under which no other value may stand.
inline void hf_set_usual(nlohmann::json& config, const JsonKeys& own, const std::string& key,
                         const std::string& usual, const nlohmann::json& value) {
  const auto at = config.find(usual);
  if (at != config.end() && !at->is_null() && *at != value) {
    own.refuse(key, "contradicts " + usual);
  }
  config[usual] = value;
}

/// InternLM's first models of 20B have a dict of their own.
inline void hf_set_internlm_rule(const JsonKeys& whole, nlohmann::json& config) {
  constexpr auto part = "rotary";
  const nlohmann::json* own = whole.find(part);
  if (own == nullptr || !own->is_object()) return;
  config.erase(part);
  const JsonKeys keys(*own, part);
  if (const auto base = keys.real("base")) hf_set_usual(config, keys, "base", "rope_theta", *base);
  const auto type = keys.text("type").value_or("origin");
  if (type != "origin" && type != "dynamic") keys.refuse("type", "has a value that is unknown");
  const double factor = keys.real("scaling_factor").value_or(1);
  if (type == "dynamic") {
    hf_set_usual(config, keys, "type", "rope_scaling", {{"type", type}, {"factor", factor}});
  }
  keys.refuse_unread(hf_may_ignore);
}

/// TeleChat's base is stretched for texts of the length that it was trained with; beyond that it grows with the
/// text, which is not read.
///   Source: Tele-AI's modeling_telechat.py, RotaryEmbedding, for texts up to training_seqlen
inline void hf_set_telechat_rule(const JsonKeys& keys, nlohmann::json& config) {
  const auto base = keys.integer("base_seqlen"), trained = keys.integer("training_seqlen");
  if (trained) config["max_position_embeddings"] = *trained;
  if (trained && !base) {
    keys.refuse("training_seqlen",
                "needs base_seqlen, which releases of the class have a number for");
  }
  if (!base || !trained || *trained <= *base || *base < 1) return;
  if (keys.find("rope_scaling") != nullptr) keys.refuse("rope_scaling", "contradicts base_seqlen");
  Index steps = 0;  // ceil(log2(trained / base))
  while (steps < 32 && (*base << steps) < *trained) ++steps;
  const auto alpha = static_cast<double>((Index{1} << (steps + 1)) - 1);
  config["rope_scaling"] = {{"type", "dynamic"}, {"alpha", alpha}};
}

/// The rope dict under whichever name it has, and that name; nullptr where there is none.
inline std::pair<const nlohmann::json*, const char*> hf_rope_dict(const JsonKeys& keys) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    const nlohmann::json* dict = keys.find(name);
    if (dict != nullptr && dict->is_object()) return {dict, name};
  }
  return {nullptr, nullptr};
}

/// Molmo 2 may scale some of its layers alone; the others turn by the same base.
///   Source: huggingface/transformers, molmo2/configuration_molmo2.py (05c6ac4); allenai/molmo2, the
///           conversion of its checkpoints
inline void hf_set_molmo2_scaling(const JsonKeys& keys, nlohmann::json& config) {
  constexpr auto list = "rope_scaling_layers";
  const auto scaled = keys.integers(list);
  config.erase(list);
  const auto [dict, name] = hf_rope_dict(keys);
  const auto layers = keys.integer("num_hidden_layers");
  if (!scaled || dict == nullptr || !layers) return;
  auto types = nlohmann::json::array();
  for (Index i = 0; i < *layers && i < 65536; ++i) {
    const bool is_scaled = std::find(scaled->begin(), scaled->end(), i) != scaled->end();
    types.push_back(is_scaled ? "full_attention" : "unscaled_attention");
  }
  for (const Index layer : *scaled) {
    if (layer < 0 || layer >= *layers) keys.refuse(list, "must name layers that there are");
  }
  if (std::find(types.begin(), types.end(), "unscaled_attention") == types.end()) return;
  auto plain = nlohmann::json::object();
  if (dict->contains("rope_theta")) plain["rope_theta"] = dict->at("rope_theta");
  if (scaled->empty()) {
    config[name] = plain;
    return;
  }
  hf_set_usual(config, keys, list, "layer_types", types);
  config[name] = {{"full_attention", *dict}, {"unscaled_attention", plain}};
}

/// HunyuanVL's sections are those of XD-RoPE, be they called mrope_section.
///   Source: huggingface/transformers, hunyuan_vl/configuration_hunyuan_vl.py (043bb8d)
inline void hf_set_xdrope_section(const JsonKeys& keys, nlohmann::json& config) {
  constexpr auto newer = "mrope_section", own = "xdrope_section";
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    const nlohmann::json* dict = keys.find(name);
    if (dict == nullptr || !dict->is_object() || !dict->contains(newer)) continue;
    nlohmann::json& renamed = config[name];
    hf_set_usual(renamed, JsonKeys(*dict, name), newer, own, dict->at(newer));
    renamed.erase(newer);
  }
}

}  // namespace detail
POSENC_END
