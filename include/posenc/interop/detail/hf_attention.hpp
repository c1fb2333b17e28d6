// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/hf_read.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/detail/qk_norms.hpp>
#include <posenc/interop/layer_attention.hpp>
#include <posenc/interop/model_settings.hpp>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Returns the norm of queries and keys of the layers that have one; nullopt if it is not known.
POSENC_COLD inline std::optional<LayerQkNorm> hf_qk_norm(const JsonKeys& config,
                                                         const HfTypeNorms& norms) {
  if (norms.qk_flag != nullptr) {
    const auto given = config.flag(norms.qk_flag);
    const auto is_on = given ? given : norms.qk_is_on;
    if (!is_on) return std::nullopt;
    if (!*is_on) return no_qk_norm;
  }
  const auto kind = norms.qk_kind_key == nullptr ? std::nullopt : config.text(norms.qk_kind_key);
  if (kind == "olmo") return rms_of_all_heads;
  return kind && kind != "qwen3" ? std::nullopt : norms.qk;
}

/// Reader of heads and windows of each layer, for a model whose rotary layers have been read.
class HfAttention {
 public:
  explicit HfAttention(HfRead& read)
      : config_(read.config),
        type_(read.type),
        defaults_(read.type.attention),
        is_known_(read.is_known),
        model_(read.model),
        head_dim_(read.head_dim) {}

  void read() {
    read_heads();
    read_window();
    read_clip();
    qk_norm_ = hf_qk_norm(config_, type_.norms);
    const auto given = config_.texts("layer_types");
    if (type_.layers.form == HfLayers::ListedRotations) {
      types_ = hf_required_types(config_);  // without the variants of hf_read_layers_of_lists()
    } else if (type_.layers.form == HfLayers::ListedBases) {
      types_ = hf_counted_types(config_, type_.layers);  // likewise
    } else if (!model_.layer_types.empty()) {
      types_ = model_.layer_types;
    } else if (given) {
      types_ = *given;
    }
    const Index layers =
        types_.empty() ? hf_layer_count(config_).value_or(0) : static_cast<Index>(types_.size());
    model_.layer_count = layers;
    for (Index i = 0; i < layers; ++i) model_.attention.push_back(layer(i));
    if (layers == 0 && are_layers_equal()) model_.attention.push_back(layer(0));
  }

 private:
  bool are_layers_equal() const {
    return model_.layers.size() == 1 && model_.types_without_rotary.empty() &&
           model_.layers_without_rotary.empty() && type_.layers.form != HfLayers::NoRopeIndex &&
           (!has_window() || defaults_.windows == HfWindowPattern::Every ||
            defaults_.windows == HfWindowPattern::EverySwitched);
  }

  // Heads.

  void read_heads() {
    const HfHeads form = defaults_.heads;
    heads_ = config_.any_of<Index>({"num_attention_heads", "n_head"});
    check_count("num_attention_heads", heads_);
    heads_of_layers_ = config_.integers("num_attention_heads_per_layer");
    for (const Index count : heads_of_layers_.value_or(std::vector<Index>{})) {
      check_count("num_attention_heads_per_layer", count);
    }
    constexpr auto key = "num_key_value_heads";
    kv_heads_ = config_.integer(key);
    check_count(key, kv_heads_);
    if (kv_heads_ && heads_ && *heads_ % *kv_heads_ != 0) {
      config_.reject(key, "does not divide the number of heads, ", *heads_);
    }
    kv_heads_of_layers_ = config_.integers("num_key_value_heads_per_layer");
    for (const Index count : kv_heads_of_layers_.value_or(std::vector<Index>{})) {
      check_count("num_key_value_heads_per_layer", count);
    }
    if (type_.layers.form == HfLayers::Blocks) read_heads_of_blocks();
    if (is_known_) local_sinks_ = global_sinks_ = defaults_.sinks;
    has_own_values_ = form == HfHeads::Latent || form == HfHeads::LocalByKeys;
    if (form == HfHeads::Latent) {
      kv_heads_ = global_kv_heads_ = heads_;  // after expansion of the latent keys
      value_dim_ = config_.integer("v_head_dim");
      check_count("v_head_dim", value_dim_, max_head_dim);
      return;
    }
    // null, and 0 beside use_mla: false, count as absent.
    const Json* own_values = config_.find("v_head_dim");
    if (is_known_ && (own_values == nullptr || own_values->is_equal(0))) value_dim_ = head_dim_;
    if (!kv_heads_) kv_heads_ = default_kv_heads();
    global_kv_heads_ = kv_heads_;
    if (form == HfHeads::LocalByKeys) return read_heads_by_keys();
    if (form == HfHeads::LocalBySetting) return read_heads_by_setting();
    if (form == HfHeads::WideGlobal) {
      const auto global = config_.integer("num_global_key_value_heads");
      check_count("num_global_key_value_heads", global);
      const auto shared = config_.flag("attention_k_eq_v");
      if (global && shared.value_or(false)) global_kv_heads_ = global;
    }
  }

