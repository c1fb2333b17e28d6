// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/options.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/detail/compiled.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/layer_attention.hpp>
#include <posenc/interop/model_settings.hpp>
#include <posenc/interop/vision_settings.hpp>
#include <posenc/nn/qk_norm.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

POSENC_BEGIN
namespace detail {

/// Returns the attention window for the window of a layer.
///   Throws: ConfigError for chunks, which no window can express
inline Window window_of(const LayerWindow& window, Index layer) {
  switch (window.kind) {
    case WindowKind::None:
      return {};
    case WindowKind::Sliding:
      return sliding_window(window.size);
    case WindowKind::BothSides:
      return {.left = window.size / 2, .right = window.size / 2};
    default:
      fail<ConfigError>("attention_options", "layer ", layer, " attends to chunks of ", window.size,
                        " keys, which AttentionOptions cannot express; pass a mask");
  }
}

/// Throws ConfigError if options of attention() cannot express the layer.
inline void check_expressible(const LayerAttention& attention, Index layer) {
  constexpr auto function = "attention_options";
  const auto kind = attention.kind;
  if (kind && !has_softmax(*kind)) {
    fail<ConfigError>(function, "layer ", layer, " has no softmax attention");
  }
  if (kind == LayerKind::Compressed) {
    fail<ConfigError>(
        function, "layer ", layer,
        " has keys that represent several tokens each, which AttentionOptions cannot express");
  }
  if (kind == LayerKind::Sparse) {
    fail<ConfigError>(
        function, "layer ", layer,
        " attends to keys that an indexer selects, which AttentionOptions cannot express; for "
        "texts no longer than its selection, set the layer's kind to Global");
  }
  if (attention.output_inverse_rotated) {
    fail<ConfigError>(function, "layer ", layer,
                      " undoes the rotation of its output, which AttentionOptions cannot express");
  }
  if (!attention.window && kind != LayerKind::Cross) {
    fail<ConfigError>(function, "the file does not define the window of layer ", layer);
  }
}

}  // namespace detail

/// Returns AttentionOptions for a layer (0-based) of a model file: scale, softmax_scale_multiplier,
/// soft cap, temperature, window and sinks. The caller sets `causal`, which no file contains, and
/// everything that belongs to a call. They serve attention() and MultiHeadAttention; all settings
/// of a module are returned by module_settings().
///   Aliasing: `sinks`, [heads] of the layer's weights, is kept by reference
///   Throws:   ConfigError for a layer that does not exist, or whose attention or head_dim is
///             unknown; for features without an option: chunks, compressed keys, keys chosen by an
///             indexer, inverse rotation of the output; for linear layers; and if sinks are
///             missing, superfluous, or not as many as heads
template <Scalar T>
AttentionOptions<T> attention_options(const ModelSettings& model, Index layer,
                                      std::span<const Compute<T>> sinks = {}) {
  constexpr auto function = "attention_options";
  const LayerAttention& attention = attention_of_layer(model, layer);
  detail::check_expressible(attention, layer);
  if (attention.sinks.value_or(!sinks.empty()) != !sinks.empty()) {
    detail::fail<ConfigError>(function, "layer ", layer,
                              sinks.empty() ? " has sinks in its weights: pass them"
                                            : " has no sinks, but some are passed");
  }
  if (!sinks.empty() && attention.heads && static_cast<Index>(sinks.size()) != *attention.heads) {
    detail::fail<ConfigError>(function, "layer ", layer, " has ", *attention.heads, " heads, but ",
                              static_cast<Index>(sinks.size()), " sinks are passed");
  }

  const RotarySettings* rotary = rotary_of_layer(model, layer);
  const auto head_dim = rotary != nullptr ? std::optional(rotary->head_dim) : attention.head_dim;
  AttentionOptions<T> options;
  if (model.softmax_scale) {
    options.scale = model.softmax_scale;
  } else if (head_dim) {
    options.scale = 1 / std::sqrt(static_cast<double>(*head_dim));
  } else {
    detail::fail<ConfigError>(function, "the file does not define the head_dim of layer ", layer);
  }
  if (rotary != nullptr) {
    options.softmax_scale_multiplier = frequencies(*rotary, 1).softmax_scale_multiplier();
  }
  if (model.softcap) {
    options.softcap = *model.softcap;
    options.softcap_order = SoftcapOrder::BeforeBias;
  }
  if (const auto temperature = temperature_of_layer(model, layer)) {
    options.temperature = *temperature;
    options.temperature_of = temperature->formula == QueryTemperatureFormula::LogRatio
                                 ? TemperatureOf::CappedScores
                                 : TemperatureOf::ScaledScores;
  }
  if (attention.window) options.window = detail::window_of(*attention.window, layer);
  options.sinks = sinks;
  return options;
}

