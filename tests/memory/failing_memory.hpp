// SPDX-License-Identifier: MIT
#pragma once

// Memory that runs out on demand: this executable's operator new, in all forms, and where the C library is
// glibc and no sanitizer has taken its place, malloc and its kin, which Eigen calls.
namespace failing_memory {

/// Lets the n-th allocation of this thread from now on fail, n from 0, and no other.
void arm(long n) noexcept;

/// Ends it; whether an allocation failed.
bool disarm() noexcept;

/// Allocations of any thread while it is within a Watch.
long watched_allocations() noexcept;

/// Until the end of its life this thread's allocations are counted, and none fails.
class Watch {
 public:
  Watch() noexcept;
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
};

/// Until the end of its life none of this thread's allocations fails or counts.
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
