// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>

POSENC_BEGIN
namespace detail {

/// A device without its type: the number of its threads, and functions that call it. What is below
/// the public functions takes it, so that it is compiled once for all devices.
///   Aliasing: refers to the device, which must outlive it
class ErasedDevice {
 public:
  /// Cost of one unit of work, for Eigen's cost model. Like every device, this one is called with
  /// three numbers. parallel_for() takes the bytes read for those written, too.
  struct Cost {
    double bytes_read, bytes_written, cycles;
  };

  template <Device D>
  explicit ErasedDevice(const D& device) noexcept
      : device_(&device), threads_(static_cast<Index>(device.numThreads())) {
    if constexpr (requires { device.numThreadsInPool(); }) {
      threads_in_pool_ = static_cast<Index>(device.numThreadsInPool());
    }
    if constexpr (requires { device.currentThreadId(); }) {
      current_thread_id_ = [](const void* self) {
        return static_cast<Index>(static_cast<const D*>(self)->currentThreadId());
      };
    }
    if constexpr (has_threads<D>) {
      run_ = [](const void* self, Index count, const Cost& cost, const Work& work) {
        // Two pointers, which std::function holds without allocating memory.
        parallel_for(*static_cast<const D*>(self), count, cost.bytes_read, cost.cycles,
                     [object = work.object, call = work.call](Index first, Index last) {
                       call(object, first, last);
                     });
      };
    }
  }

  Index numThreads() const noexcept { return threads_; }                // NOLINT: as Eigen names it
  Index numThreadsInPool() const noexcept { return threads_in_pool_; }  // NOLINT
  Index currentThreadId() const {                                       // NOLINT
    return current_thread_id_ == nullptr ? Index{-1} : current_thread_id_(device_);
  }

  /// Calls work(first, last) for ranges that cover [0, count).
  template <class F>
  void parallelFor(Index count, const Cost& cost, const F& work) const {  // NOLINT
    if (run_ == nullptr) return work(Index{0}, count);
    run_(device_, count, cost, {&work, [](const void* object, Index first, Index last) {
                                  (*static_cast<const F*>(object))(first, last);
                                }});
  }

 private:
  /// Work without its type.
  struct Work {
    const void* object;
    void (*call)(const void* object, Index first, Index last);
  };

  const void* device_;
  Index threads_;
  Index threads_in_pool_ = 0;
  Index (*current_thread_id_)(const void* device) = nullptr;
  void (*run_)(const void* device, Index count, const Cost& cost, const Work& work) = nullptr;
};

}  // namespace detail
POSENC_END
