// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/gguf_keys.hpp>
#include <posenc/interop/detail/names.hpp>
#include <posenc/interop/detail/unknown_model.hpp>
#include <posenc/interop/gguf_options.hpp>

#include <string>
#include <string_view>

// Files of unknown architectures: their statements, and the keys that are not understood.
POSENC_BEGIN
namespace detail {

/// Keys that the reader understands, or that have no effect on positions and scores in any model.
inline constexpr std::string_view gguf_ordinary_keys =
    "attention.causal attention.clamp_kqv attention.head_count attention.head_count_kv "
    "attention.key_length attention.layer_norm_epsilon attention.layer_norm_rms_epsilon "
    "attention.max_alibi_bias attention.relative_buckets_count attention.scale "
    "attention.sliding_window attention.sliding_window_pattern attention.value_length block_count "
    "context_length embedding_length "
    "embedding_scale feed_forward_length final_logit_softcapping hidden_activation "
    "leading_dense_block_count logit_scale pooling_type residual_scale rope.dimension_count "
    "rope.dimension_sections rope.freq_base rope.scale rope.scale_linear tensor_data_layout "
    "use_parallel_residual vocab_size";

POSENC_COLD inline bool gguf_is_ordinary(std::string_view name) {
  for (const std::string_view start : {"expert_", "moe_", "rope.scaling."}) {
    if (name.starts_with(start)) return true;
  }
  return lists_name(gguf_ordinary_keys, name);
}

/// Rejects an unknown architecture unless file and options state everything that its code would
/// define.
POSENC_COLD inline void gguf_require_statements(const GgufKeys& keys,
                                                const std::string& architecture,
                                                const GgufOptions& options) {
  RequiredStatements required;
  required.need("pairing", options.pairing.has_value());
  required.need("mrope_order", options.mrope_order || !keys.has("rope.dimension_sections"));
  required.need("rotary_share", options.rotary_share || keys.has("rope.dimension_count"));
  required.need("softmax_scale",
                options.softmax_scale || keys.real("attention.scale").value_or(0) != 0);
  const std::string prefix = keys.full("");
  for (const std::string& key : keys.file().keys(prefix)) {
    const auto name = std::string_view(key).substr(prefix.size());
    if (!gguf_is_ordinary(name) && !lists_name(options.ignored_keys, name)) {
      required.add_foreign_key(name);
    }
  }
  required.check(GgufKeys::function, "architecture", architecture);
}

/// Rejects options that state what a known architecture defines.
POSENC_COLD inline void gguf_reject_statements(const std::string& architecture,
                                               const GgufOptions& options) {
  const char* option = options.mrope_order     ? "mrope_order"
                       : options.rotary_share  ? "rotary_share"
                       : options.softmax_scale ? "softmax_scale"
                                               : nullptr;
  check_no_statement(GgufKeys::function, option, "architecture", architecture);
}

}  // namespace detail
POSENC_END
