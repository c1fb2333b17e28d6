// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/gguf_architecture.hpp>
#include <posenc/interop/detail/gguf_keys.hpp>
#include <posenc/interop/detail/gguf_layers.hpp>
#include <posenc/interop/detail/qk_norms.hpp>
#include <posenc/interop/layer_attention.hpp>
#include <posenc/interop/model_settings.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Returns the norm of the layers of a row that have one; nullopt if it is not known. A norm that a
/// file may lack is known if the file lists the tensors of layer 0.
POSENC_COLD inline std::optional<LayerQkNorm> gguf_qk_norm(const GgufKeys& keys,
                                                           const GgufQkNorm& row) {
  if (row.experts_without != 0 && keys.integer("expert_count") == row.experts_without) {
    return no_qk_norm;
  }
  if (!row.is_optional || keys.file().has_tensor("blk.0.attn_q_norm.weight")) return row.norm;
  const bool has_layer = keys.file().has_tensor("blk.0.attn_norm.weight");
  return has_layer ? std::optional(no_qk_norm) : std::nullopt;
}

/// Reader of heads and windows of each layer, for a model whose rotary layers have been read.
class GgufAttention {
 public:
  GgufAttention(const GgufKeys& keys, const GgufArchitecture& architecture, bool is_known,
                ModelSettings& model)
      : keys_(keys), architecture_(architecture), is_known_(is_known), model_(model) {}

  void read() {
    if (keys_.has("block_count")) model_.layer_count = gguf_layer_count(keys_);
    window_ = window();
    read_counts("attention.head_count", heads_);
    read_counts("attention.head_count_kv", kv_heads_);
    if (architecture_.indexer == GgufIndexer::ByRatio) {
      read_counts("attention.compress_ratios", ratios_);
    }
    if (is_known_) qk_norm_ = gguf_qk_norm(keys_, architecture_.qk_norm);
    const bool has_window = window_ && window_->kind != WindowKind::None;
    if (model_.layer_count > 0) {
      if (has_window) is_local_ = gguf_local_layers(keys_, architecture_);
      if (architecture_.rope.nope_layers == GgufNopeLayers::LinearLayers) {
        is_linear_ = gguf_linear_layers(keys_, architecture_);
      }
    } else if (has_window || architecture_.rope.nope_layers != GgufNopeLayers::None ||
               model_.layers.size() > 1) {
      return;  // layers differ, and their number is unknown
    }
    for (Index i = 0; i < (std::max)(model_.layer_count, Index{1}); ++i) {
      model_.attention.push_back(layer(i));
    }
  }

 private:
  /// Returns the window of those layers that have one; nullopt if unknown. llama.cpp reads the key
  /// for the architectures that have a period, and hard-codes some windows.
  std::optional<LayerWindow> window() const {
    constexpr auto key = "attention.sliding_window";
    const auto given = keys_.integer(key);
    if (given && *given < 0) keys_.reject(key, "must not be negative");
    const Index size = given.value_or(0);
    if (architecture_.windows.chunk != 0)
      return LayerWindow{WindowKind::Chunked, architecture_.windows.chunk};
    if (architecture_.windows.period == 0) {
      return size == 0 ? std::optional(LayerWindow{}) : std::nullopt;
    }
    if (architecture_.rope.nope_layers == GgufNopeLayers::GlobalOf64 &&
        !gguf_has_64_layers(keys_)) {
      return LayerWindow{};
    }
    if (!given && architecture_.windows.default_size != 0) {
      return LayerWindow{WindowKind::Sliding, architecture_.windows.default_size};
    }
    if (size == 0) {
      if (architecture_.windows.may_be_absent) return LayerWindow{};
      if (given) keys_.reject(key, "is 0, for which llama.cpp masks every key of local layers");
      return std::nullopt;
    }
    return LayerWindow{
        architecture_.windows.both_sides ? WindowKind::BothSides : WindowKind::Sliding, size};
  }

  void read_counts(const char* name, std::vector<Index>& counts) const {
    const auto given = keys_.integers(name);
    if (!given) return;
    counts = model_.layer_count > 0 ? gguf_layer_list(keys_, name) : *given;
    if (counts.empty()) counts = *given;
    for (const Index count : counts) {
      if (count < 0 || count > max_heads) {
        keys_.reject(name, "must be from 0 to ", max_heads);
      }
    }
  }