  void read_heads_of_blocks() {
    kv_heads_of_layers_.emplace();
    for (const auto& group : hf_attention_blocks(config_)) {
      const Index heads = config_.required("num_attention_heads", heads_);
      if (group && (*group < 1 || heads % *group != 0)) {
        config_.reject("block_configs", "has groups that do not divide the number of heads, ",
                       heads);
      }
      kv_heads_of_layers_->push_back(group ? heads / *group : 0);
    }
  }

  /// Reads heads of local layers, and widths of values, from keys of their own.
  void read_heads_by_keys() {
    const auto local = [this](const char* key, const std::optional<Index>& default_value,
                              Index max_value = max_heads) {
      const auto given = config_.integer(key);
      check_count(key, given, max_value);
      return given ? given : default_value;
    };
    local_heads_ = local("swa_num_attention_heads", heads_);
    kv_heads_ = local("swa_num_key_value_heads", kv_heads_);
    value_dim_ = local("v_head_dim", 128, max_head_dim);
    local_value_dim_ = local("swa_v_head_dim", value_dim_, max_head_dim);
    local_sinks_ = config_.flag("add_swa_attention_sink_bias");
    global_sinks_ = config_.flag("add_full_attention_sink_bias");
  }

  /// Reads heads of local layers from attention_other_setting.
  void read_heads_by_setting() {
    constexpr auto name = "attention_other_setting";
    const Json* given = config_.find(name);
    local_heads_ = config_.integer("num_sliding_attention_heads");
    check_count("num_sliding_attention_heads", local_heads_);
    if (given == nullptr) return;
    const JsonKeys local(*given, name);
    if (local.text("attention_type").value_or(sliding_attention) != sliding_attention) {
      local.reject("attention_type", "must be sliding_attention");
    }
    for (const char* key : {"head_dim", "true_head_dim"}) {
      if (local.integer(key).value_or(head_dim_) != head_dim_) {
        local.reject(key, "is not the head_dim of the other layers");
      }
    }
    local_heads_ = local.required("num_attention_heads", local.integer("num_attention_heads"));
    kv_heads_ = local.required("num_attention_groups", local.integer("num_attention_groups"));
    check_count(name, local_heads_);
    check_count(name, kv_heads_);
    local.reject_unread([](const std::string&, const Json&) { return false; });
  }

  void check_count(const char* key, const std::optional<Index>& value,
                   Index max_value = max_heads) const {
    if (value && (*value < 1 || *value > max_value)) {
      config_.reject(key, "must lie between 1 and ", max_value);
    }
  }

  std::optional<Index> default_kv_heads() const {
    constexpr auto flag = "multi_query_attention", group_key = "multi_query_group_num";
    switch (defaults_.multi_query) {
      case HfMultiQuery::FlagOrGroups:
      case HfMultiQuery::Groups:
        return kv_heads_of_decoder();
      case HfMultiQuery::Flag:
        if (config_.flag(flag).value_or(false)) return 1;
        break;
      case HfMultiQuery::GroupNumber: {
        const bool grouped = config_.flag(flag).value_or(false);
        const auto groups = config_.integer(group_key);
        check_count(group_key, groups);
        return grouped ? groups : heads_;
      }
      case HfMultiQuery::None:
        break;
    }
    const bool is_null = config_.has("num_key_value_heads");
    if (defaults_.kv_heads == kv_heads_equal_heads) return heads_;
    const bool divides = heads_ && defaults_.kv_heads > 0 && *heads_ % defaults_.kv_heads == 0;
    return divides && !is_null ? std::optional(defaults_.kv_heads) : std::nullopt;
  }

  std::optional<Index> kv_heads_of_decoder() const {
    const auto groups = config_.any_of<Index>({"num_kv_heads", "n_head_kv"});
    check_count("num_kv_heads", groups);
    const bool is_new = config_.flag("new_decoder_architecture").value_or(false);
    // The first files of the 40B model lack the flag.
    if (is_new || defaults_.multi_query == HfMultiQuery::Groups) {
      return groups ? groups : heads_;
    }
    return config_.flag("multi_query").value_or(true) ? std::optional<Index>(1) : heads_;
  }

  /// Reads the bound of queries, keys and values: OLMo, DBRX.
  void read_clip() {
    qkv_clip_ = config_.real("clip_qkv");
    if (qkv_clip_ && !(*qkv_clip_ > 0)) config_.reject("clip_qkv", "must be positive");
  }

