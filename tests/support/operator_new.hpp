// SPDX-License-Identifier: MIT
// Replaces all forms of operator new and delete of a program. Include it in one source file, which defines
// support::take(). Array and nothrow forms would call the others, but not where a sanitizer replaces them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace support {

/// Returns memory that std::free() frees, or null. An alignment of 0 is that of malloc.
void* take(std::size_t bytes, std::size_t alignment) noexcept;

inline void* take_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const memory = take(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

inline std::size_t number(std::align_val_t alignment) {
  return static_cast<std::size_t>(alignment);
}

}  // namespace support

void* operator new(std::size_t n) { return support::take_or_throw(n, 0); }
void* operator new[](std::size_t n) { return support::take_or_throw(n, 0); }
void* operator new(std::size_t n, std::align_val_t a) {
  return support::take_or_throw(n, support::number(a));
}
void* operator new[](std::size_t n, std::align_val_t a) {
  return support::take_or_throw(n, support::number(a));
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return support::take(n, 0); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return support::take(n, 0); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return support::take(n, support::number(a));
}
void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return support::take(n, support::number(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
