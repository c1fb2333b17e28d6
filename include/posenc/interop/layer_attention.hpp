// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

POSENC_BEGIN

/// Kinds of interaction between tokens in a layer. rotary_of_layer() returns whether a layer has a
/// rotary encoding.
enum class LayerKind {
  Global,       ///< attention to every causally visible key
  Sliding,      ///< attention to a window around the query
  Chunked,      ///< attention within chunks of the sequence
  Compressed,   ///< attention to a window, and to keys that represent several tokens each
  Sparse,       ///< attention to those causally visible keys that an indexer chooses
  Cross,        ///< attention to another sequence: an image, an encoder's output
  Linear,       ///< linear attention or a state space, without softmax
  Convolution,  ///< a convolution alone
  None          ///< no interaction
};

/// Kinds of windows.
enum class WindowKind {
  None,      ///< every key
  Sliding,   ///< the `size` last keys, including the query's own
  Chunked,   ///< keys of the query's own chunk of `size` positions, up to the query
  BothSides  ///< size / 2 keys on either side, and the query's own
};

/// Kinds of norms of queries and keys.
enum class LayerQkNormKind {
  None,      ///< none
  Rms,       ///< divides by the root of the mean square: Qwen3
  LayerNorm  ///< subtracts the mean first: Cohere
};

/// Weights of a norm of queries and keys, as the model's file stores them.
enum class LayerQkNormWeights {
  None,             ///< none, or no norm: Llama 4
  Factors,          ///< factors that all heads share: Qwen3; or of the whole projection: OLMo 2
  FactorsMinusOne,  ///< likewise, and 1 is added to get the factors: Gemma 3
  FactorsPerHead,   ///< factors of each head: Cohere
  FactorsOfKeys     ///< factors of keys alone: DeepSeek-V4
};

/// Norm of a layer's queries and keys. Norms of the latents of which queries or keys are projected
/// (DeepSeek) are not included.
struct LayerQkNorm {
  LayerQkNormKind kind = LayerQkNormKind::None;           ///< formula
  bool is_over_all_heads = false;                         ///< false: each head has a norm
  LayerQkNormWeights weights = LayerQkNormWeights::None;  ///< meaning of the weights
  bool has_bias = false;                                  ///< weights are added afterwards
  bool is_after_rotation = false;                         ///< false: before the rotation
  /// Number added to the mean square or to the variance, if a class fixes it; usually it is
  /// ModelSettings::norm_epsilon.
  std::optional<double> epsilon = std::nullopt;

  /// True if all members are equal.
  friend bool operator==(const LayerQkNorm&, const LayerQkNorm&) = default;
};

/// Window of a layer, which limits the keys of its own sequence that a query sees.
struct LayerWindow {
  WindowKind kind = WindowKind::None;  ///< shape of the window
  Index size = 0;                      ///< positive, unless the kind is WindowKind::None

  /// True if all members are equal.
  friend bool operator==(const LayerWindow&, const LayerWindow&) = default;
};

/// Dependence of a query's temperature on its position p, counted from 0.
enum class QueryTemperatureFormula {
  LogFloor,  ///< 1 + scale * ln(1 + floor((p + offset) / length)): Llama 4, Ministral 3
  LogN,      ///< max(1, ln(p + 1) / ln(length)): Qwen 1
  LogRatio   ///< log2(p) / log2(length) if p > length, else 1: Grok 2 (attn_temperature_len)
};

/// Factor of a query's scores that depends on its position alone. It is a function, for use as
/// AttentionOptions::temperature. LogRatio multiplies scores after the soft cap
/// (TemperatureOf::CappedScores), the other formulas multiply the scaled scores.
///   Source: huggingface/transformers, llama4/modeling_llama4.py and
///           ministral3/modeling_ministral3.py; Qwen's modeling_qwen.py, whose table ends at
///           position 32766; sgl-project/sglang, srt/models/grok.py and
///           srt/layers/attention/triton_ops/decode_attention.py (86d10d2)
struct QueryTemperature {
  QueryTemperatureFormula formula = QueryTemperatureFormula::LogFloor;  ///< dependence on p
  double scale = 0;                                                     ///< for LogFloor
  double length = 0;  ///< positive; Llama 4's floor_scale, Ministral's trained length
  Index offset = 0;   ///< 1 in Llama 4
  bool only_without_rotary = false;  ///< applies only in layers without rotary encoding