  // Windows.

  bool has_window() const { return window_ && window_->kind != WindowKind::None; }

  /// Reads the window of those layers that have one; nullopt if unknown.
  void read_window() {
    const bool is_chunked = defaults_.windows == HfWindowPattern::ChunksWithRotary;
    const bool is_half = defaults_.windows == HfWindowPattern::HalfOfLocal;
    const char* key = is_chunked ? "attention_chunk_size"
                      : is_half || defaults_.windows == HfWindowPattern::BothSides
                          ? "local_attention"
                          : "sliding_window";
    const Json* given = config_.find(key);
    std::optional<Index> size = std::nullopt;
    if (given == nullptr || !given->is_flag(false)) size = config_.integer(key);
    const bool is_switched = defaults_.windows == HfWindowPattern::AfterFirstSwitched ||
                             defaults_.windows == HfWindowPattern::ListedSwitched ||
                             defaults_.windows == HfWindowPattern::EverySwitched ||
                             defaults_.windows == HfWindowPattern::WithoutRotary;
    const auto use = config_.flag("use_sliding_window");
    const bool is_radius = defaults_.windows == HfWindowPattern::Radius;
    const bool both_sides =
        is_radius || defaults_.windows == HfWindowPattern::BothSides || is_bidirectional();
    const bool is_from_first = defaults_.windows == HfWindowPattern::AfterFirst;
    first_windowed_ = config_.integer("max_window_layers").value_or(defaults_.first_windowed);
    if (!is_known_) {  // without a key, a class may have a window by default
      const bool is_off = config_.has(key) ? !size : use == false;
      if (is_off) window_ = LayerWindow{};
      return;
    }
    if (defaults_.windows == HfWindowPattern::Unknown) return;
    window_ = LayerWindow{};
    if (defaults_.windows == HfWindowPattern::None) {
      // A window that masks nothing within the trained length is accepted.
      const bool hides = size && use.value_or(true) &&
                         (model_.trained_length == 0 || *size < model_.trained_length);
      if (hides) {
        config_.reject(key,
                       "is read by no class of this type, whose layers attend to all keys; remove "
                       "it if the weights were trained so");
      }
      return;
    }
    if (is_switched && !use.value_or(false)) return;
    if (!size && !config_.has(key) && defaults_.window > 0) size = defaults_.window;
    if (!size) return;
    if (!is_switched && !is_from_first && !use.value_or(true)) {
      config_.reject("use_sliding_window", "is false, which no class of this type reads; set ", key,
                     " to null if layers attend to all keys");
    }
    if (is_half) {
      *size /= 2;
      if (config_.integer("sliding_window").value_or(*size) != *size) {
        config_.reject("sliding_window", "is not half of local_attention");
      }
    }
    if (*size < 1) config_.reject(key, "must be positive");
    if (is_radius) {
      if (*size > (std::numeric_limits<Index>::max)() / 2) config_.reject(key, "is too large");
      *size *= 2;
    }
    window_ = LayerWindow{is_chunked   ? WindowKind::Chunked
                          : both_sides ? WindowKind::BothSides
                                       : WindowKind::Sliding,
                          *size};
  }

  /// True if windows extend to later keys, too, as in Gemma's encoders. Gemma 4's value "vision"
  /// does so only within images, and counts as false.
  bool is_bidirectional() const {
    constexpr auto key = "use_bidirectional_attention";
    if (defaults_.bidirectional == HfBidirectional::Never) return false;
    const Json* given = config_.find(key);
    if (given == nullptr || (given->is_flag(false))) return false;
    const bool may_be_true = defaults_.bidirectional == HfBidirectional::IfTrueOrAll;
    if (may_be_true && given->is_boolean()) return true;
    if (given->is_text("all")) return true;
    if (given->is_text("vision")) return false;
    config_.reject(key, "has a value that is not supported");
  }

  // Layers.

