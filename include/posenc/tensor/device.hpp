// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <concepts>

POSENC_BEGIN

/// What the calls that touch whole tensors take first: Eigen::DefaultDevice, Eigen::ThreadPoolDevice, or
/// a class of the user's that has threads. One with more than one thread has, as Eigen's pool has it,
///   parallelFor(count, cost, work), which calls work(first, last) for parts that cover [0, count),
/// and returns when all are done; cost is bytes read, bytes written and cycles per unit. If parts run at the
/// same time, it has besides, as Eigen's has, numThreadsInPool(), and currentThreadId(), which counts from 0
/// and is -1 for the thread that calls: parts with the same number share scratch memory. Which device runs a
/// call changes no bit of its result. A call waits for the device's threads: from one of them, none may be left
/// to do the work.
template <class D>
concept Device = requires(const D& device) {
  { device.numThreads() } -> std::convertible_to<Index>;
};

namespace detail {

/// The device of calls that are given none: the thread that calls.
struct CallingThread {
  static constexpr Index numThreads() noexcept { return 1; }  // NOLINT: as Eigen names it
};

}  // namespace detail
POSENC_END
