// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/index_span.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <type_traits>

POSENC_STABLE_BEGIN

/// Causal rule, by which a query sees the keys up to the key that it is aligned with. With equally
/// many queries and keys TopLeft and BottomRight agree; otherwise libraries differ, so there is no
/// default.
enum class Causal {
  Unspecified,  ///< a ConfigError
  No,           ///< no causal mask: encoders, cross attention
  /// Query i is aligned with key i: PyTorch's is_causal, and ONNX's Attention without past keys and
  /// without nonpad_kv_seqlen.
  TopLeft,
  /// Query i is aligned with key i + Sk - Sq, the last query with the last key: flash-attn >= 2.1,
  /// MLX, ONNX's Attention with nonpad_kv_seqlen as key_lengths; decoding. Sk is key_lengths[b] if
  /// given. Padded self attention needs TopLeft.
  BottomRight,
  FromStart,  ///< query i is aligned with key query_starts[b] + i: ONNX, past keys before query 0
  ByPosition  ///< a query sees the keys whose position is at most its own
};

/// Sliding window of keys from `left` before to `right` after a query's aligned key, both included,
/// as in flash-attn. A causal mask still hides later keys. With Causal::ByPosition the window is
/// measured in positions; that combination is a ConfigError on a cache that has evicted keys.
/// sliding_window() returns the window of Mistral and Gemma.
struct Window {
  Index left = -1;   ///< -1: unlimited
  Index right = -1;  ///< -1: unlimited
};

/// Order of soft cap and bias. Gemma-2, Hugging Face and ONNX cap before the bias, FlashInfer after
/// it.
enum class SoftcapOrder {
  Unspecified,  ///< no soft cap; a ConfigError with one
  BeforeBias,   ///< caps scale * q k; the bias is added afterwards
  AfterBias     ///< caps scale * q k + bias
};

/// Stage of the scores that a query's temperature multiplies.
enum class TemperatureOf {
  Unspecified,   ///< no temperature; a ConfigError with one
  ScaledScores,  ///< scale * q k, first of all: Llama 4, Ministral 3, Mistral 4, Qwen 1's log-n
  BiasedScores,  ///< scale * q k + bias: Inkling
  CappedScores   ///< the result of the soft cap: Grok 2
};

/// Dropout of attention probabilities; kept ones are scaled by 1 / (1 - probability). The decision
/// is a pure function of seed, batch row, head, query position and key position, so it does not
/// depend on batching.
struct Dropout {
  double probability = 0;  ///< in [0, 1); 0: no dropout
  std::uint64_t seed = 0;  ///< a different number for each layer and step
};

/// Format of the probabilities that values are multiplied with.
enum class Probabilities {
  Unrounded,  ///< Compute<T>
  /// bfloat16, for values of bfloat16. The products take half of the time where processors multiply
  /// pairs of bfloat16 (POSENC_BFLOAT16_PRODUCTS). A probability is off by at most 2^-8 of itself.
  RoundedToBfloat16
};

static_assert(std::is_trivially_copyable_v<Window>);
static_assert(std::is_trivially_copyable_v<Dropout>);

POSENC_STABLE_END

POSENC_BEGIN

/// Returns the window of `visible` keys, the query's own key included: W of Gemma and Mistral.
///   Throws: ConfigError unless visible > 0
inline Window sliding_window(Index visible) {
  if (visible <= 0) {
    detail::fail<ConfigError>("sliding_window",
                              "window must be at least 1, the query's own key, but is ", visible);
  }
  return {.left = visible - 1, .right = 0};
}

/// Settings of one call of attention(). AttentionMemory holds its results other than the output,
/// and its workspace. Masks are [B, H, Sq, Sk], broadcast over axes of extent 1. A key is visible
/// if the causal rule, the window, the lengths and all masks permit it. Lists of integers have 32
/// or 64 bits and are read where they are.
template <Scalar T>
struct AttentionOptions {
  /// Type of masks, sinks and arithmetic: double for tensors of double, otherwise float.
  using Real = Compute<T>;

  /// Factor of q k; 1 / sqrt(head_dim) if omitted. Gemma and Granite have other scales, which
  /// ModelSettings::softmax_scale reads from their files.
  std::optional<double> scale = std::nullopt;
  /// Multiplies `scale` or its default, as softmax_scale_multiplier() of a rotary encoding returns
  /// it; only DeepSeek's is not 1. MultiHeadAttention applies that of its own encoding once,
  /// whether it is repeated here or not.
  double softmax_scale_multiplier = 1;
  Causal causal = Causal::Unspecified;  ///< required
  /// Window around the query's aligned key, which `causal` defines. Without a causal mask the
  /// aligned key is query_starts[b] + i, or i if there are as many queries as keys.
  Window window = {};
  IndexSpan query_starts = {};  ///< [1] or [B]: key that query 0 is aligned with
  ScoresView<const bool> keep =
      {};  ///< true: visible (PyTorch's scaled_dot_product_attention, ONNX)
  ScoresView<const bool> masked = {};    ///< true: masked (torch.nn.MultiheadAttention, BLOOM)
  ScoresView<const Real> additive = {};  ///< added after scale, bias and soft cap; -inf masks
  IndexSpan key_lengths = {};            ///< [B]: only the first key_lengths[b] keys are visible
  /// [N + 1]: bounds of N sequences that follow each other in one batch row, a packed batch.
  /// Sequence n has queries cu_seqlens_q[n] .. cu_seqlens_q[n + 1] - 1 and sees no other sequence.
  /// Causal rule, window and query_starts (one per sequence) count within the sequence. Over a
  /// cache only cu_seqlens_q is given, and queries cu_seqlens_q[n] ... read sequences[n].
  IndexSpan cu_seqlens_q = {};
  /// [N + 1]: bounds of the keys of a packed batch, likewise. Required with cu_seqlens_q, except
  /// over a cache.
  IndexSpan cu_seqlens_k = {};
  double softcap = 0;  ///< cap * tanh(score / cap); 0: no soft cap
  SoftcapOrder softcap_order = SoftcapOrder::Unspecified;  ///< required with softcap
  /// Factor of a query's scores, as a function of its position (query_positions, or the key that
  /// the causal alignment gives it); query_temperature() returns that of a model file. It is called
  /// on threads of the device, must not throw, and is rounded to Real. If empty, there is no
  /// factor. Sinks are not multiplied.
  std::function<double(double position)> temperature = {};
  TemperatureOf temperature_of = TemperatureOf::Unspecified;  ///< required with temperature
  std::span<const Real> sinks = {};  ///< [H]: exp(sinks[h]) is added to the softmax denominator
  Dropout dropout = {};              ///< of the probabilities; none by default
  /// Positions [B or 1, Sq] of queries for bias, dropout, temperature and Causal::ByPosition, which
  /// requires them. The default is the index of the aligned key. In a packed batch the defaults of
  /// queries and keys continue through the whole row. Pass Positions::packed() if a bias depends on
  /// absolute positions, as Fire does.
  std::optional<Positions> query_positions = std::nullopt;
  /// Positions [B or 1, Sk] of keys for bias, dropout and Causal::ByPosition, which requires them.
  /// The default is 0 .. Sk - 1. If they are given, query_positions has no default.
  std::optional<Positions> key_positions = std::nullopt;
  /// Rounding of the probabilities before they are multiplied with values, which must be of
  /// bfloat16. Log-sum-exps, returned probabilities and gradients are those of unrounded ones.
  Probabilities probabilities = Probabilities::Unrounded;
};

POSENC_END