  LayerAttention layer(Index number) const {
    const auto at = static_cast<std::size_t>(number);
    const std::string_view type =
        at < types_.size() ? std::string_view(types_[at]) : std::string_view();
    LayerAttention layer;
    if (type == "linear_attention" || type == "mamba" || type == "conv" || type == no_attention) {
      layer.kind = type == "conv"         ? LayerKind::Convolution
                   : type == no_attention ? LayerKind::None
                                          : LayerKind::Linear;
      return layer;
    }
    const bool is_global = type == full_attention;
    const bool is_local = type == sliding_attention;
    layer.heads = is_local && local_heads_ ? local_heads_ : heads_;
    if (heads_of_layers_) {
      layer.heads = entry_of_layer(*heads_of_layers_, "num_attention_heads_per_layer", at);
    }
    layer.kv_heads = is_global ? global_kv_heads_ : kv_heads_;
    if (kv_heads_of_layers_) {
      layer.kv_heads = entry_of_layer(*kv_heads_of_layers_, "num_key_value_heads_per_layer", at);
    }
    layer.head_dim = head_dim_;
    for (const LayerRotary& rotary : model_.layers) {
      if (rotary.layer_type == type) layer.head_dim = rotary.rotary.head_dim;
    }
    if (value_dim_) layer.value_dim = has_own_values_ ? value_dim_ : layer.head_dim;
    if (is_local && local_value_dim_) layer.value_dim = local_value_dim_;
    layer.sinks = is_local ? local_sinks_ : global_sinks_;
    layer.output_inverse_rotated = defaults_.output_inverse_rotated;
    layer.qkv_clip = qkv_clip_;
    layer.qk_norm = has_qk_norm(number, type) ? qk_norm_ : no_qk_norm;
    layer.window = window_of(number, type);
    if (type == "cross_attention") {
      layer.kind = LayerKind::Cross;
    } else if (type == compressed_attention) {
      layer.kind = LayerKind::Compressed;
    } else if (is_sparse(type)) {
      layer.kind = LayerKind::Sparse;
    } else if (layer.window) {
      layer.kind = layer_kind_of(*layer.window);
    }
    return layer;
  }

  /// True if a layer has the norm of queries and keys of the model's row.
  bool has_qk_norm(Index number, std::string_view type) const {
    if (type_.norms.qk_layers == QkNormLayers::All) return true;
    if (type_.norms.qk_layers == QkNormLayers::Cross) return type == "cross_attention";
    const auto& layers = model_.layers_without_rotary;
    const auto& types = model_.types_without_rotary;
    return !std::binary_search(layers.begin(), layers.end(), number) &&
           std::find(types.begin(), types.end(), type) == types.end();
  }

  Index entry_of_layer(const std::vector<Index>& counts, const char* key,
                       std::size_t number) const {
    if (number >= counts.size()) config_.reject(key, "must have an entry for each layer");
    return counts[number];
  }

  /// True if an indexer chooses the keys of this layer type. Without a list, layers are
  /// full_attention.
  bool is_sparse(std::string_view type) const {
    return !defaults_.sparse.empty() && defaults_.sparse == (type.empty() ? full_attention : type);
  }

  std::optional<LayerWindow> window_of(Index number, std::string_view type) const {
    if (!window_) return type == full_attention ? std::optional(LayerWindow{}) : std::nullopt;
    if (type.empty()) return has_window() && is_window_layer(number) ? *window_ : LayerWindow{};
    if (type == full_attention || type == "attention" || type == "self_attention" ||
        type == "cross_attention" || type == unscaled_attention || is_sparse(type)) {
      return LayerWindow{};
    }
    if (type != sliding_attention && type != "chunked_attention" && type != compressed_attention) {
      return std::nullopt;
    }
    if (!has_window()) {
      config_.reject("layer_types", "has layers of the type '", type, "', but there is no window");
    }
    return window_;
  }

  /// True if a layer has a window by the pattern of its class, for files without layer types.
  bool is_window_layer(Index number) const {
    const auto& unrotated = model_.layers_without_rotary;
    const bool is_rotated = !std::binary_search(unrotated.begin(), unrotated.end(), number);
    switch (defaults_.windows) {
      case HfWindowPattern::Alternate:
        return number % 2 == 0;
      case HfWindowPattern::AfterFirst:
      case HfWindowPattern::AfterFirstSwitched:
        return number >= first_windowed_;
      case HfWindowPattern::ListedSwitched:
        config_.reject(
            "use_sliding_window",
            "is true, and releases of the class differ in the layers with a window; list "
            "the types of layers in layer_types");
      case HfWindowPattern::WithoutRotary:
        return !is_rotated;
      case HfWindowPattern::ChunksWithRotary:
        return is_rotated;
      default:
        return true;
    }
  }

  const JsonKeys& config_;
  const HfModelType& type_;
  const HfTypeAttention& defaults_;
  bool is_known_, has_own_values_ = false;
  ModelSettings& model_;
  Index head_dim_;
  std::vector<std::string> types_;
  Index first_windowed_ = 0;
  std::optional<Index> heads_, kv_heads_, global_kv_heads_, local_heads_;
  std::optional<Index> value_dim_, local_value_dim_;
  std::optional<std::vector<Index>> heads_of_layers_, kv_heads_of_layers_;
  std::optional<bool> local_sinks_, global_sinks_;
  std::optional<LayerWindow> window_;
  std::optional<LayerQkNorm> qk_norm_;
  std::optional<double> qkv_clip_;
};

}  // namespace detail
POSENC_END
