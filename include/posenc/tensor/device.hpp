// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <concepts>

POSENC_BEGIN

/// An execution device, the last parameter of calls that process whole tensors:
/// Eigen::DefaultDevice, Eigen::ThreadPoolDevice, or a class with the same interface. Eigen
/// declares ThreadPoolDevice only if EIGEN_USE_THREADS is defined before its first header is
/// included.
///
/// A device with more than one thread must provide parallelFor(count, cost, work). It calls
/// work(first, last) for ranges that cover [0, count), and returns when all are done. `cost` is
/// bytes read, bytes written and cycles per unit. If ranges run concurrently, the device must also
/// provide numThreadsInPool() and currentThreadId(), as Eigen's pool does. The id counts from 0 and
/// is -1 for the calling thread; ranges with the same id share scratch memory.
///
/// A call blocks until the threads of the device are done. Do not call from one of these threads:
/// there may be no thread left to do the work.
///   Throws: a call throws what parallelFor() does. Eigen's pool does not pass on exceptions of its
///           threads: one of them, such as std::bad_alloc for the pool's tasks, ends the program
///   Bits:   do not depend on the device
template <class D>
concept Device = requires(const D& device) {
  { device.numThreads() } -> std::convertible_to<Index>;
};

namespace detail {

/// The default device: runs everything on the calling thread.
struct CallingThread {
  static constexpr Index numThreads() noexcept { return 1; }  // NOLINT: as Eigen names it
};

}  // namespace detail
POSENC_END