/// Returns the norm of queries and keys of a layer (0-based), for MultiHeadAttentionConfig.
///   Throws: ConfigError for a layer that does not exist, if its norm or the epsilon of norms is
///           not known, and for norms that the module does not have, which LayerAttention::qk_norm
///           describes
inline QkNorm qk_norm_of_layer(const ModelSettings& model, Index layer) {
  constexpr auto function = "qk_norm_of_layer";
  const auto norm = attention_of_layer(model, layer).qk_norm;
  if (!norm) {
    detail::fail<ConfigError>(function, "the norm of queries and keys is not known for '",
                              model.model_type, "', or layer ", layer, " has no softmax");
  }
  if (norm->kind == LayerQkNormKind::None) return {};
  const auto reject = [layer](const char* what) {
    detail::fail<ConfigError>(function, "layer ", layer, " has ", what,
                              ", which MultiHeadAttention does not have");
  };
  if (norm->kind == LayerQkNormKind::LayerNorm) reject("a layer norm of queries and keys");
  if (norm->is_after_rotation) reject("a norm of queries and keys after their rotation");
  const bool minus_one = norm->weights == LayerQkNormWeights::FactorsMinusOne;
  if (!minus_one && norm->weights != LayerQkNormWeights::Factors) {
    reject("a norm whose factors are not those of all queries and keys");
  }
  const auto epsilon = norm->epsilon ? norm->epsilon : model.norm_epsilon;
  if (!epsilon) {
    detail::fail<ConfigError>(function, "the file does not define the epsilon of norms");
  }
  return {.over = norm->is_over_all_heads ? QkNormOver::AllHeads : QkNormOver::Head,
          .weight = minus_one ? QkNormWeight::FactorMinusOne : QkNormWeight::Factor,
          .epsilon = *epsilon};
}

/// Returns AttentionOptions for a layer of a vision tower, where every patch attends to all patches
/// of its image.
///   Throws: ConfigError for a layer that does not exist, an unsupported tower, and a layer with
///           windows of patches
template <Scalar T>
AttentionOptions<T> attention_options(const VisionSettings& tower, Index layer) {
  constexpr auto function = "attention_options";
  detail::check_supported(function, tower);
  if (layer < 0 || layer >= tower.layer_count) {
    detail::fail<ConfigError>(function, "the layer must be one of ", tower.layer_count, " but is ",
                              layer);
  }
  const auto& whole = tower.layers_without_window;
  if (tower.window > 0 && !std::binary_search(whole.begin(), whole.end(), layer)) {
    detail::fail<ConfigError>(
        function, "layer ", layer, " attends within windows of ", tower.window, " by ",
        tower.window,
        " patches, which AttentionOptions cannot express; pass each window as a separate sequence");
  }
  AttentionOptions<T> options;
  options.causal = Causal::No;
  if (tower.softmax_scale) {
    options.scale = tower.softmax_scale;
  } else if (tower.attention.head_dim) {
    options.scale = 1 / std::sqrt(static_cast<double>(*tower.attention.head_dim));
  } else {
    detail::fail<ConfigError>(function, "head_dim of the vision tower must be set");
  }
  return options;
}

#define POSENC_DETAIL_ATTENTION_OPTIONS(EXTERN, T)                                       \
  EXTERN template AttentionOptions<T> attention_options<T>(const ModelSettings&, Index,  \
                                                           std::span<const Compute<T>>); \
  EXTERN template AttentionOptions<T> attention_options<T>(const VisionSettings&, Index);
POSENC_DETAIL_DECLARE_COMPILED(POSENC_DETAIL_ATTENTION_OPTIONS)

POSENC_END
