// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cstdint>
#include <optional>
#include <span>

POSENC_STABLE_BEGIN

/// Which keys a causal mask shows to query i. With as many queries as keys the first two agree;
/// otherwise libraries differ, so it has to be said.
enum class Causal {
  No,           ///< every key
  TopLeft,      ///< keys 0 .. i: PyTorch's is_causal, ONNX without a cache
  BottomRight,  ///< keys 0 .. i + Sk - Sq, the last query sees the last key: flash-attn >= 2.1,
                ///< MLX; decoding
  ByPosition    ///< keys whose position is at most the query's
};

/// Where the soft cap stands. Gemma-2, Hugging Face and ONNX cap before the bias, FlashInfer after
/// it.
enum class SoftcapOrder { Unspecified, BeforeBias, AfterBias };

/// What a weights view receives.
enum class ReturnedScores {
  Probabilities,  ///< after softmax and dropout
  Scaled,         ///< scale * q k, before anything else
  Capped,         ///< after the soft cap (which must come before the bias)
  Masked          ///< after bias and masks; -inf where masked
};

/// Dropout of attention probabilities, kept ones scaled by 1 / (1 - probability). Whether a
/// probability is dropped is a pure function of the seed, batch row, head, query position and key
/// position, so it does not depend on how the work was batched.
struct Dropout {
  double probability = 0;
  std::uint64_t seed = 0;
};

POSENC_STABLE_END

POSENC_BEGIN

/// Everything that can be said about one call of attention(). Masks are [B, H, Sq, Sk], broadcast
/// over axes of extent 1; they and the causal rule and the lengths all have to show a key for it to
/// count.
template <Scalar T>
struct AttentionOptions {
  using Real = Compute<T>;

  std::optional<double> scale = std::nullopt;  ///< of q k; 1 / sqrt(head_dim) if not given
  Causal causal = Causal::No;
  ScoresView<const bool> keep =
      {};  ///< true = may attend (PyTorch's scaled_dot_product_attention, ONNX)
  ScoresView<const bool> masked =
      {};  ///< true = may not attend (torch.nn.MultiheadAttention, BLOOM)
  ScoresView<const Real> additive = {};     ///< added after scale and bias; -inf masks
  std::span<const Index> key_lengths = {};  ///< [B]: only the first key_lengths[b] keys count
  double softcap = 0;                       ///< cap * tanh(score / cap); 0 = none
  SoftcapOrder softcap_order = SoftcapOrder::Unspecified;  ///< required with softcap
  Dropout dropout = {};
  /// Positions that bias, dropout and Causal::ByPosition see. Keys default to 0 .. Sk - 1, queries
  /// to the place that the causal alignment gives them.
  std::optional<Positions> query_positions = std::nullopt;
  std::optional<Positions> key_positions = std::nullopt;
  ScoresView<Real> weights = {};  ///< receives the scores [B, H, Sq, Sk] where it has data
  ReturnedScores returned = ReturnedScores::Probabilities;
};

POSENC_END
