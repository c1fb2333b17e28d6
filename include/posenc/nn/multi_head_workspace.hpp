// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/attention_memory.hpp>
#include <posenc/attention/workspace.hpp>
#include <posenc/core/config.hpp>
#include <posenc/kernels/scratch_arenas.hpp>

#include <cstddef>

POSENC_BEGIN

/// Memory that MultiHeadAttention::forward() reuses between calls: queries, keys, values and
/// outputs of the heads, and attention's scratch. A later call that is no larger allocates nothing,
/// except for memory of the projections themselves and for copies of positions that are tables. One
/// call at a time may use a workspace.
class MultiHeadWorkspace {
 public:
  /// Returns the bytes that are allocated.
  std::size_t bytes() const noexcept {
    return heads_.bytes() + attention_.bytes() + rollback_.bytes();
  }

 private:
  template <class T, class Rotary, class Bias, class Projection>
  friend class MultiHeadAttention;

  detail::ScratchArenas heads_;
  AttentionWorkspace attention_;
  detail::ScratchArenas rollback_;  ///< memory for the rollback of a cache
};

/// Caller's memory for MultiHeadAttention::forward() besides its tensors: outputs for log-sum-exps
/// and scores of the heads, and the workspace.
template <Scalar T>
using MultiHeadMemory = AttentionMemory<T, MultiHeadWorkspace>;

POSENC_END
