// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <cstddef>

// Hints for walks that a processor's own prefetchers do not see through: rows of a head lie pages
// apart. Any address will do.
POSENC_BEGIN
namespace detail {

inline constexpr Index cache_line = 64;

/// Asks for `bytes` from p on, which are soon read.
POSENC_ALWAYS_INLINE void prefetch([[maybe_unused]] const void* p,
                                   [[maybe_unused]] Index bytes) noexcept {
#if defined(__GNUC__)
  for (Index at = 0; at < bytes; at += cache_line) {
    __builtin_prefetch(static_cast<const std::byte*>(p) + at);
  }
#endif
}

/// Asks for `bytes` from p on, which are read after some ten thousand cycles: for the second cache.
POSENC_ALWAYS_INLINE void prefetch_far([[maybe_unused]] const void* p,
                                       [[maybe_unused]] Index bytes) noexcept {
#if defined(__GNUC__)
  for (Index at = 0; at < bytes; at += cache_line) {
    __builtin_prefetch(static_cast<const std::byte*>(p) + at, 0, 1);
  }
#endif
}

/// One of `steps` calls, p a line further in each, that together ask for steps * StepBytes bytes, as
/// prefetch_far() does. They go as several streams side by side, which memory answers faster than one.
template <Index StepBytes>
POSENC_ALWAYS_INLINE void prefetch_streams([[maybe_unused]] const void* p,
                                           [[maybe_unused]] Index steps) noexcept {
#if defined(__GNUC__)
  for (Index at = 0; at < StepBytes; at += cache_line) {
    __builtin_prefetch(static_cast<const std::byte*>(p) + at * steps, 0, 1);
  }
#endif
}

/// Asks for `bytes` from p on, which are soon overwritten.
POSENC_ALWAYS_INLINE void prefetch_to_write([[maybe_unused]] void* p,
                                            [[maybe_unused]] Index bytes) noexcept {
#if defined(__GNUC__)
  for (Index at = 0; at < bytes; at += cache_line) {
    __builtin_prefetch(static_cast<std::byte*>(p) + at, 1);
  }
#endif
}

}  // namespace detail
POSENC_END
