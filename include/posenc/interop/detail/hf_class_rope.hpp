// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/hf_layer_patterns.hpp>
#include <posenc/interop/detail/hf_model_types.hpp>
#include <posenc/interop/detail/json_keys.hpp>

#include <nlohmann/json.hpp>

#include <string>

POSENC_BEGIN
namespace detail {

/// A dict without scaling, and one without a base.
inline nlohmann::json hf_base_alone(const nlohmann::json& dict) {
  constexpr auto key = "rope_theta";
  const bool has_base = dict.is_object() && dict.contains(key);
  return has_base ? nlohmann::json{{key, dict[key]}} : nlohmann::json::object();
}
inline nlohmann::json hf_without_base(nlohmann::json dict) {
  if (dict.is_object()) dict.erase("rope_theta");
  return dict;
}

/// Whether two dicts agree in all but the names of the type, and a base that the older form has beside it.
inline bool hf_says_the_same(const nlohmann::json& current, const nlohmann::json& legacy) {
  const auto plain = [](nlohmann::json dict) {
    if (!dict.is_object()) return dict;
    if (dict.contains("type") && !dict.contains("rope_type")) dict["rope_type"] = dict["type"];
    dict.erase("type");
    return dict;
  };
  const bool has_base = legacy.is_object() && legacy.contains("rope_theta");
  const auto newer = plain(current), older = plain(legacy);
  return newer == older || (!has_base && hf_without_base(newer) == older);
}

/// Bases beside dicts that have their own, which classes take first.
inline void hf_pass_over_bases(const JsonKeys& config, HfFamily family) {
  const auto pass = [&config](const char* key) { config.real(key); };
  if (family == HfFamily::Gemma3 || family == HfFamily::Gemma3n) pass("rope_local_base_freq");
  if (family == HfFamily::MimoV2) pass("swa_rope_theta");
  if (family == HfFamily::ModernBert) {
    pass("global_rope_theta");
    pass("local_rope_theta");
  }
}

/// What the class has where the file says nothing of scaling.
inline nlohmann::json hf_class_rope(const JsonKeys& config, HfFamily family,
                                    const std::string& type) {
  const bool is_null = config.has("rope_scaling") || config.has("rope_parameters");
  const auto refuse_null = [&] {
    if (is_null)
      config.refuse("rope_scaling", "is null, which releases of the class read differently");
  };
  if (type == "gpt_oss") {
    refuse_null();
    return {{"rope_type", "yarn"}, {"factor", 32.0},    {"beta_fast", 32.0},
            {"beta_slow", 1.0},    {"truncate", false}, {"original_max_position_embeddings", 4096}};
  }
  if (type == "apertus") {
    refuse_null();
    return {{"rope_type", "llama3"},
            {"factor", 8.0},
            {"low_freq_factor", 1.0},
            {"high_freq_factor", 4.0},
            {"original_max_position_embeddings", 8192}};
  }
  if (type == "ministral3" || type == "mistral4" || type == "csm") {
    fail<ConfigError>(JsonKeys::function,
                      "the configuration must have rope_parameters: the class of '", type,
                      "' scales by default");
  }
  if (type == "cwm") {
    return {{"rope_type", "llama3"},   {"rope_theta", 1000000.0},
            {"factor", 16.0},          {"low_freq_factor", 1.0},
            {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 8192}};
  }
  if (type == "mellum") {
    return {{full_attention, {{"rope_theta", 500000.0}}},
            {sliding_attention, {{"rope_theta", 10000.0}}}};
  }
  if (type == "laguna") {
    return {{full_attention, {{"rope_theta", 500000.0}, {"partial_rotary_factor", 0.5}}},
            {sliding_attention, {{"rope_theta", 10000.0}, {"partial_rotary_factor", 1.0}}}};
  }
  if (family == HfFamily::Gemma4) {
    return {{full_attention,
             {{"rope_type", "proportional"},
              {"partial_rotary_factor", 0.25},
              {"rope_theta", 1000000.0}}},
            {sliding_attention, {{"rope_type", "default"}, {"rope_theta", 10000.0}}}};
  }
  return nlohmann::json::object();
}

}  // namespace detail
POSENC_END
