// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <cstddef>
#include <cstdint>

// Prefetch hints for access patterns that hardware prefetchers do not follow, because rows of a
// head lie pages apart. A hint may name any address, valid or not.
POSENC_BEGIN
namespace detail {

/// The size of a cache line in bytes.
inline constexpr Index cache_line = 64;

/// Prefetches the cache lines of `bytes` bytes starting at p. Write and Locality are the arguments
/// of __builtin_prefetch().
template <int Write, int Locality>
POSENC_ALWAYS_INLINE void prefetch_lines([[maybe_unused]] const void* p,
                                         [[maybe_unused]] Index bytes) noexcept {
#if defined(__GNUC__)
  for (Index n = 0; n < bytes; n += cache_line) {
    __builtin_prefetch(static_cast<const std::byte*>(p) + n, Write, Locality);
  }
#endif
}

/// Prefetches `bytes` bytes starting at p that will soon be read.
POSENC_ALWAYS_INLINE void prefetch(const void* p, Index bytes) noexcept {
  prefetch_lines<0, 3>(p, bytes);
}

/// Returns the address of p[n * stride] for a prefetch. It is computed with integers that wrap,
/// because there may be no such element, and the stride of a single row may be any number.
template <class T>
POSENC_ALWAYS_INLINE const T* element_at(const T* p, Index n, Index stride) noexcept {
  return reinterpret_cast<const T*>(reinterpret_cast<std::uintptr_t>(p) +
                                    static_cast<std::uintptr_t>(sizeof(T)) *
                                        static_cast<std::uintptr_t>(n) *
                                        static_cast<std::uintptr_t>(stride));
}

/// Prefetches `bytes` bytes starting at p that will soon be overwritten.
POSENC_ALWAYS_INLINE void prefetch_for_write(const void* p, Index bytes) noexcept {
  prefetch_lines<1, 3>(p, bytes);
}

}  // namespace detail
POSENC_END
