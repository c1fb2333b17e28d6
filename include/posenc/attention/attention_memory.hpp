// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/workspace.hpp>
#include <posenc/core/config.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

POSENC_STABLE_BEGIN

/// Stage of the scores that a call returns.
enum class ReturnedScores {
  Probabilities,  ///< after softmax and dropout
  Scaled,  ///< scale * q k, before everything else, temperature included. Masked keys are read and
           ///< included too, except for -inf for keys of other packed sequences and evicted keys
  Capped,  ///< after the soft cap (which must come before the bias)
  Masked   ///< after bias and masks; -inf where masked
};

POSENC_STABLE_END

POSENC_BEGIN

/// Memory of the caller that a call of attention() uses besides its tensors: for results other than
/// the output, and for scratch data. MultiHeadAttention has the same members with a workspace of
/// another type, see MultiHeadMemory.
template <Scalar T, class Workspace = AttentionWorkspace>
struct AttentionMemory {
  /// Type of the results: double for tensors of double, otherwise float.
  using Real = Compute<T>;

  /// Receives ln(sum of exp(score)) [B, H, Sq], the sink included, if it has data. Without a
  /// visible key it receives -inf, or the sink.
  LseView<Real> lse = {};
  /// Receives the attention weights [B, H, Sq, Sk], if it has data: probabilities, or the scores of
  /// the stage that `returned` names.
  ScoresView<Real> weights = {};
  ReturnedScores returned = ReturnedScores::Probabilities;  ///< stage of `weights`
  Workspace* workspace = nullptr;                           ///< if omitted, the call allocates one
};

POSENC_END
