// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

POSENC_BEGIN

/// How a layer lets tokens see each other. Whether it turns queries and keys is told by
/// rotary_of_layer().
enum class LayerKind {
  Global,      ///< attention to every key that the causal rule shows
  Sliding,     ///< attention to a window around the query
  Chunked,     ///< attention within chunks of the sequence
  Compressed,  ///< attention to a window, and to keys that stand for several tokens each
  Sparse,  ///< attention to some keys of all that the causal rule shows, which an indexer chooses
  Cross,   ///< attention to another sequence: a picture, an encoder's output
  Linear,  ///< linear attention or a state space: no softmax
  Convolution,  ///< tokens meet in a convolution alone
  None          ///< tokens do not meet
};

/// What a layer's window is.
enum class WindowKind {
  None,      ///< every key
  Sliding,   ///< the `size` last keys, the query's own among them
  Chunked,   ///< keys of the query's own chunk of `size` positions, up to the query
  BothSides  ///< size / 2 keys on either side, and the query's own
};

struct LayerWindow {
  WindowKind kind = WindowKind::None;
  Index size = 0;  ///< > 0 but for WindowKind::None

  friend bool operator==(const LayerWindow&, const LayerWindow&) = default;
};

/// How a query's temperature grows with its position p, counted from 0.
enum class QueryTemperatureFormula {
  LogFloor,  ///< 1 + scale * ln(1 + floor((p + offset) / length)): Llama 4, Ministral 3
  LogN,      ///< larger(1, ln(p + 1) / ln(length)): Qwen 1
  LogRatio   ///< log2(p) / log2(length) where p > length, else 1: Grok 2 (attn_temperature_len)
};

/// A factor of a query's scores that depends on its position alone: a function of it, to be
/// AttentionOptions::temperature. LogRatio multiplies what comes out of the soft cap
/// (TemperatureOf::CappedScores), the others the scaled scores.
///   Source: huggingface/transformers, llama4/modeling_llama4.py and ministral3/modeling_ministral3.py;
///           Qwen's modeling_qwen.py, whose table ends at position 32766; sgl-project/sglang,
///           srt/models/grok.py and srt/layers/attention/triton_ops/decode_attention.py (86d10d2)
struct QueryTemperature {
  QueryTemperatureFormula formula = QueryTemperatureFormula::LogFloor;
  double scale = 0;                  ///< of LogFloor
  double length = 0;                 ///< > 0; Llama 4's floor_scale, Ministral's trained length
  Index offset = 0;                  ///< 1 in Llama 4
  bool only_without_rotary = false;  ///< layers that turn nothing have it, the others have not

  double operator()(double position) const noexcept {
    if (formula == QueryTemperatureFormula::LogN) {
      return (std::max)(1.0, std::log(position + 1) / std::log(length));
    }
    if (formula == QueryTemperatureFormula::LogRatio) {
      return position > length ? std::log2(position) / std::log2(length) : 1;
    }
    return 1 + scale * std::log1p(std::floor((position + static_cast<double>(offset)) / length));
  }

  friend bool operator==(const QueryTemperature&, const QueryTemperature&) = default;
};

/// The attention of one layer, but for its rotation; what the file and its class do not tell is absent.
struct LayerAttention {
  std::optional<LayerKind> kind = std::nullopt;
  std::optional<Index> heads = std::nullopt;      ///< of queries
  std::optional<Index> kv_heads = std::nullopt;   ///< of keys; of latent attention, once expanded
  std::optional<Index> head_dim = std::nullopt;   ///< of queries and keys, turned or not
  std::optional<Index> value_dim = std::nullopt;  ///< of values
  std::optional<LayerWindow> window = std::nullopt;
  std::optional<bool> sinks = std::nullopt;  ///< whether weights hold a sink for each head
  /// Values are the turned keys, and the rotation at the query's position is undone on the output, by
  /// the rope's inverse(): DeepSeek-V4.
  bool output_turns_back = false;

  friend bool operator==(const LayerAttention&, const LayerAttention&) = default;
};

namespace detail {

constexpr Index most_heads = Index{1} << 20;

/// Whether a layer of this kind has scores and a softmax.
constexpr bool has_softmax(LayerKind kind) {
  return kind != LayerKind::Linear && kind != LayerKind::Convolution && kind != LayerKind::None;
}

/// The kind of a layer that attends to its own sequence through this window.
constexpr LayerKind kind_with(const LayerWindow& window) {
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
  const auto check = [&](const char* name, const std::optional<Index>& value, Index most) {
    if (value && (*value < 1 || *value > most)) {
      fail<ConfigError>(function, name, " of layer ", number, " must be from 1 to ", most,
                        " but is ", *value);
    }
  };
  check("heads", layer.heads, most_heads);
  check("kv_heads", layer.kv_heads, most_heads);
  check("head_dim", layer.head_dim, 65536);
  check("value_dim", layer.value_dim, 65536);
  if (layer.heads && layer.kv_heads && *layer.heads % *layer.kv_heads != 0) {
    fail<ConfigError>(function, "the ", *layer.heads, " heads of layer ", number,
                      " are no multiple of its ", *layer.kv_heads, " kv_heads");
  }
  if (layer.window && (layer.window->kind != WindowKind::None) != (layer.window->size > 0)) {
    fail<ConfigError>(function, "the window of layer ", number,
                      " must have a positive size, and none only where it is no window, but its "
                      "size is ",
                      layer.window->size);
  }
}

}  // namespace detail
POSENC_END
