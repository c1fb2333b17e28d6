// SPDX-License-Identifier: MIT
#pragma once

// Include with EIGEN_USE_THREADS defined before any header of Eigen.
#include "support/catch.hpp"
#include "support/cutter.hpp"
#include <posenc/core/config.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <cstddef>
#include <functional>
#include <vector>

namespace support {

/// Type-erased device, so that a test is compiled once.
class AnyDevice {
 public:
  struct Cost {
    double bytes_loaded, bytes_stored, cycles;
  };
  using Work = std::function<void(posenc::Index, posenc::Index)>;

  template <class Device>
  explicit AnyDevice(const Device& device)
      : threads_(device.numThreads()),
        threads_in_pool_(0),
        current_thread_([] { return -1; }),
        parallel_for_([&device](posenc::Index count, const Cost& cost, const Work& work) {
          device.parallelFor(count, {cost.bytes_loaded, cost.bytes_stored, cost.cycles}, work);
        }) {
    if constexpr (requires { device.currentThreadId(); }) {
      threads_in_pool_ = device.numThreadsInPool();
      current_thread_ = [&device] { return device.currentThreadId(); };
    }
  }

  int numThreads() const { return threads_; }
  int numThreadsInPool() const { return threads_in_pool_; }
  int currentThreadId() const { return current_thread_(); }
  void parallelFor(posenc::Index count, const Cost& cost, const Work& work) const {
    parallel_for_(count, cost, work);
  }

 private:
  int threads_, threads_in_pool_;
  std::function<int()> current_thread_;  ///< -1: no thread of the pool
  std::function<void(posenc::Index, const Cost&, const Work&)> parallel_for_;
};

/// Device that counts its chunks of work and runs them one unit at a time.
struct CountingDevice {
  using Cost = Cutter::Cost;
  posenc::Index* pieces;

  int numThreads() const { return 4; }
  template <class Work>
  void parallelFor(posenc::Index count, const Cost&, const Work& work) const {
    for (posenc::Index i = 0; i < count; ++i) {
      work(i, i + 1);
      ++*pieces;
    }
  }
};

/// Bytes of all results of a call, for comparison.
class Bytes {
 public:
  template <class T>
  void add(const T* data, std::size_t count) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(data);
    bytes_.insert(bytes_.end(), bytes, bytes + count * sizeof(T));
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.data(), values.size());
  }
  bool operator==(const Bytes&) const = default;
  bool empty() const { return bytes_.empty(); }

 private:
  std::vector<unsigned char> bytes_;
};

/// Checks that run(device...) -> Bytes gives the same without a device, with every device, and for
/// any split of the work. It must also run its work on the given device.
template <class Run>
void check_same_on_all_devices(const Run& run) {
  const Bytes want = run();
  REQUIRE_FALSE(want.empty());
  const auto check = [&](const auto& device) { CHECK((run(AnyDevice(device)) == want)); };
  for (const int threads : {1, 2, 3}) {
    INFO(threads << " threads");
    Eigen::ThreadPool pool(threads);
    check(Eigen::ThreadPoolDevice(&pool, threads));
  }
  for (const posenc::Index part : {1, 3, 50}) {
    INFO("parts of " << part);
    check(Cutter{part});
  }
  posenc::Index pieces = 0;
  check(CountingDevice{&pieces});
  CHECK(pieces > 1);
}

}  // namespace support
