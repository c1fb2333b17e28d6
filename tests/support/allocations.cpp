// SPDX-License-Identifier: MIT
// Counts the calls of operator new.
#include "support/allocations.hpp"

#include "support/operator_new.hpp"

#include <atomic>
#include <cstdlib>

namespace {

std::atomic<std::size_t> count{0};

}  // namespace

void* support::take(std::size_t bytes, std::size_t alignment) noexcept {
  ++count;
  if (alignment == 0) return std::malloc(bytes == 0 ? 1 : bytes);
  return std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
}

std::size_t support::allocations() { return count; }

#if defined(__SANITIZE_ADDRESS__)
#define POSENC_TEST_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POSENC_TEST_HAS_ASAN 1
#endif
#endif
#if defined(POSENC_TEST_HAS_ASAN)
// The sanitizer's malloc would end the program instead of returning null.
extern "C" const char* __asan_default_options();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
#endif
