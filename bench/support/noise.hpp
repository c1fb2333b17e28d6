// SPDX-License-Identifier: MIT
#pragma once

#include <string>

// Control of disturbances: the processor that runs a measurement, the clock that measures it and the
// pages of its memory.
namespace bench {

/// Binds this process to the processor that it runs on, and excludes large pages that nobody
/// requested. Returns what it could not control, in words; "nothing" if all is controlled.
std::string control_noise();

/// True if the process is bound to one processor.
bool is_pinned();

/// Lifts the binding of control_noise() while it exists. Threads that are created meanwhile run on
/// all processors of the process.
class AllProcessors {
 public:
  AllProcessors();
  ~AllProcessors();
  AllProcessors(const AllProcessors&) = delete;
  AllProcessors& operator=(const AllProcessors&) = delete;

 private:
  bool was_pinned_;
};

/// Returns seconds from an arbitrary start. While the process is bound to one processor, these are
/// the seconds that it computed, so that other programs do not count. Otherwise they are those of
/// the wall clock.
double clock_seconds();

}  // namespace bench
