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
