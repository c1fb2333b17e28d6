// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/options.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/interop/attention_options.hpp>
#include <posenc/interop/detail/beyond_module.hpp>
#include <posenc/interop/detail/names.hpp>
#include <posenc/interop/layer_attention.hpp>
#include <posenc/interop/model_settings.hpp>
#include <posenc/interop/rotary_settings.hpp>
#include <posenc/nn/multi_head_config.hpp>
#include <posenc/rotary/any_rope.hpp>
#include <posenc/rotary/pairing.hpp>

#include <optional>
#include <span>
#include <utility>

POSENC_BEGIN

/// Settings of MultiHeadAttention for one layer of a model file: everything but the weights.
template <class T>
struct ModuleSettings {
  /// Widths, heads, and the norm of queries and keys. Projections have biases; those that the
  /// weights lack stay 0.
  MultiHeadAttentionConfig config;
  AnyRope rope;  ///< rotates nothing in a layer without rotary encoding
  /// Options of forward(). The caller sets `causal`, which no file contains, and what belongs to a
  /// call.
  AttentionOptions<T> options;
};

namespace detail {

/// Returns a rope that rotates no channels.
inline AnyRope no_rope() {
  return AnyRope(PairingKind::HalfRotate, Frequencies::from_inv_freq({}));
}

/// Throws ConfigError if the layer's attention has parts that MultiHeadAttention does not have.
inline void check_is_module(const ModelSettings& model, Index layer) {
  const auto reject = [layer](const char* what) {
    fail<ConfigError>("module_settings", "layer ", layer, " has ", what,
                      ", which MultiHeadAttention does not have");
  };
  const BeyondModule* row = find_row(beyond_module, model.model_type);
  if (row != nullptr) reject(row->has);
  if (attention_of_layer(model, layer).qkv_clip) reject("a bound of queries, keys and values");
}

/// Returns the settings of a module with this rope.
template <class T>
ModuleSettings<T> module_settings(const ModelSettings& model, Index layer, AnyRope rope,
                                  std::span<const T> sinks) {
  const LayerAttention& attention = attention_of_layer(model, layer);
  const auto required = [layer](const char* name, const std::optional<Index>& value) {
    if (value) return *value;
    fail<ConfigError>("module_settings", "the file does not define the ", name, " of layer ",
                      layer);
  };
  // The options come first, because they refuse layers that no attention can express.
  AttentionOptions<T> options = attention_options<T>(model, layer, sinks);
  check_is_module(model, layer);
  return {.config = {.model_dim = required("hidden_size", model.hidden_size),
                     .heads = required("heads", attention.heads),
                     .kv_heads = required("kv_heads", attention.kv_heads),
                     .head_dim = required("head_dim", attention.head_dim),
                     .value_dim = required("value_dim", attention.value_dim),
                     .qk_norm = qk_norm_of_layer(model, layer)},
          .rope = std::move(rope),
          .options = std::move(options)};
}

}  // namespace detail

/// Returns the settings of MultiHeadAttention for a layer (0-based) of a model file, for sequences
/// of `length` tokens. Rules that do not depend on the length ignore it. The module is
/// MultiHeadAttention<T, AnyRope>(settings.config, settings.rope), and settings.options are the
/// options of its forward().
///   Types:    T is float or double
///   Latent:   for models with latent keys and values (DeepSeek) the module has the expanded heads.
///             Its projections are the products of the file's matrices, or a user's Projection that
///             applies them with the norms of the latents in between
///   Aliasing: `sinks`, [heads] of the layer's weights, is kept by reference
///   Throws:   ConfigError as attention_options() and qk_norm_of_layer() do, if the file does not
///             define a width or a number of heads, and for parts that no module has: a gate of the
///             output, a norm of values, a bound of queries and keys; PositionError for a negative
///             length
template <class T>
ModuleSettings<T> module_settings(const ModelSettings& model, Index layer, Index length,
                                  std::span<const T> sinks = {}) {
  const RotarySettings* rotary = rotary_of_layer(model, layer);
  return detail::module_settings<T>(
      model, layer, rotary == nullptr ? detail::no_rope() : rope(*rotary, length), sinks);
}

/// Overload of module_settings() for a rule that does not depend on the length of the sequence.
///   Throws: ConfigError, also if the rule depends on the length
template <class T>
ModuleSettings<T> module_settings(const ModelSettings& model, Index layer,
                                  std::span<const T> sinks = {}) {
  const RotarySettings* rotary = rotary_of_layer(model, layer);
  return detail::module_settings<T>(model, layer,
                                    rotary == nullptr ? detail::no_rope() : rope(*rotary), sinks);
}

POSENC_END
