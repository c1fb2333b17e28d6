// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <array>
#include <string_view>

// Model types whose attention does more than MultiHeadAttention.
POSENC_BEGIN
namespace detail {

/// Row of model types of Hugging Face and architectures of GGUF.
struct BeyondModule {
  std::string_view names;
  const char* has;  ///< what the attention has in addition, as a noun phrase for messages
};

/// Rows of types whose attention layers have parts that no setting of a module expresses.
///   Source: transformers 5.24.0, modeling_*.py of each type; llama.cpp of llama-cpp-python 0.3.36,
///           src/models/
inline constexpr auto beyond_module = std::to_array<BeyondModule>({
    {"afmoe axk2 bailingmoe3 dots3note hrm_text hy_v4 hy_v4_vl_text laguna lfm3 muse-glimmer "
     "qwen35 qwen35moe "
     "qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen3_next qwen3next qwen4_exp_text "
     "qwen4exp spark2_5 step35 step3p5",
     "a gate of its output"},
    {"bitnet", "a norm before its output projection"},
    {"embedding_gemma2_text gemma3n gemma3n_text gemma4 gemma4_text gemma4_unified "
     "gemma4_unified_text",
     "a norm of its values"},
    {"jetmoe", "projections that a router chooses"},
    {"mimo_v2_flash", "a factor of its values"},
    {"zaya", "projections that mix tokens"},
    {"zamba2", "an input of twice the width of a token"},
});

}  // namespace detail
POSENC_END
