// SPDX-License-Identifier: MIT
#pragma once

// Allocators that fail on demand. They replace all forms of this executable's operator new. With
// glibc and without a sanitizer they also replace malloc and related functions, which Eigen calls.
namespace failing_memory {

/// Makes the n-th allocation of this thread from now on fail, n from 0, and no other.
void arm(long n) noexcept;

/// Ends arm(). Returns true if an allocation has failed.
bool disarm() noexcept;

/// Returns the number of allocations of any thread within a Watch.
long watched_allocations() noexcept;

/// Scope in which this thread's allocations are counted and none fails.
class Watch {
 public:
  Watch() noexcept;
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
};

/// Scope in which this thread's allocations neither fail nor count.
class Pause {
 public:
  Pause() noexcept;
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  long left_;
};

}  // namespace failing_memory
