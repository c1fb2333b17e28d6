// SPDX-License-Identifier: MIT
#pragma once

#include "memory/failing_memory.hpp"
#include <posenc/core/config.hpp>

// Must precede Tensor, which defines ThreadPoolDevice only then.
#ifndef EIGEN_USE_THREADS
#define EIGEN_USE_THREADS
#endif
#include <unsupported/Eigen/CXX11/Tensor>

namespace memory_test {

using posenc::Index;

/// Eigen's thread pool with a Watch around posenc's work. Tasks of the pool itself may allocate.
struct WatchedDevice {
  const Eigen::ThreadPoolDevice& device;

  int numThreads() const { return device.numThreads(); }
  int numThreadsInPool() const { return device.numThreadsInPool(); }
  int currentThreadId() const { return device.currentThreadId(); }
  template <class Work>
  void parallelFor(Index count, const Eigen::TensorOpCost& cost, const Work& work) const {
    const failing_memory::Pause pause;
    device.parallelFor(count, cost, [&](Index first, Index last) {
      const failing_memory::Watch watch;
      work(first, last);
    });
  }
};

}  // namespace memory_test
