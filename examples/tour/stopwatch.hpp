// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>

namespace tour {

/// Returns the nanoseconds of one call: the fastest of some batches of about 3 ms, which other work
/// on the machine disturbed least.
template <class Call>
double nanoseconds(const Call& call, int batches = 15) {
  using Clock = std::chrono::steady_clock;
  const auto batch = [&call](int calls) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
  };
  const int calls = std::clamp(static_cast<int>(3e6 / std::max(batch(1), 1.0)), 1, 1'000'000);
  double fastest = batch(calls);
  for (int n = 1; n < batches; ++n) fastest = std::min(fastest, batch(calls));
  return fastest / calls;
}

}  // namespace tour
