// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/model_settings.hpp>

#include <cmath>
#include <optional>

// Reading of scores in a configuration: scale, soft cap, and temperature of queries.
POSENC_BEGIN
namespace detail {

POSENC_COLD inline double hf_positive(const JsonKeys& keys, const char* key, double value) {
  if (!(value > 0)) keys.reject(key, "must be positive");
  return value;
}

/// Returns the model's own scale, by default that of its class; nullopt for head_dim^-1/2.
POSENC_COLD inline std::optional<double> hf_softmax_scale(const JsonKeys& config, HfScale scores,
                                                          Index head_dim) {
  switch (scores) {
    case HfScale::QueryScalar:
    case HfScale::QueryScalarIfGiven: {
      constexpr auto key = "query_pre_attn_scalar";
      const auto given = config.real(key);
      if (!given && scores == HfScale::QueryScalarIfGiven) return std::nullopt;
      return 1 / std::sqrt(hf_positive(config, key, given.value_or(256)));
    }
    case HfScale::One:
      config.find("query_pre_attn_scalar");  // present in Gemma 3n's files, but not read by its
                                             // class
      return 1.0;
    case HfScale::Multiplier: {
      constexpr auto key = "attention_multiplier";
      return hf_positive(config, key, config.real(key).value_or(1));
    }
    case HfScale::MupHeadDim: {
      constexpr auto key = "mup_attn_multiplier";
      for (const char* other : {"mup_embedding_multiplier", "mup_width_multiplier"}) {
        config.real(other);
      }
      const double multiplier = hf_positive(config, key, config.real(key).value_or(1));
      if (!config.flag("mup_use_scaling").value_or(true)) return std::nullopt;
      return multiplier / static_cast<double>(head_dim);
    }
    case HfScale::KeyMultiplier: {
      constexpr auto key = "key_multiplier";
      const auto given = config.real(key);
      if (!given) return std::nullopt;
      return hf_positive(config, key, *given) / std::sqrt(static_cast<double>(head_dim));
    }
    case HfScale::QueryLatent: {
      constexpr auto size_key = "hidden_size", rank_key = "q_lora_rank";
      const double size = config.required(size_key, config.real(size_key));
      const double rank = config.required(rank_key, config.real(rank_key));
      return std::sqrt(hf_positive(config, size_key, size) / hf_positive(config, rank_key, rank) /
                       static_cast<double>(head_dim));
    }
    case HfScale::HalfOfHeadDim:
      return std::sqrt(2.0 / static_cast<double>(head_dim));
    case HfScale::OutputMultiplierIfGiven:
    case HfScale::MultiplierIfGiven: {
      const char* key =
          scores == HfScale::MultiplierIfGiven ? "attention_multiplier" : "attn_output_multiplier";
      const auto given = config.real(key);
      return given ? std::optional(hf_positive(config, key, *given)) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

/// Returns the soft cap of a class that has one. null in a file replaces the default by no cap.
POSENC_COLD inline std::optional<double> hf_softcap(const JsonKeys& config,
                                                    const std::optional<double>& default_cap) {
  constexpr auto key = "attn_logit_softcapping";
  if (!default_cap) return std::nullopt;
  const auto given = config.real(key);
  if (given) return hf_positive(config, key, *given);
  return config.has(key) || *default_cap == 0 ? std::nullopt : default_cap;
}

/// Returns the temperature of floor_scale: in layers without rotary encoding queries are multiplied
/// by a factor of the position.
POSENC_COLD inline std::optional<QueryTemperature> hf_floor_scale_temperature(
    const JsonKeys& config) {
  constexpr auto switch_key = "attn_temperature_tuning";
  const auto floor_scale = config.real("floor_scale");
  const auto attn_scale = config.real("attn_scale");
  bool is_on = true;
  if (const auto* given = config.find(switch_key)) {
    // Early files write true as the number 4.
    is_on = given->is_integer() ? given->integer() != 0 : config.flag(switch_key).value_or(true);
  }
  if (!is_on) return std::nullopt;
  return QueryTemperature{.formula = QueryTemperatureFormula::LogFloor,
                          .scale = attn_scale.value_or(0.1),
                          .length = hf_positive(config, "floor_scale", floor_scale.value_or(8192)),
                          .offset = 1,
                          .only_without_rotary = true};
}

/// Returns the temperature of use_logn_attn. It and use_dynamic_ntk are on by default.
POSENC_COLD inline std::optional<QueryTemperature> hf_logn_temperature(const JsonKeys& config) {
  constexpr auto ntk_key = "use_dynamic_ntk", length_key = "seq_length";
  if (config.flag(ntk_key).value_or(true)) {
    config.reject(ntk_key,
                  "must be false: it selects a rule of this class alone, whose base grows in "
                  "steps beyond seq_length");
  }
  if (!config.flag("use_logn_attn").value_or(true)) return std::nullopt;
  const Index length = config.integer(length_key).value_or(8192);
  if (length < 2)
    config.reject(length_key, "must be at least 2, since its logarithm is divided by");
  return QueryTemperature{.formula = QueryTemperatureFormula::LogN,
                          .length = static_cast<double>(length)};
}

/// Returns the temperature of attn_temperature_len: in all layers, after the soft cap.
POSENC_COLD inline std::optional<QueryTemperature> hf_length_temperature(const JsonKeys& config) {
  constexpr auto key = "attn_temperature_len";
  const Index length = config.integer(key).value_or(-1);
  if (length <= 0) return std::nullopt;
  if (length < 2) config.reject(key, "must be at least 2");
  return QueryTemperature{.formula = QueryTemperatureFormula::LogRatio,
                          .length = static_cast<double>(length)};
}

/// Returns the temperature of llama_4_scaling_beta: in all layers, from the trained length on. 0
/// counts as absent.
POSENC_COLD inline std::optional<QueryTemperature> hf_scaling_beta_temperature(
    const JsonKeys& rope) {
  const auto beta = rope.real("llama_4_scaling_beta");
  if (!beta || *beta == 0) return std::nullopt;
  const double length = rope.required(hf_original_length_key, rope.real(hf_original_length_key));
  return QueryTemperature{.formula = QueryTemperatureFormula::LogFloor,
                          .scale = *beta,
                          .length = hf_positive(rope, hf_original_length_key, length)};
}

/// Returns the temperature that keys beside the rope dict give.
POSENC_COLD inline std::optional<QueryTemperature> hf_temperature(const JsonKeys& config,
                                                                  HfTemperature temperature) {
  switch (temperature) {
    case HfTemperature::FloorScale:
      return hf_floor_scale_temperature(config);
    case HfTemperature::LogN:
      return hf_logn_temperature(config);
    case HfTemperature::Length:
      return hf_length_temperature(config);
    default:
      return std::nullopt;
  }
}

}  // namespace detail
POSENC_END
