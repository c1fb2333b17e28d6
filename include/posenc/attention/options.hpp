// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <type_traits>

POSENC_STABLE_BEGIN

/// Which keys a causal mask shows to query i: those up to the query's own place. With as many queries
/// as keys TopLeft and BottomRight agree; otherwise libraries differ, so it has to be said.
enum class Causal {
  Unspecified,  ///< a ConfigError
  No,           ///< every key: encoders, cross attention
  TopLeft,      ///< query i stands at key i: PyTorch's is_causal, ONNX without a cache
  BottomRight,  ///< at key i + Sk - Sq, the last query at the last key, Sk being key_lengths[b] where
                ///< given: flash-attn >= 2.1, MLX; decoding. Padded self attention wants TopLeft
  FromStart,    ///< at key query_starts[b] + i
  ByPosition    ///< keys whose position is at most the query's
};

/// A band of keys around the query's place: from `left` before it to `right` after it, both included,
/// as in flash-attn. A causal mask hides what is after the query all the same. Under
/// Causal::ByPosition the band is one of positions, and a cache that has lost keys cannot be asked.
/// sliding_window() makes the window of Mistral and Gemma.
struct Window {
  Index left = -1;   ///< -1: no end
  Index right = -1;  ///< -1: no end
};

/// Where the soft cap stands. Gemma-2, Hugging Face and ONNX cap before the bias, FlashInfer after
/// it.
enum class SoftcapOrder { Unspecified, BeforeBias, AfterBias };

/// What a query's temperature multiplies.
enum class TemperatureOf {
  Unspecified,
  ScaledScores,  ///< scale * q k, before all else: Llama 4, Ministral 3, Mistral 4, Qwen 1's log-n
  BiasedScores,  ///< that and the bias: Inkling
  CappedScores   ///< what comes out of the soft cap: Grok 2
};

/// Dropout of attention probabilities, kept ones scaled by 1 / (1 - probability). Whether a
/// probability is dropped is a pure function of the seed, batch row, head, query position and key
/// position, so it does not depend on how the work was batched.
struct Dropout {
  double probability = 0;
  std::uint64_t seed = 0;
};

static_assert(std::is_trivially_copyable_v<Window>);
static_assert(std::is_trivially_copyable_v<Dropout>);

POSENC_STABLE_END

POSENC_BEGIN

/// The window that shows `visible` keys, the query's own included: Gemma's and Mistral's W.
///   Throws: ConfigError unless visible > 0
inline Window sliding_window(Index visible) {
  if (visible <= 0) {
    detail::fail<ConfigError>("sliding_window", "a window must show at least the query's own key ",
                              "but shows ", visible);
  }
  return {.left = visible - 1, .right = 0};
}

/// Everything that can be said about one call of attention(); its results besides the output, and its workspace, are
/// said by AttentionMemory. Masks are [B, H, Sq, Sk], broadcast over axes of extent 1. A key counts where the causal
/// rule, the window, the lengths and all masks show it.
template <Scalar T>
struct AttentionOptions {
  using Real = Compute<T>;

  /// Of q k; 1 / sqrt(head_dim) if not given. Gemma and Granite have a scale of their own, which
  /// ModelSettings::softmax_scale takes from their files.
  std::optional<double> scale = std::nullopt;
  /// Multiplies `scale` or its default: what a rotary encoding's softmax_scale_multiplier() gives, which
  /// is not 1 for DeepSeek. MultiHeadAttention takes its own encoding's besides.
  double softmax_scale_multiplier = 1;
  Causal causal = Causal::Unspecified;  ///< required
  /// Around the query's place, which `causal` names; without a causal mask it is query_starts[b] + i,
  /// or i where there are as many queries as keys.
  Window window = {};
  std::span<const Index> query_starts = {};  ///< [1] or [B]: the key at which query 0 stands
  ScoresView<const bool> keep =
      {};  ///< true = may attend (PyTorch's scaled_dot_product_attention, ONNX)
  ScoresView<const bool> masked =
      {};  ///< true = may not attend (torch.nn.MultiheadAttention, BLOOM)
  ScoresView<const Real> additive = {};     ///< added after scale, bias and soft cap; -inf masks
  std::span<const Index> key_lengths = {};  ///< [B]: only the first key_lengths[b] keys count
  /// Several sequences in one batch row, one after the other: sequence n has queries
  /// cu_seqlens_q[n] .. cu_seqlens_q[n + 1] - 1 and keys likewise, and sees no other. Causal rule,
  /// window and query_starts (one per sequence) then speak of places within the sequence. Over a cache
  /// cu_seqlens_q stands alone, and sequences[n] is read by queries cu_seqlens_q[n] ... .
  std::span<const Index> cu_seqlens_q = {};
  std::span<const Index> cu_seqlens_k = {};
  double softcap = 0;                                      ///< cap * tanh(score / cap); 0 = none
  SoftcapOrder softcap_order = SoftcapOrder::Unspecified;  ///< required with softcap
  /// A factor of a query's scores, a function of its position (query_positions, or the place that the causal
  /// alignment gives it), such as query_temperature() makes of a model's file. It is called on a device's
  /// threads, must not throw, and is rounded to Real; none if empty. Sinks have no part in it.
  std::function<double(double position)> temperature = {};
  TemperatureOf temperature_of = TemperatureOf::Unspecified;  ///< required with temperature
  std::span<const Real> sinks = {};  ///< [H]: exp(sinks[h]) joins the softmax's denominator
  Dropout dropout = {};
  /// Positions that bias, dropout and Causal::ByPosition see. Keys default to 0 .. Sk - 1, queries
  /// to the place that the causal alignment gives them; packed sequences count on through the row, so
  /// where more than distances matters (Fire), give Positions::packed.
  std::optional<Positions> query_positions = std::nullopt;
  std::optional<Positions> key_positions = std::nullopt;
};

POSENC_END
