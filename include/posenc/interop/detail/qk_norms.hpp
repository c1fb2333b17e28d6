// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/layer_attention.hpp>

// Norms of queries and keys that rows of model types and of architectures name.
POSENC_BEGIN
namespace detail {

/// Layers that have the norm. The others have none.
enum class QkNormLayers {
  All,
  WithRotary,  ///< layers with rotary encoding
  Cross        ///< layers that attend to another sequence
};

inline constexpr LayerQkNorm no_qk_norm = {};
inline constexpr LayerQkNorm rms_of_heads = {.kind = LayerQkNormKind::Rms,
                                             .weights = LayerQkNormWeights::Factors};
inline constexpr LayerQkNorm rms_of_heads_plus_one = {
    .kind = LayerQkNormKind::Rms, .weights = LayerQkNormWeights::FactorsMinusOne};
inline constexpr LayerQkNorm rms_of_all_heads = {.kind = LayerQkNormKind::Rms,
                                                 .is_over_all_heads = true,
                                                 .weights = LayerQkNormWeights::Factors};
inline constexpr LayerQkNorm rms_after_rotation = {.kind = LayerQkNormKind::Rms,
                                                   .weights = LayerQkNormWeights::Factors,
                                                   .is_after_rotation = true};
inline constexpr LayerQkNorm plain_rms_after_rotation = {.kind = LayerQkNormKind::Rms,
                                                         .is_after_rotation = true};
inline constexpr LayerQkNorm layer_norm_of_heads = {
    .kind = LayerQkNormKind::LayerNorm, .weights = LayerQkNormWeights::Factors, .has_bias = true};
inline constexpr LayerQkNorm layer_norm_per_head = {.kind = LayerQkNormKind::LayerNorm,
                                                    .weights = LayerQkNormWeights::FactorsPerHead};

}  // namespace detail
POSENC_END
