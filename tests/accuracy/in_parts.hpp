// SPDX-License-Identifier: MIT
#pragma once

#include "accuracy/survey.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace accuracy {

/// Runs `survey` for parts of the floats on all processors, and joins the histograms. The result does not
/// depend on the number of processors.
template <class Survey>
std::vector<Histogram> in_parts(const Extent& extent, const Survey& survey) {
  constexpr std::uint64_t count = 64;
  std::vector<std::vector<Histogram>> parts(count);
  std::atomic<std::uint64_t> next = 0;
  const auto work = [&] {
    for (std::uint64_t n; (n = next++) < count;) {
      Extent part = extent;
      part.begin = extent.begin + (extent.end - extent.begin) * n / count;
      part.end = extent.begin + (extent.end - extent.begin) * (n + 1) / count;
      parts[n] = survey(part);
    }
  };
  {
    std::vector<std::jthread> workers(std::max(std::thread::hardware_concurrency(), 1u));
    for (std::jthread& worker : workers) worker = std::jthread(work);
  }
  std::vector<Histogram> all = std::move(parts.front());
  for (std::size_t n = 1; n < parts.size(); ++n) {
    for (std::size_t i = 0; i < all.size(); ++i) all[i].merge(parts[n][i]);
  }
  return all;
}

}  // namespace accuracy
