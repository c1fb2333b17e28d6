// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <cstddef>

// Hints for walks that a processor's own prefetchers do not see through: rows of a head lie pages
// apart. Any address will do.
POSENC_BEGIN
namespace detail {

inline constexpr Index cache_line = 64;

/// Asks for the lines of `bytes` bytes from p on. Write and Locality are those of the compiler's builtin.
template <int Write, int Locality>
POSENC_ALWAYS_INLINE void prefetch_lines([[maybe_unused]] const void* p,
                                         [[maybe_unused]] Index bytes) noexcept {
#if defined(__GNUC__)
  for (Index n = 0; n < bytes; n += cache_line) {
    __builtin_prefetch(static_cast<const std::byte*>(p) + n, Write, Locality);
  }
#endif
}

/// Asks for `bytes` from p on, which are soon read.
POSENC_ALWAYS_INLINE void prefetch(const void* p, Index bytes) noexcept {
  prefetch_lines<0, 3>(p, bytes);
}

/// Asks for `bytes` from p on, which are soon overwritten.
POSENC_ALWAYS_INLINE void prefetch_to_write(const void* p, Index bytes) noexcept {
  prefetch_lines<1, 3>(p, bytes);
}

}  // namespace detail
POSENC_END
