// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#if POSENC_HUGE_PAGES
#include <sys/mman.h>
#endif

POSENC_BEGIN
namespace detail {

/// The size of a large page of x86-64, and of aarch64 with pages of 4 KiB.
inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// True if an array of `bytes` bytes is aligned to huge_page_bytes and requests such pages. A
/// smaller array would gain less than its alignment takes.
constexpr bool uses_huge_pages(std::size_t bytes) noexcept {
  return POSENC_HUGE_PAGES != 0 && bytes >= 2 * huge_page_bytes;
}

/// Requests pages of 2 MiB for an array, see POSENC_HUGE_PAGES. The kernel may ignore the request.
inline void request_huge_pages([[maybe_unused]] void* array,
                               [[maybe_unused]] std::size_t bytes) noexcept {
#if POSENC_HUGE_PAGES
  (void)::madvise(array, bytes, MADV_HUGEPAGE);
#endif
}

[[noreturn]] inline void throw_bad_alloc() {
#if POSENC_HAS_EXCEPTIONS
  throw std::bad_array_new_length();
#else
  std::abort();
#endif
}

/// An allocator that aligns to cache lines of 64 bytes, or to pages if uses_huge_pages(), and does
/// not zero new elements.
template <class T>
struct AlignedAllocator {
  using value_type = T;  // NOLINT(readability-identifier-naming): the standard's name

  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) noexcept {}  // NOLINT: allocators convert

  T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw_bad_alloc();
    const std::size_t bytes = count * sizeof(T);
    void* const array = ::operator new(bytes, alignment(bytes));
    if (uses_huge_pages(bytes)) request_huge_pages(array, bytes);
    return static_cast<T*>(array);
  }
  void deallocate(T* p, std::size_t count) noexcept {
    ::operator delete(p, alignment(count * sizeof(T)));
  }

  template <class U>
  void construct(U* p) noexcept {
    ::new (static_cast<void*>(p)) U;
  }
  template <class U, class... Arguments>
  void construct(U* p, Arguments&&... arguments) {
    ::new (static_cast<void*>(p)) U(std::forward<Arguments>(arguments)...);
  }

  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) { return true; }

 private:
  static constexpr std::align_val_t alignment(std::size_t bytes) noexcept {
    return std::align_val_t{uses_huge_pages(bytes) ? huge_page_bytes : 64};
  }
};

/// A std::vector aligned to cache lines whose resize() leaves new elements uninitialised.
template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace detail
POSENC_END
