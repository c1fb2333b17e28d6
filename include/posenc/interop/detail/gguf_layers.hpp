// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/gguf_architecture.hpp>
#include <posenc/interop/detail/gguf_keys.hpp>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

POSENC_BEGIN
namespace detail {

POSENC_COLD inline Index gguf_layer_count(const GgufKeys& keys) {
  const Index layers = keys.integer("block_count").value_or(0);
  if (layers < 1 || layers > 65536) {
    keys.reject("block_count", "must be set and lie between 1 and 65536");
  }
  return layers;
}

/// Returns the list of a key with one entry per layer. Empty if the key is missing, or is one
/// number for all layers.
POSENC_COLD inline std::vector<Index> gguf_layer_list(const GgufKeys& keys, std::string_view name) {
  if (!keys.has(name) || keys.file().is_number(keys.full(name))) return {};
  auto list = keys.integers(name).value_or(std::vector<Index>{});
  if (static_cast<Index>(list.size()) != gguf_layer_count(keys)) {
    keys.reject(name, "must have one entry per layer");
  }
  return list;
}

/// Returns for each layer whether it has no compressed keys. The list may go on for layers that
/// predict further tokens.
POSENC_COLD inline std::vector<bool> gguf_uncompressed_layers(const GgufKeys& keys) {
  constexpr auto name = "attention.compress_ratios";
  const auto layers = static_cast<std::size_t>(gguf_layer_count(keys));
  const auto ratios = keys.integers(name).value_or(std::vector<Index>{});
  if (ratios.size() < layers) keys.reject(name, "must have an entry for each layer");
  std::vector<bool> is_uncompressed;
  for (std::size_t i = 0; i < layers; ++i) is_uncompressed.push_back(ratios[i] == 0);
  return is_uncompressed;
}

/// Returns for each layer whether it has a window and no other keys: from the list, or all except
/// one layer of each period.
POSENC_COLD inline std::vector<bool> gguf_local_layers(const GgufKeys& keys,
                                                       const GgufArchitecture& architecture) {
  if (architecture.compresses_keys) return gguf_uncompressed_layers(keys);
  constexpr auto name = "attention.sliding_window_pattern";
  const Index layers = gguf_layer_count(keys);
  std::vector<bool> local;
  for (const Index entry : gguf_layer_list(keys, name)) local.push_back(entry != 0);
  if (!local.empty()) return local;
  const Index period = keys.integer(name).value_or(architecture.windows.period);
  if (period < 1) keys.reject(name, "must be set and positive");
  const Index global = architecture.windows.first_is_global ? 0 : period - 1;
  for (Index i = 0; i < layers; ++i) local.push_back(i % period != global);
  return local;
}

/// Returns the number of the last layers, which predict further tokens.
POSENC_COLD inline Index gguf_further_layers(const GgufKeys& keys) {
  constexpr auto key = "nextn_predict_layers";
  const Index further = keys.integer(key).value_or(0);
  if (further < 0 || further > gguf_layer_count(keys)) {
    keys.reject(key, "must lie between 0 and block_count");
  }
  return further;
}

/// Returns for each layer whether it is linear attention: from the list, or all except every
/// interval-th one. The last layers, which predict further tokens, are not.
POSENC_COLD inline std::vector<bool> gguf_linear_layers(const GgufKeys& keys,
                                                        const GgufArchitecture& architecture) {
  constexpr auto name = "attention.recurrent_layers";
  const Index layers = gguf_layer_count(keys);
  std::vector<bool> linear;
  if (keys.has(name)) {
    for (const Index entry : gguf_layer_list(keys, name)) linear.push_back(entry != 0);
    if (linear.empty()) keys.reject(name, "must have one entry per layer");
    return linear;
  }
  const Index interval =
      keys.integer("full_attention_interval").value_or(architecture.rope.linear_period);
  if (interval < 1) keys.reject("full_attention_interval", "must be positive");
  const Index further = gguf_further_layers(keys);
  for (Index i = 0; i < layers; ++i) {
    linear.push_back(i < layers - further && i % interval != interval - 1);
  }
  return linear;
}

/// True if an EXAONE 4 model has 64 layers, not counting those that predict further tokens. Only
/// such models have windows.
POSENC_COLD inline bool gguf_has_64_layers(const GgufKeys& keys) {
  return gguf_layer_count(keys) - gguf_further_layers(keys) == 64;
}

/// Returns the layers without rotary encoding: by the architecture, and those without heads, which
/// have no attention.
POSENC_COLD inline std::vector<Index> gguf_layers_without_rotary(
    const GgufKeys& keys, const GgufArchitecture& architecture) {
  std::vector<bool> without;
  const auto add = [&without](const auto& layers, const auto& is_without) {
    without.resize((std::max)(without.size(), layers.size()), false);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (is_without(layers[i])) without[i] = true;
    }
  };
  switch (architecture.rope.nope_layers) {
    case GgufNopeLayers::EveryFourth:
      for (Index i = 0; i < gguf_layer_count(keys); ++i) without.push_back(i % 4 == 3);
      break;
    case GgufNopeLayers::GlobalOf64:
      if (!gguf_has_64_layers(keys)) break;
      [[fallthrough]];
    case GgufNopeLayers::GlobalLayers:
      add(gguf_local_layers(keys, architecture), [](bool local) { return !local; });
      break;
    case GgufNopeLayers::GlobalAfterDense: {
      constexpr auto key = "leading_dense_block_count";
      auto local = gguf_local_layers(keys, architecture);
      const Index dense = keys.integer(key).value_or(0);
      if (dense < 0 || dense > static_cast<Index>(local.size())) {
        keys.reject(key, "must lie between 0 and block_count");
      }
      std::fill_n(local.begin(), dense, true);
      add(local, [](bool is_rotated) { return !is_rotated; });
      break;
    }
    case GgufNopeLayers::FirstOfFour:
      if (keys.integer("attention.sliding_window").value_or(0) == 0) break;
      for (Index i = 0; i < gguf_layer_count(keys); ++i) without.push_back(i % 4 == 0);
      break;
    case GgufNopeLayers::LinearLayers:
      add(gguf_linear_layers(keys, architecture), [](bool linear) { return linear; });
      break;
    case GgufNopeLayers::Listed:
      add(gguf_layer_list(keys, "attention.rope_pattern"), [](Index mark) { return mark == 0; });
      break;
    case GgufNopeLayers::None:
      if (keys.has("attention.recurrent_layers")) {
        keys.reject("attention.recurrent_layers", "is not known for this architecture");
      }
      break;
  }
  for (const auto* name : {"attention.head_count", "attention.head_count_kv"}) {
    add(gguf_layer_list(keys, name), [](Index heads) { return heads == 0; });
  }
  std::vector<Index> layers;
  for (std::size_t i = 0; i < without.size(); ++i) {
    if (without[i]) layers.push_back(static_cast<Index>(i));
  }
  if (!layers.empty() && layers.size() == without.size()) {
    keys.reject("block_count", "includes no layer with a rotary encoding");
  }
  return layers;
}

}  // namespace detail
POSENC_END
