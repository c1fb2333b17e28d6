// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/attention_memory.hpp>
#include <posenc/attention/workspace.hpp>
#include <posenc/core/config.hpp>
#include <posenc/kernels/slots.hpp>

#include <cstddef>

POSENC_BEGIN

/// Memory of MultiHeadAttention::forward(): queries, keys, values and the heads' outputs of a call,
/// and attention's scratch. Keep one, and calls after the first allocate nothing where they are no
/// larger; but for what projections take for themselves, and copies of positions that are tables. One
/// call at a time may use it.
class MultiHeadWorkspace {
 public:
  /// Memory now held.
  std::size_t bytes() const noexcept { return heads_.bytes() + attention_.bytes() + undo_.bytes(); }

 private:
  template <class T, class Rotary, class Bias, class Projection>
  friend class MultiHeadAttention;

  detail::Slots heads_;
  AttentionWorkspace attention_;
  detail::Slots undo_;  ///< what a cache needs to go back where it was
};

/// Memory of the caller's that MultiHeadAttention::forward() uses besides its tensors: for log-sum-exps and scores of
/// the heads, and for work.
template <Scalar T>
using MultiHeadMemory = AttentionMemory<T, MultiHeadWorkspace>;

POSENC_END
