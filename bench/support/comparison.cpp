// SPDX-License-Identifier: MIT
#include "comparison.hpp"

#include <algorithm>
#include <cmath>

namespace bench {
namespace {

constexpr double shortest_repetition = 5e-3, slow_call = 50e-3, slowest_call = 0.2;  // seconds
constexpr Index rounds = 15, rounds_of_slow = 3;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

/// Finds how many calls make a repetition long enough to be steady.
void Comparison::calibrate(Entry& entry) {
  double seconds = entry.seconds_of(1);
  entry.call = seconds;
  while (seconds < shortest_repetition) {
    const double growth = std::clamp(1.1 * shortest_repetition / seconds, 1.5, 16.0);
    entry.calls = static_cast<Index>(std::ceil(growth * static_cast<double>(entry.calls)));
    seconds = entry.seconds_of(entry.calls);
  }
}

void Comparison::repeat(Entry& entry) {
  // The first call finds the caches as the one before left them.
  if (entry.call < slow_call) entry.seconds_of(1);
  entry.seconds.push_back(entry.seconds_of(entry.calls) / static_cast<double>(entry.calls));
}

/// The median over the repetitions, each compared with ours of the same round.
double Comparison::ratio(const Entry& entry) const {
  std::vector<double> ratios;
  std::size_t round = static_cast<std::size_t>(entry.every) - 1;
  for (const double theirs : entry.seconds) {
    const double ours = entries_.front().seconds[round] / entry.work;
    round += static_cast<std::size_t>(entry.every);
    ratios.push_back(entry.shown == Shown::OursByTheirs ? ours / theirs : theirs / ours);
  }
  return median(ratios);
}

double Comparison::measure(Index bytes) {
  double seconds = 0;
  for (auto _ : state_) {
    state_.PauseTiming();  // or the column of CPU time would tell how long the measuring took
    for (Entry& entry : entries_) calibrate(entry);
    const Index count = entries_.front().call > slowest_call ? rounds_of_slow : rounds;
    for (Entry& entry : entries_) entry.every = entry.call > slow_call ? count / rounds_of_slow : 1;
    entries_.front().every = 1;
    for (Index round = 1; round <= count; ++round) {
      for (Entry& entry : entries_) {
        if (round % entry.every == 0) repeat(entry);
      }
    }
    state_.ResumeTiming();
    seconds = median(entries_.front().seconds);
    state_.SetIterationTime(seconds);
    if (bytes > 0) state_.counters["GB/s"] = static_cast<double>(bytes) / seconds * 1e-9;
    for (const Entry& entry : entries_) {
      if (entry.shown != Shown::Nothing) state_.counters[entry.counter] = ratio(entry);
    }
  }
  return seconds;
}

}  // namespace bench