  /// Returns the factor of a query at a position of at least 0.
  double operator()(double position) const noexcept {
    if (formula == QueryTemperatureFormula::LogN) {
      return (std::max)(1.0, std::log(position + 1) / std::log(length));
    }
    if (formula == QueryTemperatureFormula::LogRatio) {
      return position > length ? std::log2(position) / std::log2(length) : 1;
    }
    return 1 + scale * std::log1p(std::floor((position + static_cast<double>(offset)) / length));
  }

  /// True if all members are equal.
  friend bool operator==(const QueryTemperature&, const QueryTemperature&) = default;
};

/// Attention of one layer, without its rotation. Values that neither the file nor its class gives
/// are absent.
struct LayerAttention {
  std::optional<LayerKind> kind = std::nullopt;  ///< interaction between the layer's tokens
  std::optional<Index> heads = std::nullopt;     ///< query heads
  std::optional<Index> kv_heads = std::nullopt;  ///< KV heads; for latent attention after expansion
  std::optional<Index> head_dim = std::nullopt;  ///< width of queries and keys, including
                                                 ///< non-rotary channels
  std::optional<Index> value_dim = std::nullopt;     ///< width of values
  std::optional<LayerWindow> window = std::nullopt;  ///< over the layer's own sequence
  std::optional<bool> sinks = std::nullopt;  ///< true if the weights contain a sink per head
  /// Values are the rotated keys, and the inverse rotation at the query's position, the rope's
  /// inverse(), is applied to the output: DeepSeek-V4.
  bool output_inverse_rotated = false;
  /// Projected queries, keys and values are clipped to [-qkv_clip, qkv_clip]: DBRX.
  std::optional<double> qkv_clip = std::nullopt;
  /// Norm of queries and keys; absent if the reader does not know it for this model.
  std::optional<LayerQkNorm> qk_norm = std::nullopt;

  /// True if all members are equal.
  friend bool operator==(const LayerAttention&, const LayerAttention&) = default;
};

namespace detail {

constexpr Index max_heads = Index{1} << 20;

/// True if a layer of this kind has scores and a softmax.
constexpr bool has_softmax(LayerKind kind) {
  return kind != LayerKind::Linear && kind != LayerKind::Convolution && kind != LayerKind::None;
}

/// Returns the kind of a layer that attends to its own sequence through this window.
constexpr LayerKind layer_kind_of(const LayerWindow& window) {
  switch (window.kind) {
    case WindowKind::None:
      return LayerKind::Global;
    case WindowKind::Chunked:
      return LayerKind::Chunked;
    default:
      return LayerKind::Sliding;
  }
}

inline void check_layer_attention(const LayerAttention& layer, Index number) {
  constexpr auto function = "ModelSettings";
  const auto check = [&](const char* name, const std::optional<Index>& value, Index max_value) {
    if (value && (*value < 1 || *value > max_value)) {
      fail<ConfigError>(function, name, " of layer ", number, " must be from 1 to ", max_value,
                        " but is ", *value);
    }
  };
  check("heads", layer.heads, max_heads);
  check("kv_heads", layer.kv_heads, max_heads);
  check("head_dim", layer.head_dim, 65536);
  check("value_dim", layer.value_dim, 65536);
  if (layer.heads && layer.kv_heads && *layer.heads % *layer.kv_heads != 0) {
    fail<ConfigError>(function, "the ", *layer.heads, " heads of layer ", number,
                      " are not a multiple of its ", *layer.kv_heads, " kv_heads");
  }
  if (layer.window && (layer.window->kind != WindowKind::None) != (layer.window->size > 0)) {
    fail<ConfigError>(function, "the window of layer ", number,
                      " must have a positive size, or 0 if its kind is None, but its size is ",
                      layer.window->size);
  }
}

}  // namespace detail
POSENC_END
