// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/gguf_keys.hpp>
#include <posenc/interop/detail/gguf_rules.hpp>
#include <posenc/interop/detail/names.hpp>
#include <posenc/interop/detail/unknown_model.hpp>

#include <string>
#include <string_view>

POSENC_BEGIN
namespace detail {

/// Keys below <architecture>.rope that are read, in addition to those of one type of scaling.
inline constexpr std::string_view gguf_rope_keys =
    "dimension_count dimension_count_swa dimension_sections freq_base freq_base_swa scale "
    "scale_linear scaling.type scaling.factor scaling.original_context_length scaling.finetuned "
    "scaling.attn_factor";

/// Keys below <architecture>.attention that are read.
inline constexpr std::string_view gguf_attention_keys =
    "compress_ratios head_count head_count_kv key_length key_length_mla key_length_mla_swa "
    "key_length_swa scale output_scale sliding_window sliding_window_pattern temperature_scale "
    "temperature_length max_alibi_bias relative_buckets_count recurrent_layers rope_pattern "
    "value_length value_length_mla value_length_mla_swa value_length_swa clamp_kqv "
    "compress_rope_freq_base";

/// Keys below <architecture>.attention that affect neither positions nor scores: factors of values,
/// norms and ranks of projections, and masks.
inline constexpr std::string_view gguf_ignored_attention_keys =
    "value_scale kv_lora_rank_swa output_group_count output_lora_rank layer_norm_epsilon "
    "layer_norm_rms_epsilon group_norm_epsilon group_norm_groups q_lora_rank kv_lora_rank "
    "decay_lora_rank iclr_lora_rank value_residual_mix_lora_rank gate_lora_rank shared_kv_layers "
    "causal chunk_size indexer.head_count indexer.key_length indexer.top_k indexer.types "
    "indexer.block_size indexer.local_blocks";

/// Other keys with a suggestive name that are read, or have no effect.
inline constexpr std::string_view gguf_ignored_keys =
    "attn_logit_softcapping final_logit_softcapping router_logit_softcapping";

/// Rejects unknown keys that may affect positions or scores. All keys below rope and attention must
/// be known, and elsewhere those whose names suggest an effect. Keys of vision and audio towers are
/// accepted, and those that the caller means to ignore, if the file has them and they are not read.
POSENC_COLD inline void gguf_reject_unknown_keys(const GgufKeys& keys, std::string_view ignored) {
  const auto is_known = [&](std::string_view name) {
    constexpr std::string_view rope = "rope.", attention = "attention.";
    if (name.starts_with(rope)) {
      return lists_name(gguf_rope_keys, name.substr(rope.size())) || gguf_is_type_key(name);
    }
    if (name.starts_with(attention)) {
      name = name.substr(attention.size());
      return lists_name(gguf_attention_keys, name) || lists_name(gguf_ignored_attention_keys, name);
    }
    if (name.starts_with("vision.") || name.starts_with("audio.")) return true;
    if (lists_name(gguf_ignored_keys, name)) return true;
    for (const std::string_view word :
         {"rope", "rotary", "alibi", "position", "temperature", "softcap"}) {
      if (name.find(word) != std::string_view::npos) return false;
    }
    return true;
  };
  for_each_name(ignored, [&](std::string_view name) {
    const bool is_read = (name.starts_with("rope.") || name.starts_with("attention.")) &&
                         is_known(name) &&
                         !lists_name(gguf_ignored_attention_keys, name.substr(name.find('.') + 1));
    check_ignored_key(GgufKeys::function, name, keys.has(name), is_read);
  });
  const std::string prefix = keys.full("");
  for (const std::string& key : keys.file().keys(prefix)) {
    const auto name = std::string_view(key).substr(prefix.size());
    if (!is_known(name) && !lists_name(ignored, name)) {
      fail<ConfigError>(GgufKeys::function, "the key ", key, " is unknown");
    }
  }
}

/// Rejects keys of encodings that are not rotary.
POSENC_COLD inline void gguf_reject_other_encodings(const GgufKeys& keys) {
  if (keys.real("attention.max_alibi_bias").value_or(0) != 0) {
    keys.reject("attention.max_alibi_bias", "selects ALiBi, which is not a rotary encoding");
  }
  if (keys.integer("attention.relative_buckets_count").value_or(0) != 0) {
    keys.reject("attention.relative_buckets_count",
                "selects relative biases, which are not a rotary encoding");
  }
}

}  // namespace detail
POSENC_END
