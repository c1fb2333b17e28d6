// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/scratch_arenas.hpp>

#include <cstddef>

POSENC_BEGIN

class AttentionWorkspace;
namespace detail {
ScratchArenas& arenas_of(AttentionWorkspace& workspace) noexcept;
}  // namespace detail

/// Scratch memory of attention(), one arena per thread. With 128 channels of float an arena has up
/// to 752 KiB, independent of the lengths of sequences; wider heads and double take proportionally
/// more, and a RelativeBias keeps products in it. `Linear` keeps a copy of up to 32 tokens in it.
/// If one is kept and passed by AttentionMemory::workspace, calls after the first allocate nothing.
/// Only one call at a time may use it.
class AttentionWorkspace {
 public:
  /// Returns the allocated bytes.
  std::size_t bytes() const noexcept { return slots_.bytes(); }

 private:
  friend detail::ScratchArenas& detail::arenas_of(AttentionWorkspace& workspace) noexcept;

  detail::ScratchArenas slots_;
};

namespace detail {
inline ScratchArenas& arenas_of(AttentionWorkspace& workspace) noexcept { return workspace.slots_; }
}  // namespace detail

POSENC_END
