// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

// libc++ built without threads, for example for WebAssembly, has no std::mutex. Its versions say so
// by one of two macros of opposite sense.
#if defined(_LIBCPP_HAS_NO_THREADS) || (defined(_LIBCPP_HAS_THREADS) && !_LIBCPP_HAS_THREADS)
#define POSENC_HAS_THREADS 0
#else
#define POSENC_HAS_THREADS 1
#include <mutex>
#endif

POSENC_BEGIN
namespace detail {

#if POSENC_HAS_THREADS
using Mutex = std::mutex;
using MutexLock = std::unique_lock<std::mutex>;
#else
// Stand-ins in a program with one thread.
struct Mutex {};
struct MutexLock {
  explicit MutexLock(Mutex&) noexcept {}
  void lock() noexcept {}
  void unlock() noexcept {}
};
#endif

}  // namespace detail
POSENC_END
