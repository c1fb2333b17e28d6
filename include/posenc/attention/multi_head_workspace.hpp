// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/workspace.hpp>
#include <posenc/core/config.hpp>

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

  /// At least so many bytes for heads; what they hold is nobody's.
  ///   Throws: std::bad_alloc
  std::byte* reserve(std::size_t bytes) {
    heads_.reserve(1, bytes);
    return heads_.slot(0);
  }
  AttentionWorkspace& attention() noexcept { return attention_; }
  /// What a cache needs to go back where it was.
  AttentionWorkspace& undo() noexcept { return undo_; }

 private:
  AttentionWorkspace heads_, attention_, undo_;
};

POSENC_END
