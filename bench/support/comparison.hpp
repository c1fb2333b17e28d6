// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <benchmark/benchmark.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace bench {

using posenc::Index;

/// A pointer or integer of which the compiler knows nothing; it cannot fold repetitions that depend
/// on it. Not benchmark::DoNotOptimize(), whose operand may be memory or a register: with such a
/// choice g++ changes the value (GCC PR 92597).
template <class T>
T opaque(T value) {
  asm volatile("" : "+r"(value) : : "memory");
  return value;
}

/// One benchmark: ours and its baselines, measured in turn in the same run, so that a drift of the
/// machine hits all of them. Time is the median of ours; what the baselines give goes into counters.
class Comparison {
 public:
  template <class Call>
  Comparison(benchmark::State& state, const Call& ours) : state_(state) {
    entries_.push_back({"", Shown::Nothing, timed(ours)});
  }

  // A call of ours does `work` times the work of one of theirs, whose time then counts so often.

  /// counter = time of ours / time of theirs: what we cost beside a limit.
  template <class Call>
  Comparison& beside(std::string counter, const Call& theirs, double work = 1) {
    entries_.push_back({std::move(counter), Shown::OursByTheirs, timed(theirs), work});
    return *this;
  }

  /// counter = time of theirs / time of ours: how many times faster we are.
  template <class Call>
  Comparison& faster_than(std::string counter, const Call& theirs, double work = 1) {
    entries_.push_back({std::move(counter), Shown::TheirsByOurs, timed(theirs), work});
    return *this;
  }

  /// Runs everything and returns the seconds that a call of ours takes. It reads and writes so many
  /// bytes; 0: they do not matter.
  double measure(Index bytes = 0);

 private:
  enum class Shown { Nothing, OursByTheirs, TheirsByOurs };

  struct Entry {
    std::string counter;
    Shown shown;
    std::function<double(Index)> seconds_of;  ///< runs so many calls
    double work = 1;                          ///< what theirs counts
    double call = 0;                          ///< seconds, roughly
    Index calls = 1;                          ///< in a repetition
    Index every = 1;                          ///< takes part in every n-th round
    std::vector<double> seconds = {};         ///< a call, in each of its rounds
  };

  /// The loop stands inside the type-erased function: a call of some hundred nanoseconds must not
  /// pay for the erasure.
  template <class Call>
  static std::function<double(Index)> timed(const Call& call) {
    return [call](Index calls) {
      const auto start = std::chrono::steady_clock::now();
      for (Index i = 0; i < calls; ++i) {
        call();
        benchmark::ClobberMemory();
      }
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
  }

  static void calibrate(Entry& entry);
  static void repeat(Entry& entry);
  double ratio(const Entry& entry) const;

  benchmark::State& state_;
  std::vector<Entry> entries_;  ///< ours first
};

/// Adds a case, a function of (benchmark::State&), to the suite.
template <class Case>
void add(const std::string& name, const Case& run) {
  // One iteration, because a Comparison does the repeating.
  benchmark::RegisterBenchmark(name.c_str(), run)->Iterations(1)->UseManualTime();
}

}  // namespace bench
