// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/gguf_architecture.hpp>
#include <posenc/interop/detail/gguf_keys.hpp>
#include <posenc/interop/detail/gguf_rules.hpp>
#include <posenc/interop/model_settings.hpp>

#include <cmath>
#include <optional>
#include <string_view>

// Settings of scores in a GGUF file. Most of them are in llama.cpp's code of each architecture, and
// only some in keys.

POSENC_BEGIN
namespace detail {

/// Returns the scale of Gemma 2 and 3: the largest model, which llama.cpp recognises by its number
/// of layers, uses (width / heads)^-1/2.
POSENC_COLD inline std::optional<double> gguf_gemma_scale(const GgufKeys& keys,
                                                          Index layers_of_largest) {
  if (keys.integer("block_count").value_or(0) != layers_of_largest) return std::nullopt;
  const auto width = keys.integer("embedding_length");
  const auto heads = keys.integers("attention.head_count");
  if (!width || !heads || heads->empty() || heads->front() < 1 || *width < heads->front()) {
    keys.reject("embedding_length",
                "and attention.head_count must be set, since scores are "
                "scaled by their ratio");
  }
  return 1 / std::sqrt(static_cast<double>(*width / heads->front()));
}

/// Returns the scale of an architecture for files without attention.scale.
POSENC_COLD inline std::optional<double> gguf_default_scale(const GgufKeys& keys,
                                                            const GgufArchitecture& architecture) {
  constexpr auto key = "attention.output_scale";
  if (architecture.scores.output_scale != 0)
    return keys.real(key).value_or(architecture.scores.output_scale);
  if (architecture.scores.scale != 0) return architecture.scores.scale;
  if (architecture.scores.depth_of_largest != 0)
    return gguf_gemma_scale(keys, architecture.scores.depth_of_largest);
  return std::nullopt;
}

/// Returns attention.scale. If it is 0 or missing, or not read by llama.cpp, the architecture
/// decides.
POSENC_COLD inline std::optional<double> gguf_softmax_scale(const GgufKeys& keys,
                                                            const GgufArchitecture& architecture,
                                                            Index head_dim) {
  if (architecture.scores.output_scale == 0 && keys.has("attention.output_scale")) {
    keys.reject("attention.output_scale", "has no known meaning in this architecture");
  }
  const double given = keys.real("attention.scale").value_or(0);
  if (given < 0) keys.reject("attention.scale", "must not be negative");
  const auto scale = gguf_default_scale(keys, architecture);
  if (given == 0) return scale;
  if (architecture.scores.reads_scale && !scale) return given;
  const double fixed = scale.value_or(1 / std::sqrt(static_cast<double>(head_dim)));
  if (std::abs(given / fixed - 1) > 1e-5) {
    keys.reject("attention.scale", "contradicts the scale of this architecture, ", fixed);
  }
  return given;
}

POSENC_COLD inline std::optional<double> gguf_softcap(const GgufKeys& keys,
                                                      const GgufArchitecture& architecture) {
  constexpr auto key = "attn_logit_softcapping";
  const auto given = keys.real(key);
  if (given && *given < 0) keys.reject(key, "must not be negative");
  if (architecture.scores.softcap != 0) {
    const double cap = given.value_or(architecture.scores.softcap);
    if (cap == 0) keys.reject(key, "is 0, which llama.cpp would divide by");
    return cap;
  }
  if (given.value_or(0) != 0) keys.reject(key, "is not known to be used by this architecture");
  return std::nullopt;
}

/// Returns the temperature. The meaning of attention.temperature_scale and _length depends on the
/// architecture.
POSENC_COLD inline std::optional<QueryTemperature> gguf_temperature(
    const GgufKeys& keys, const GgufArchitecture& architecture) {
  constexpr auto scale_key = "attention.temperature_scale";
  constexpr auto length_key = "attention.temperature_length";
  const auto scale = keys.real(scale_key);
  const auto length = keys.integer(length_key);
  const auto log_floor = [](double a, Index period) {
    return QueryTemperature{.scale = a, .length = static_cast<double>(period)};
  };
  switch (architecture.scores.temperature) {
    case GgufTemperature::InCode: {
      if (scale && std::abs(*scale - 0.1) > 1e-6) keys.reject(scale_key, "is not Llama 4's 0.1");
      if (length && *length != 8192) keys.reject(length_key, "is not Llama 4's 8192");
      QueryTemperature temperature = log_floor(0.1, 8192);
      temperature.offset = 1;
      temperature.only_without_rotary = true;
      return temperature;
    }
    case GgufTemperature::BeyondTrained: {
      if (scale.value_or(0) == 0) return std::nullopt;
      const Index original = gguf_original_length(keys);
      if (length && *length != original) {
        keys.reject(length_key, "contradicts the trained length ", original,
                    ", which llama.cpp uses");
      }
      return log_floor(*scale, original);
    }
    case GgufTemperature::BeyondOwn:
      if (scale.value_or(0) == 0) return std::nullopt;
      if (!length || *length < 1) {
        keys.reject(length_key, "must be set and positive, since ",
                    std::string_view(keys.full(scale_key)), " is not 0");
      }
      return log_floor(*scale, *length);
    default:
      if (scale.value_or(0) != 0) {
        keys.reject(scale_key, "is not 0, and is not known to be used by this architecture");
      }
      if (length.value_or(0) == 0) return std::nullopt;
      // Grok 2 is trained this way, and SGLang applies it in all layers. llama.cpp reads the key
      // and ignores it (its issue 17239), so beyond this length its scores differ from these.
      if (architecture.scores.temperature == GgufTemperature::LengthAlone) {
        if (*length < 2) keys.reject(length_key, "must be at least 2");
        return QueryTemperature{.formula = QueryTemperatureFormula::LogRatio,
                                .length = static_cast<double>(*length)};
      }
      keys.reject(length_key, "is set, and its effect in this architecture is not supported");
  }
}

/// Reads scale, softcap and temperature of a model whose rotary layers have been read.
POSENC_COLD inline void gguf_read_scores(const GgufKeys& keys, const GgufArchitecture& architecture,
                                         ModelSettings& model) {
  model.softmax_scale =
      gguf_softmax_scale(keys, architecture, model.layers.front().rotary.head_dim);
  model.softcap = gguf_softcap(keys, architecture);
  model.query_temperature = gguf_temperature(keys, architecture);
}

}  // namespace detail
POSENC_END
