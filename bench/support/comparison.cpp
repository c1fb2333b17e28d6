// SPDX-License-Identifier: MIT
#include "comparison.hpp"

#include "multiply_add.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

namespace bench {
namespace {

constexpr double shortest_repetition = 5e-3, slow_call = 50e-3, slowest_call = 0.2;  // seconds
constexpr Index rounds = 15, rounds_of_slow = 3;
constexpr int trials = 3;           // of each way, to find the fastest
constexpr double low_clock = 1.05;  // ratio of a probe to the best one
constexpr double max_spread = 5;    // percent

/// Returns the quantile: the value below which a share of all values lies.
double quantile(std::vector<double> values, double share) {
  const auto place =
      std::lround(share * static_cast<double>(static_cast<Index>(values.size()) - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

/// Returns half of the distance between the quartiles.
double spread(const std::vector<double>& values) {
  return (quantile(values, 0.75) - quantile(values, 0.25)) / 2;
}

/// Returns the seconds of a chain of multiply-adds, about 10 us. It is the shortest of three,
/// because an interrupt is not a low clock.
double clock_probe() {
  double shortest = 1;
  for (int again = 0; again < 3; ++again) {
    const double start = clock_seconds();
    multiply_add();
    shortest = std::min(shortest, clock_seconds() - start);
  }
  return shortest;
}

/// Shortest probe of this process, at the best clock so far.
double best_probe = 1;

bool is_low(double probe) {
  best_probe = std::min(best_probe, probe);
  return probe > low_clock * best_probe;
}

}  // namespace

/// Finds the fastest way, and the number of calls that makes a repetition long enough to be steady.
void Comparison::calibrate(Entry& entry) {
  double seconds = entry.ways.front()(1);
  entry.call = seconds;
  while (seconds < shortest_repetition) {
    const double growth = std::clamp(1.1 * shortest_repetition / seconds, 1.5, 16.0);
    entry.calls = static_cast<Index>(std::ceil(growth * static_cast<double>(entry.calls)));
    seconds = entry.ways.front()(entry.calls);
  }
  if (entry.ways.size() == 1) return;
  std::vector<double> best(entry.ways.size(), seconds);
  for (int trial = 0; trial < trials; ++trial) {
    for (std::size_t w = 0; w < entry.ways.size(); ++w) {
      best[w] = std::min(best[w], entry.ways[w](entry.calls));
    }
  }
  const auto fastest = std::min_element(best.begin(), best.end()) - best.begin();
  entry.ways = {entry.ways[static_cast<std::size_t>(fastest)]};
}

Comparison::Round Comparison::round(Index number) const {
  Round round{clock_probe(), std::vector<double>(entries_.size(), 0)};
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    const Entry& entry = entries_[e];
    if (number % entry.every != 0) continue;
    // The first call starts with the caches as the previous entry left them.
    if (entry.call < slow_call) entry.ways.front()(1);
    round.seconds[e] = entry.ways.front()(entry.calls) / static_cast<double>(entry.calls);
  }
  round.clock = std::max(round.clock, clock_probe());
  return round;
}

void Comparison::take_turns() {
  for (Entry& entry : entries_) calibrate(entry);
  count_ = entries_.front().call > slowest_call ? rounds_of_slow : rounds;
  for (Entry& entry : entries_) entry.every = entry.call > slow_call ? count_ / rounds_of_slow : 1;
  entries_.front().every = 1;
  Index good = 0;
  for (Index number = 1; good < count_ && number <= 3 * count_; ++number) {
    rounds_.push_back(round(number));
    if (!is_low(rounds_.back().clock)) ++good;
  }
  std::stable_sort(rounds_.begin(), rounds_.end(),
                   [](const Round& a, const Round& b) { return a.clock < b.clock; });
}

/// Returns value(round) of the rounds that count for an entry.
template <class Value>
std::vector<double> Comparison::counted(std::size_t entry, const Value& value) const {
  std::vector<double> values;
  const auto count = static_cast<std::size_t>(count_ / entries_[entry].every);
  for (const Round& round : rounds_) {
    if (round.seconds[entry] > 0 && values.size() < count) values.push_back(value(round));
  }
  return values;
}

void Comparison::tell(const std::string& counter, const std::vector<double>& values) {
  state_.counters[counter] = median(values);
  state_.counters[counter + "_spread"] = spread(values);
}

double Comparison::measure(Index bytes) {
  double seconds = 0;
  for (auto _ : state_) {
    state_.PauseTiming();  // otherwise CPU time would include the measurement
    take_turns();
    state_.ResumeTiming();
    const auto ours = counted(0, [](const Round& round) { return round.seconds.front(); });
    seconds = median(ours);
    state_.SetIterationTime(seconds);
    const double percent = 100 * spread(ours) / seconds;
    state_.counters["time_spread_percent"] = percent;
    if (percent > max_spread) state_.SetLabel("unsteady");
    const auto low = counted(0, [](const Round& round) { return is_low(round.clock) ? 1.0 : 0.0; });
    state_.counters["low_clock"] =
        std::accumulate(low.begin(), low.end(), 0.0) / static_cast<double>(low.size());
    if (bytes > 0) state_.counters["GB/s"] = static_cast<double>(bytes) / seconds * 1e-9;
    for (std::size_t e = 1; e < entries_.size(); ++e) {
      // Each repetition of a baseline is compared with ours of the same round.
      tell(entries_[e].counter, counted(e, [&](const Round& round) {
             const double ratio = round.seconds.front() / entries_[e].work / round.seconds[e];
             return entries_[e].shown == Shown::OursByTheirs ? ratio : 1 / ratio;
           }));
    }
  }
  return seconds;
}

}  // namespace bench
