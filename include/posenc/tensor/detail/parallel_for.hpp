// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/tensor/device.hpp>

POSENC_BEGIN
namespace detail {

/// True if a device distributes work over threads, for which it may allocate memory.
template <class D>
inline constexpr bool has_threads = requires(const D& device, void (*work)(Index, Index)) {
  device.parallelFor(Index{0}, {0.0, 0.0, 0.0}, work);
};

/// Calls work(first, last) for ranges that cover [0, count), on the threads of the device if it has
/// any. Eigen::DefaultDevice and CallingThread call it once. `bytes` and `cycles` are the cost of
/// one unit, from which Eigen chooses the size of the ranges.
template <Device D, class Work>
void parallel_for([[maybe_unused]] const D& device, Index count, [[maybe_unused]] double bytes,
                  [[maybe_unused]] double cycles, const Work& work) {
  if constexpr (requires { device.parallelFor(count, {bytes, bytes, cycles}, work); }) {
    // The braces become Eigen's TensorOpCost, so that this header does not include Eigen.
    device.parallelFor(count, {bytes, bytes, cycles}, work);
  } else {
    work(Index{0}, count);
  }
}

/// Calls work(first, count) for groups of columns of a matrix. Sums over rows have the same bits on
/// every device, because one thread computes each column. Groups are wide enough that threads do
/// not write to the same cache line.
template <Device D, class Work>
void parallel_for_columns(const D& device, Index columns, double bytes, double cycles,
                          const Work& work) {
  constexpr Index group = 16;
  parallel_for(device, (columns + group - 1) / group, bytes * group, cycles * group,
               [&](Index first, Index end) {
                 work(first * group,
                      (end * group < columns ? end * group : columns) - first * group);
               });
}

/// The split of a sum over `count` terms into parts that do not depend on the device. Partial sums
/// that are added in the order of the parts have the same bits for any number of threads.
class ReductionSplit {
 public:
  static constexpr Index max_parts = 64;

  explicit ReductionSplit(Index count, Index parts = max_parts) noexcept
      : count_(count), parts_(parts < count ? parts : count) {}

  Index size() const noexcept { return parts_; }
  /// Returns the first term of a part. begin(size()) is the end of the last part.
  Index begin(Index part) const noexcept {
    const Index longer = count_ % parts_;
    return count_ / parts_ * part + (part < longer ? part : longer);
  }

 private:
  Index count_, parts_;
};

}  // namespace detail
POSENC_END
