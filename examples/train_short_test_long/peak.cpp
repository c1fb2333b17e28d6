// SPDX-License-Identifier: MIT
#include "peak.hpp"

#include <posenc/simd/pack.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

namespace study {
namespace {

using Vector = posenc::Pack<float, posenc::tier::Best>;

/// Number of sums: enough for the latency of an addition, few enough for the registers of every
/// tier.
constexpr std::size_t chains = 12;
constexpr posenc::Index links = 4096;
constexpr double operations =
    2.0 * static_cast<double>(chains * static_cast<std::size_t>(links)) * Vector::width;

float multiply_add(float half) {
  const Vector factor = Vector::broadcast(half);
  Vector x[chains];
  for (Vector& value : x) value = factor;
  for (posenc::Index link = 0; link < links; ++link) {
    // Unrolled by hand, because g++ interchanges or keeps such loops.
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((x[I] = mul_add(x[I], factor, factor)), ...);
    }
    (std::make_index_sequence<chains>());
  }
  Vector total = x[0];
  for (std::size_t i = 1; i < chains; ++i) total = total + x[i];
  return sum(total);
}

/// Returns the rate of one thread: the fastest of some batches, which other work disturbed least.
double rate() {
  using Clock = std::chrono::steady_clock;
  volatile float half = 0.5f, result = 0;
  double best = 0;
  for (int batch = 0; batch < 25; ++batch) {
    constexpr int calls = 200;
    const auto begin = Clock::now();
    for (int n = 0; n < calls; ++n) result = multiply_add(half);
    const std::chrono::duration<double> taken = Clock::now() - begin;
    best = std::max(best, calls * operations / taken.count());
  }
  (void)result;
  return best;
}

}  // namespace

double multiply_add_peak(int threads) {
  std::vector<double> rates(static_cast<std::size_t>(threads));
  std::vector<std::thread> workers;
  for (double& of_thread : rates) workers.emplace_back([&of_thread] { of_thread = rate(); });
  for (std::thread& worker : workers) worker.join();
  double sum = 0;
  for (const double of_thread : rates) sum += of_thread;
  return sum;
}

}  // namespace study
