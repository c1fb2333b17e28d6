// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/detail/names.hpp>

#include <algorithm>
#include <array>
#include <string_view>

// Files of unknown model types: their statements, and the keys that are not understood.
POSENC_BEGIN
namespace detail {

/// Keys of sizes, MLPs, experts, tokens, training and text generation, which any model may have.
inline constexpr std::string_view hf_ordinary_keys =
    "_attn_implementation_autoset _from_model_config _name_or_path activation_function "
    "architectures auto_map bad_words_ids base_model_pp_plan base_model_tp_plan bbox_cost "
    "begin_suppress_tokens chunk_size_feed_forward decoder_sparse_step diversity_penalty do_sample "
    "early_stopping exponential_decay_length_penalty finetuning_task first_k_dense_replace "
    "gradient_checkpointing hidden_act hidden_activation hidden_size id2label initializer_range "
    "intermediate_size label2id length_penalty max_length max_new_tokens max_seq_len "
    "max_sequence_length min_length model_type n_embd n_group n_head n_inner n_layer n_positions "
    "n_routed_experts n_shared_experts no_repeat_ngram_size norm_topk_prob num_beam_groups "
    "num_beams num_hidden_layers num_key_value_heads num_layers num_local_experts "
    "num_return_sequences output_hidden_states output_router_logits output_scores "
    "padded_vocab_size prefix pretraining_tp problem_type pruned_heads quantization_config "
    "remove_invalid_values repetition_penalty return_dict return_dict_in_generate scoring_func "
    "seq_length shared_expert_intermediate_size suppress_tokens task_specific_params "
    "tf_legacy_loss tie_encoder_decoder tie_word_embeddings tokenizer_class top_k top_p "
    "topk_group topk_method torch_dtype torchscript transformers_version typical_p use_bfloat16 "
    "use_cache vocab_size dtype";

/// True if a key of an unknown type concerns neither positions nor scores, or has no effect.
POSENC_COLD inline bool hf_is_ordinary(std::string_view key, const Json& value) {
  constexpr auto starts = std::to_array<std::string_view>(
      {"expert_", "mlp_", "moe_", "num_expert", "router_", "shared_expert"});
  constexpr auto ends = std::to_array<std::string_view>({"_bias", "_dropout", "_dropout_prob",
                                                         "_dtype", "_eps", "_epsilon", "_loss_coef",
                                                         "_pdrop", "_token_id", "_token_ids"});
  constexpr auto off = std::to_array<std::string_view>({"is_decoder", "is_encoder_decoder"});
  if (is_one_of(off, key)) return value.is_flag(false);
  if (!hf_is_ignorable(key, value)) return false;
  const bool is_exception =  // of the words that suggest an effect
      lists_name(hf_ignored_keys, key) || find_row(hf_neutral_values, key) != nullptr;
  return is_exception || lists_name(hf_ordinary_keys, key) || starts_with_one_of(starts, key) ||
         ends_with_one_of(ends, key);
}

/// Keys that the reader of a plain rotary model reads, besides the names of the base and the share.
inline constexpr std::string_view hf_plain_model_keys =
    "attention_head_dim attn_type_list dual_chunk_attention_config head_dim kv_channels "
    "layer_types max_window_layers num_attention_heads_per_layer num_key_value_heads_per_layer "
    "position_embedding_type rope rope_is_neox_style rope_parameters rope_position_scale "
    "rope_scaling rope_traditional rotary rotary_dim rotary_value sliding_window use_3d_rope "
    "use_sliding_window";

/// True if a key of an unknown type is understood, or concerns neither positions nor scores.
POSENC_COLD inline bool hf_is_understood(std::string_view key, const Json& value) {
  return value.is_null() || is_one_of(hf_base_names, key) || is_one_of(hf_share_names, key) ||
         lists_name(hf_plain_model_keys, key) || hf_is_ordinary(key, value);
}

/// True if `states` holds for the rope dict, or for each of the dicts per layer type.
template <class States>
bool hf_all_rope_dicts(const Json& config, const States& states) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    const Json* dict = config.find(name);
    if (dict == nullptr || !dict->is_object()) continue;
    if (!hf_has_dicts(*dict)) return states(*dict);
    return std::all_of(dict->members().begin(), dict->members().end(), [&](const auto& member) {
      return !member.second.is_object() || states(member.second);
    });
  }
  return states(Json::object());
}

/// True if the file states the order of the axes of its mrope_section, or has none.
POSENC_COLD inline bool hf_states_axes(const Json& config) {
  return hf_all_rope_dicts(config, [](const Json& dict) {
    return !dict.contains("mrope_section") || dict.contains("mrope_interleaved");
  });
}

/// True if the file states the rotated share of a head.
POSENC_COLD inline bool hf_states_share(const Json& config) {
  const auto has = [](const Json& object, const char* key) {
    const Json* share = object.find(key);
    return share != nullptr && !share->is_null();
  };
  return has(config, "rotary_dim") ||
         std::any_of(hf_share_names.begin(), hf_share_names.end(),
                     [&](const char* name) { return has(config, name); }) ||
         hf_all_rope_dicts(config,
                           [&](const Json& dict) { return has(dict, "partial_rotary_factor"); });
}

}  // namespace detail
POSENC_END
