// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/workspace.hpp>
#include <posenc/core/config.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

POSENC_STABLE_BEGIN

/// The stage of scores that a call returns.
enum class ReturnedScores {
  Probabilities,  ///< after softmax and dropout
  Scaled,  ///< scale * q k, before anything else, a temperature too: also of hidden keys, which are read, but for
           ///< those of other packed sequences and those that a ring has lost, -inf
  Capped,  ///< after the soft cap (which must come before the bias)
  Masked   ///< after bias and masks; -inf where masked
};

POSENC_STABLE_END

POSENC_BEGIN

/// Memory of the caller's that a call of attention() uses besides its tensors: for results besides the output, and
/// for work. MultiHeadAttention takes the same with a workspace of its own type, MultiHeadMemory.
template <Scalar T, class Workspace = AttentionWorkspace>
struct AttentionMemory {
  using Real = Compute<T>;

  /// Receives ln(sum of exp(score)) [B, H, Sq] where it has data, the sink included; where no key is seen, -inf or
  /// the sink.
  LseView<Real> lse = {};
  ScoresView<Real> weights = {};  ///< receives the scores [B, H, Sq, Sk] where it has data
  ReturnedScores returned = ReturnedScores::Probabilities;  ///< at which stage
  Workspace* workspace = nullptr;                           ///< the call's own where not given
};

POSENC_END
