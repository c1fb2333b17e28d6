// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <cstddef>

// Hints for walks that a processor's own prefetchers do not see through: rows of a head lie pages
// apart. Any address will do.
POSENC_BEGIN
namespace detail {

inline constexpr Index cache_line = 64;

/// Asks for `lines` lines from p on, each so many bytes after the one before. Write and Locality are those
/// of the compiler's builtin.
template <int Write, int Locality>
POSENC_ALWAYS_INLINE void prefetch_lines([[maybe_unused]] const void* p,
                                         [[maybe_unused]] Index lines,
                                         [[maybe_unused]] Index apart) noexcept {
#if defined(__GNUC__)
  for (Index n = 0; n < lines; ++n) {
    __builtin_prefetch(static_cast<const std::byte*>(p) + n * apart, Write, Locality);
  }
#endif
}

constexpr Index lines_of(Index bytes) noexcept { return (bytes + cache_line - 1) / cache_line; }

/// Asks for `bytes` from p on, which are soon read.
POSENC_ALWAYS_INLINE void prefetch(const void* p, Index bytes) noexcept {
  prefetch_lines<0, 3>(p, lines_of(bytes), cache_line);
}

/// Asks for `bytes` from p on, which are soon overwritten.
POSENC_ALWAYS_INLINE void prefetch_to_write(const void* p, Index bytes) noexcept {
  prefetch_lines<1, 3>(p, lines_of(bytes), cache_line);
}

/// Asks for `bytes` from p on, which are read after some ten thousand cycles: for the second cache.
POSENC_ALWAYS_INLINE void prefetch_far(const void* p, Index bytes) noexcept {
  prefetch_lines<0, 1>(p, lines_of(bytes), cache_line);
}

/// One of `steps` calls, p a line further in each, that together ask for steps * StepBytes bytes, as
/// prefetch_far() does. They go as several streams side by side, which memory answers faster than one.
template <Index StepBytes>
POSENC_ALWAYS_INLINE void prefetch_streams(const void* p, Index steps) noexcept {
  prefetch_lines<0, 1>(p, lines_of(StepBytes), steps * cache_line);
}

}  // namespace detail
POSENC_END
