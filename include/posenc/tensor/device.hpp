// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

POSENC_BEGIN
namespace detail {

/// Work done by the calling thread.
struct CallingThread {};

template <class Device>
Index thread_count([[maybe_unused]] const Device& device) {
  if constexpr (requires { device.numThreads(); }) {
    return static_cast<Index>(device.numThreads());
  } else {
    return 1;
  }
}

/// Calls work(first, last) for parts of [0, count) that cover it, on the threads of a device where it
/// has any: Eigen::ThreadPoolDevice. Eigen::DefaultDevice and CallingThread do it in one part.
/// bytes and cycles are the cost of one unit, from which Eigen chooses the size of the parts.
template <class Device, class Work>
void parallel_for([[maybe_unused]] const Device& device, Index count, [[maybe_unused]] double bytes,
                  [[maybe_unused]] double cycles, const Work& work) {
  if constexpr (requires { device.parallelFor(count, {bytes, bytes, cycles}, work); }) {
    // The braces become Eigen's TensorOpCost, whose header this one does without.
    device.parallelFor(count, {bytes, bytes, cycles}, work);
  } else {
    work(Index{0}, count);
  }
}

}  // namespace detail
POSENC_END
