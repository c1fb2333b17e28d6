// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

[[noreturn]] inline void throw_bad_alloc() {
#if POSENC_HAS_EXCEPTIONS
  throw std::bad_array_new_length();
#else
  std::abort();
#endif
}

/// An allocator that aligns to cache lines of 64 bytes and does not zero new elements.
template <class T>
struct AlignedAllocator {
  using value_type = T;  // NOLINT(readability-identifier-naming): the standard's name
  static constexpr std::align_val_t alignment{64};

  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) noexcept {}  // NOLINT: allocators convert

  T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw_bad_alloc();
    return static_cast<T*>(::operator new(count * sizeof(T), alignment));
  }
  void deallocate(T* p, std::size_t) noexcept { ::operator delete(p, alignment); }

  template <class U>
  void construct(U* p) noexcept {
    ::new (static_cast<void*>(p)) U;
  }
  template <class U, class... Arguments>
  void construct(U* p, Arguments&&... arguments) {
    ::new (static_cast<void*>(p)) U(std::forward<Arguments>(arguments)...);
  }

  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) { return true; }
};

/// A std::vector aligned to cache lines whose resize() leaves new elements uninitialised.
template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace detail
POSENC_END
