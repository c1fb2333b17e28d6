// SPDX-License-Identifier: MIT
#include "memory/failing_memory.hpp"

#include "support/operator_new.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define POSENC_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define POSENC_TEST_SANITIZED 1
#endif
#endif
#if defined(__GLIBC__) && !defined(POSENC_TEST_SANITIZED)
#define POSENC_TEST_OWN_MALLOC 1
extern "C" {
// glibc's internal names of the functions that are replaced below.
void* __libc_malloc(std::size_t);                 // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(std::size_t, std::size_t);    // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void*, std::size_t);         // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t, std::size_t);  // NOLINT(bugprone-reserved-identifier)
}
#endif

namespace {

thread_local long left = -1;  ///< allocations until one fails; negative: none fails
thread_local bool failed = false;
thread_local int watching = 0;
std::atomic<long> watched{0};

/// True if this allocation must fail.
bool fails() noexcept {
  if (watching > 0) {
    ++watched;
    return false;
  }
  if (left < 0 || left-- > 0) return false;
  failed = true;
  return true;
}

}  // namespace

void* support::take(std::size_t bytes, std::size_t alignment) noexcept {
  if (fails()) return nullptr;
  const std::size_t size = bytes == 0 ? 1 : bytes;
#if defined(POSENC_TEST_OWN_MALLOC)
  return alignment == 0 ? __libc_malloc(size) : __libc_memalign(alignment, size);
#else
  if (alignment == 0) return std::malloc(size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
#endif
}

namespace failing_memory {

void arm(long n) noexcept {
  failed = false;
  left = n;
}
bool disarm() noexcept {
  left = -1;
  return failed;
}
long watched_allocations() noexcept { return watched; }

Watch::Watch() noexcept { ++watching; }
Watch::~Watch() { --watching; }
Pause::Pause() noexcept : left_(left) { left = -1; }
Pause::~Pause() { left = left_; }

}  // namespace failing_memory

#if defined(POSENC_TEST_OWN_MALLOC)
extern "C" {

void* malloc(std::size_t n) {
  void* const memory = fails() ? nullptr : __libc_malloc(n);
  if (memory == nullptr) errno = ENOMEM;
  return memory;
}
void* calloc(std::size_t count, std::size_t n) {
  void* const memory = fails() ? nullptr : __libc_calloc(count, n);
  if (memory == nullptr) errno = ENOMEM;
  return memory;
}
void* realloc(void* p, std::size_t n) {
  void* const memory = fails() ? nullptr : __libc_realloc(p, n);
  if (memory == nullptr) errno = ENOMEM;
  return memory;
}
void* memalign(std::size_t alignment, std::size_t n) {
  void* const memory = fails() ? nullptr : __libc_memalign(alignment, n);
  if (memory == nullptr) errno = ENOMEM;
  return memory;
}
void* aligned_alloc(std::size_t alignment, std::size_t n) { return memalign(alignment, n); }
int posix_memalign(void** p, std::size_t alignment, std::size_t n) {
  void* const memory = fails() ? nullptr : __libc_memalign(alignment, n);
  if (memory == nullptr) return ENOMEM;
  *p = memory;
  return 0;
}

}  // extern "C"
#endif
