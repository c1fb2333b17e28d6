// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/slots.hpp>

#include <cstddef>

POSENC_BEGIN

class AttentionWorkspace;
namespace detail {
Slots& slots_of(AttentionWorkspace& workspace) noexcept;
}  // namespace detail

/// Scratch memory of attention(), per thread: with 128 channels of float up to 700 KiB, however long the sequences
/// are, and in proportion with wider heads or double; `Linear` keeps a copy of up to 32 tokens there. Keep one and pass
/// it by AttentionMemory::workspace, and calls after the first allocate nothing. One call at a time may use it.
class AttentionWorkspace {
 public:
  /// Memory now held.
  std::size_t bytes() const noexcept { return slots_.bytes(); }

 private:
  friend detail::Slots& detail::slots_of(AttentionWorkspace& workspace) noexcept;

  detail::Slots slots_;
};

namespace detail {
inline Slots& slots_of(AttentionWorkspace& workspace) noexcept { return workspace.slots_; }
}  // namespace detail

POSENC_END
