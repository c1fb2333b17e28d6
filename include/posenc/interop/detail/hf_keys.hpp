// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/detail/names.hpp>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <string_view>

// Keys of a config.json that may stay unread. An unread key is rejected if it may affect positions
// or scores. The lists below hold exceptions, whose names only suggest an effect.
POSENC_BEGIN
namespace detail {

POSENC_COLD inline bool is_one_of(std::span<const std::string_view> list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

POSENC_COLD inline bool contains_one_of(std::span<const std::string_view> words,
                                        std::string_view key) {
  return std::any_of(words.begin(), words.end(), [key](std::string_view word) {
    return key.find(word) != std::string_view::npos;
  });
}

POSENC_COLD inline bool ends_with_one_of(std::span<const std::string_view> words,
                                         std::string_view key) {
  return std::any_of(words.begin(), words.end(),
                     [key](std::string_view word) { return key.ends_with(word); });
}

POSENC_COLD inline bool starts_with_one_of(std::span<const std::string_view> words,
                                           std::string_view key) {
  return std::any_of(words.begin(), words.end(),
                     [key](std::string_view word) { return key.starts_with(word); });
}

/// Key of the trained length, beside or in rope dicts.
inline constexpr auto hf_original_length_key = "original_max_position_embeddings";

/// Names of the base, in rope dicts and beside them.
inline constexpr std::initializer_list<const char*> hf_base_names = {"rope_theta",
                                                                     "rotary_emb_base"};

/// Names of the rotary share beside rope dicts. In them it is partial_rotary_factor.
inline constexpr std::initializer_list<const char*> hf_share_names = {
    "partial_rotary_factor", "rotary_pct",     "rope_pct",           "rope_percent",
    "rope_percentage",       "rotary_percent", "rotary_emb_fraction"};

POSENC_COLD inline bool is_one_of(std::initializer_list<const char*> names, std::string_view key) {
  return std::find(names.begin(), names.end(), key) != names.end();
}

/// Parts of names of keys that affect rotation, the choice of rotary layers, or scores.
inline constexpr auto hf_position_and_score_words = std::to_array<std::string_view>(
    {"_rope",   "mrope",          "drope",        "rotary",      "ntk",        "yarn",
     "alibi",   "xpos",           "attn",         "attention",   "softmax",    "scale",
     "scaling", "scalar",         "multiplier",   "temperature", "softcap",    "soft_cap",
     "capping", "logit_cap",      "logn",         "nope",        "position",   "pos_enc",
     "pos_emb", "theta",          "freq_base",    "base_freq",   "window",     "sink",
     "swa_",    "relative",       "layer_types",  "layer_type",  "block_type", "layer_config",
     "pattern", "layer_interval", "head_dim",     "kv_channels", "qk_nope",    "compress_r",
     "use_mla", "recurrent",      "sparse_config"});

/// Keys that contain such a word and affect neither positions nor scores: biases, norms and widths
/// of other parts, dropout, kernels, caches, training, MLPs, experts, embeddings and logits.
inline constexpr std::string_view hf_ignored_keys =
    "_attn_implementation activation_sparsity_pattern alibi_bias_max altup_correct_scale "
    "altup_lr_multiplier attention_norm_eps attention_out_multiplier "
    "attention_projection_layout attention_value_scale attention_output_gate attn_output_gate "
    "block_type cross_attention_hidden_size decoder_sparse_step embedding_multiplier "
    "embedding_multiplier_scale "
    "emb_scale ff_dim_multiplier ffn_dim_multiplier ffn_multiplier block_ffn_dim_multiplier "
    "final_logit_softcapping hc_sinkhorn_iters initializer_scale is_composition "
    "layer_scale_init_value layer_scale_initial_scale layerscale_value lm_head_multiplier "
    "logit_scale logits_scaling mlp_multiplier moe_layer_freq moe_layer_interval fuse_rope "
    "fuse_attention_qkv fuse_attention_ffn fuse_softmax_mask masked_softmax_fusion "
    "multi_query_attention group_query_attention naive_attention_decode_batched "
    "naive_attention_decode_single naive_attention_prefill norm_softmax num_attention_heads "
    "output_multiplier_scale output_attentions parallel_attn parallel_attn_mlp_res "
    "num_ln_in_parallel_attn reorder_and_upcast_attn qkv_multipliers rescale_every "
    "rescale_prenorm_residual residual_multiplier rope_full_precision rope_max_length "
    "route_scale routed_scaling_factor moe_routed_scaling_factor router_scaling_factor "
    "scale_depth scale_emb scale_embedding scale_logits scale_mask_softmax_fusion scale_residue "
    "scale_resolution scale_shared_experts sparse_pred_ignore_index sparse_prediction temperature "
    "use_head_wise_attn_gate "
    "use_memory_efficient_attention use_position_ids v_head_dim max_position_embeddings "
    "max_trained_positions original_max_position_embeddings";

/// Flags and numbers that have no effect at this value.
struct HfNeutralValue {
  std::string_view names;
  double value;  ///< 0 and 1 also match false and true
};

inline constexpr auto hf_neutral_values = std::to_array<HfNeutralValue>({
    {.names = "add_cross_attention alibi apply_query_key_layer_scaling is_cross_attention logn "
              "logn_attention_clip1 logn_attention_scale mla_use_nope position_embedding_xdrope "
              "position_encoding_2d qk_nope_head_dim qk_rope_head_dim rope_3d rope_interleaved "
              "rotary_emb_interleaved scale_attn_by_inverse_layer_idx sink use_alibi "
              "use_bidirectional_attention use_dynamic_ntk use_logn_attn use_mla use_mrope",
     .value = 0},
    {.names = "attention_in_multiplier compression_ratio full_attn_mod global_attn_every_n "
              "original_rope rotary_scaling_factor scale_attn_weights scale_qk_coeff use_pos_enc "
              "use_rotary_pos_emb",
     .value = 1},
    {.names = "sliding_window_size swa_rope_theta", .value = -1},
});

/// Suffixes of keys of projection biases and number types.
inline constexpr auto hf_ignored_key_suffixes =
    std::to_array<std::string_view>({"_bias", "_dtype", "_eps"});

/// True if an object has a value that is an object, as rope dicts with one dict per layer type.
POSENC_COLD inline bool hf_has_dicts(const Json& object) {
  return std::any_of(object.members().begin(), object.members().end(),
                     [](const auto& member) { return member.second.is_object(); });
}

/// True if a key may stay unread: its name suggests no effect, it is known to have none, or its
/// value has none.
POSENC_COLD inline bool hf_is_ignorable(std::string_view key, const Json& value) {
  if (const HfNeutralValue* neutral = find_row(hf_neutral_values, key)) {
    if (value.is_boolean()) return value.flag() == (neutral->value != 0);
    return value.is_equal(neutral->value);
  }
  if (lists_name(hf_ignored_keys, key)) return true;
  if (key == "per_layer_config" && value.is_object() && value.members().empty()) return true;
  const bool sounds_like_ours =
      key.substr(0, 4) == "rope" || contains_one_of(hf_position_and_score_words, key);
  if (!sounds_like_ours) return true;
  if (key.find("drope") != std::string_view::npos) return false;
  constexpr auto other =
      std::to_array<std::string_view>({"drop", "flash", "fp32", "implementation", "init_scale",
                                       "initializer", "layer_norm", "layernorm", "loss"});
  constexpr auto parts = std::to_array<std::string_view>(
      {"audio_", "ffn_", "image_", "index_", "indexer_", "mamba_", "mlp_", "moe_", "mtp_",
       "router_", "speech_", "ssm_", "video_", "vision_"});
  constexpr auto score_words =
      std::to_array<std::string_view>({"alibi", "position", "relative", "sink"});
  return contains_one_of(other, key) || starts_with_one_of(parts, key) ||
         (ends_with_one_of(hf_ignored_key_suffixes, key) && !contains_one_of(score_words, key));
}

}  // namespace detail
POSENC_END
