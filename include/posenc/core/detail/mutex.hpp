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
#else
/// A stand-in for std::mutex in a program with one thread.
struct Mutex {
  void lock() noexcept {}
  void unlock() noexcept {}
};
#endif

/// A lock that holds its mutex from construction to destruction, except between unlock() and
/// lock().
class MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() {
    if (holds_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() {
    mutex_.unlock();
    holds_ = false;
  }
  void lock() {
    mutex_.lock();
    holds_ = true;
  }

 private:
  Mutex& mutex_;
  bool holds_ = true;
};

}  // namespace detail
POSENC_END