  /// Returns the entry of a layer, or the single entry for all layers.
  static std::optional<Index> entry(const std::vector<Index>& list, Index number) {
    if (list.empty()) return std::nullopt;
    return list.size() == 1 ? list.front() : list[static_cast<std::size_t>(number)];
  }

  LayerAttention layer(Index number) const {
    const auto at = static_cast<std::size_t>(number);
    const auto heads = entry(heads_, number);
    const auto kv_heads = kv_heads_.empty() ? heads : entry(kv_heads_, number);
    LayerAttention layer;
    if (at < is_linear_.size() && is_linear_[at]) {
      layer.kind = LayerKind::Linear;
      return layer;
    }
    if (heads == 0 || kv_heads == 0) {
      if (is_known_) layer.kind = architecture_.without_heads;
      return layer;
    }
    const bool is_local = at < is_local_.size() && is_local_[at];
    // Latent keys are stored as one head and expanded to as many as there are query heads.
    const bool is_latent = keys_.has("attention.key_length_mla");
    layer.heads = heads;
    layer.kv_heads = is_latent ? heads : kv_heads;
    const bool is_second = is_local && model_.layers.size() > 1;
    layer.head_dim = model_.layers[is_second ? 1 : 0].rotary.head_dim;
    layer.value_dim = value_dim(is_latent, is_second, *layer.head_dim);
    if (is_known_ && architecture_.sinks != GgufSinks::ByWeights) {
      layer.sinks = architecture_.sinks == GgufSinks::AllLayers;
    }
    layer.qkv_clip = keys_.real("attention.clamp_kqv");
    if (layer.qkv_clip == 0) layer.qkv_clip.reset();
    layer.qk_norm = has_qk_norm(number) ? qk_norm_ : no_qk_norm;
    if (window_) {
      const bool is_compressed = architecture_.compresses_keys && !is_local;
      layer.window = is_local || is_compressed ? *window_ : LayerWindow{};
      layer.kind = is_sparse(number, is_local) ? LayerKind::Sparse
                   : is_compressed             ? LayerKind::Compressed
                                               : layer_kind_of(*layer.window);
    }
    layer.output_inverse_rotated = architecture_.compresses_keys;
    return layer;
  }

  /// True if a layer has the norm of the architecture's row, if any.
  bool has_qk_norm(Index number) const {
    const auto& layers = model_.layers_without_rotary;
    return architecture_.qk_norm.layers == QkNormLayers::All ||
           !std::binary_search(layers.begin(), layers.end(), number);
  }

  /// True if an indexer chooses the keys of a layer.
  bool is_sparse(Index number, bool is_local) const {
    switch (architecture_.indexer) {
      case GgufIndexer::AllLayers:
        return true;
      case GgufIndexer::AfterDense:
        return number >= keys_.integer("leading_dense_block_count").value_or(0);
      case GgufIndexer::GlobalLayers:
        return !is_local;
      case GgufIndexer::ByRatio:
        return entry(ratios_, number).value_or(0) > 0;
      default:
        return false;
    }
  }

  std::optional<Index> value_dim(bool is_latent, bool is_local, Index head_dim) const {
    const auto given =
        keys_.integer(is_latent ? "attention.value_length_mla" : "attention.value_length");
    if (is_local && keys_.has("attention.value_length_swa")) {
      return keys_.integer("attention.value_length_swa");
    }
    // llama.cpp divides the width by the number of heads if neither is given.
    const bool same = !given && !is_latent && !keys_.has("attention.key_length");
    return same ? std::optional(head_dim) : given;
  }

  const GgufKeys& keys_;
  const GgufArchitecture& architecture_;
  bool is_known_;
  ModelSettings& model_;
  std::optional<LayerWindow> window_;
  std::vector<Index> heads_, kv_heads_, ratios_;
  std::vector<bool> is_local_, is_linear_;
  std::optional<LayerQkNorm> qk_norm_;
};

}  // namespace detail
POSENC_END
