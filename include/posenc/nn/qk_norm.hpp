// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <cstdint>
#include <type_traits>

POSENC_STABLE_BEGIN

/// Numbers of a token that one norm of queries or of keys covers.
enum class QkNormOver : std::uint8_t {
  None,     ///< no norm
  Head,     ///< head_dim numbers; all heads share a weight of head_dim: Qwen3, Gemma 3
  AllHeads  ///< the whole projection; the weight has heads * head_dim numbers: OLMo 2
};

/// Meaning of the weights of a norm, as files store them.
enum class QkNormWeight : std::uint8_t {
  Unspecified,    ///< a ConfigError
  Factor,         ///< the factor itself: Qwen3, OLMo 2
  FactorMinusOne  ///< 1 is added to get the factor: Gemma 3
};

/// RMS norm of queries and keys, between projection and rotation: y = factor * x / sqrt(mean(x^2) +
/// epsilon). Cached keys are normalised. Norms with another place or another mean (Hunyuan's after
/// the rotation, Cohere's layer norm) are not covered.
///   Accuracy: y is within 1.001 u |y| for float, (n / 16 + 8) u |y| for double, unless it is
///             subnormal; n numbers per norm, u = 2^-24 (2^-53 for double). The squares of doubles
///             must not overflow
///   Bits:     depend on the n numbers alone, not on threads or other tokens
///   Cost:     a pass over queries and keys, on the threads of the device
///   Source:   arXiv 1910.07467; arXiv 2302.05442, section 2; huggingface/transformers,
///             models/qwen3/modular_qwen3.py (02e8340), models/olmo2/modular_olmo2.py (008f5c8),
///             models/gemma3/modular_gemma3.py
struct QkNorm {
  QkNormOver over = QkNormOver::None;               ///< numbers that one norm is over
  QkNormWeight weight = QkNormWeight::Unspecified;  ///< required
  /// Required, positive: rms_norm_eps of the file, 1e-6 in Qwen3 and Gemma 3.
  double epsilon = 0;
};

static_assert(std::is_trivially_copyable_v<QkNorm>);

POSENC_STABLE_END

POSENC_BEGIN

inline bool operator==(const QkNorm& a, const QkNorm& b) noexcept {
  return a.over == b.over && a.weight == b.weight && a.epsilon == b.epsilon;
}

POSENC_END
