// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/names.hpp>
#include <posenc/interop/layer_attention.hpp>

#include <array>
#include <optional>
#include <string_view>

// Norms of queries and keys by model type. They are tables of their own, because model types that
// share a row of other traits differ in it. For other types the norm is not known.
POSENC_BEGIN
namespace detail {

struct QkNormRow {
  std::string_view names;  ///< model types that share the row
  LayerQkNorm norm;
  const char* flag_key = nullptr;  ///< key of the flag that switches the norm; nullptr: always on
  bool flag_default = false;
};

/// Rows of Hugging Face's model types.
///   Source: huggingface/transformers, modular files of models/: qwen3, olmo3 (02e8340), qwen3_moe
///           (00eb116), dots1, exaone4, flex_olmo (008e574), lfm2 (02f4177), gemma3 (0033204),
///           olmo2 (008f5c8), minimax_m2 (001f85b; the flag is of MiniMax's own code), cohere
///           (03ea97a); from excerpts of late 2026, at a commit that was not recorded: qwen3_vl,
///           qwen3_vl_moe, qwen3_next, glm4_moe, apertus, olmoe, hunyuan_v1_dense
inline constexpr auto hf_qk_norms = std::to_array<QkNormRow>({
    {.names = "apertus dots1 exaone4 lfm2 qwen3 qwen3_moe qwen3_vl qwen3_vl_moe qwen3_vl_moe_text "
              "qwen3_vl_text",
     .norm = LayerQkNorm::Heads},
    {.names = "cohere", .norm = LayerQkNorm::LayerNorm, .flag_key = "use_qk_norm"},
    {.names = "flex_olmo olmo2 olmo3 olmoe", .norm = LayerQkNorm::AllHeads},
    {.names = "gemma2 llama olmo", .norm = LayerQkNorm::None},
    {.names = "gemma3 gemma3_text qwen3_next", .norm = LayerQkNorm::HeadsPlusOne},
    {.names = "glm4_moe", .norm = LayerQkNorm::Heads, .flag_key = "use_qk_norm"},
    {.names = "hunyuan_v1_dense", .norm = LayerQkNorm::HeadsAfterRotation},
    {.names = "minimax_m2",
     .norm = LayerQkNorm::AllHeads,
     .flag_key = "use_qk_norm",
     .flag_default = true},
});

/// Rows of llama.cpp's architectures. Its converter has added 1 to Gemma's weights.
///   Source: ggml-org/llama.cpp, src/models/: qwen3, qwen3moe (069be0a), olmo2 (8a5c4e0), gemma3
///           (569a009); norm_shift() of Gemma3Model in the converter
inline constexpr auto gguf_qk_norms = std::to_array<QkNormRow>({
    {.names = "gemma3 qwen3 qwen3moe", .norm = LayerQkNorm::Heads},
    {.names = "olmo2", .norm = LayerQkNorm::AllHeads},
});

/// Returns the norm of an architecture; nullopt if it is not known.
inline std::optional<LayerQkNorm> gguf_qk_norm(std::string_view architecture) {
  const QkNormRow* row = find_row(gguf_qk_norms, architecture);
  return row == nullptr ? std::nullopt : std::optional(row->norm);
}

}  // namespace detail
POSENC_END
