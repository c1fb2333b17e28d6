// SPDX-License-Identifier: MIT
#pragma once

#include "noise.hpp"
#include "opaque.hpp"

#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

namespace bench {

/// One benchmark: our code and its baselines, measured alternately in one run, so that a drift of
/// the machine affects all of them. The reported time is the median of ours. Ratios to the
/// baselines are counters, each with its spread, half of the distance between the quartiles:
/// `vs_limit`, `vs_limit_spread`.
///
/// A chain of multiply-adds before and after every round measures the clock, which also shows
/// whether a neighbour uses the same core. While too few rounds ran at the best clock so far, up to
/// three times as many rounds are measured, and those at the highest clock count. `low_clock` is
/// the share of these that were still below the best clock. A case whose times have a spread of more
/// than 5 % gets a label that says so.
class Comparison {
 public:
  template <class Call>
  Comparison(benchmark::State& state, const Call& ours) : state_(state) {
    entries_.push_back({"", Shown::Nothing, {timed(ours)}});
  }

  // A call of ours does `work` times the work of a call of theirs, so their time is multiplied by
  // it. Theirs is a call, or a tuple of several ways to do the same, of which the fastest is used.

  /// Adds a limit: counter = our time / their time.
  template <class Theirs>
  Comparison& beside(std::string counter, const Theirs& theirs, double work = 1) {
    entries_.push_back({std::move(counter), Shown::OursByTheirs, ways(theirs), work});
    return *this;
  }

  /// Adds a baseline: counter = their time / our time, that is, how many times faster ours is.
  template <class Theirs>
  Comparison& faster_than(std::string counter, const Theirs& theirs, double work = 1) {
    entries_.push_back({std::move(counter), Shown::TheirsByOurs, ways(theirs), work});
    return *this;
  }

  /// Runs everything and returns the seconds of a call of ours. A call reads and writes `bytes`
  /// bytes; 0: not reported.
  double measure(Index bytes = 0);

 private:
  enum class Shown { Nothing, OursByTheirs, TheirsByOurs };

  using Timed = std::function<double(Index)>;  ///< runs n calls, returns their seconds

  struct Entry {
    std::string counter;
    Shown shown;
    std::vector<Timed> ways;  ///< calibrate() keeps the fastest
    double work = 1;          ///< factor of their time
    double call = 0;          ///< approximate seconds
    Index calls = 1;          ///< per repetition
    Index every = 1;          ///< takes part in every n-th round
  };

  struct Round {
    double clock = 0;                  ///< seconds of the multiply-add chain, the longer of two
    std::vector<double> seconds = {};  ///< per call of each entry; 0: took no part
  };

  /// The loop is inside the type-erased function, so that a call of some hundred nanoseconds does
  /// not pay for the erasure.
  template <class Call>
  static Timed timed(const Call& call) {
    return [call](Index calls) {
      const double start = clock_seconds();
      for (Index i = 0; i < calls; ++i) {
        call();
        benchmark::ClobberMemory();
      }
      return clock_seconds() - start;
    };
  }

  template <class Call>
  static std::vector<Timed> ways(const Call& call) {
    return {timed(call)};
  }

  template <class... Calls>
  static std::vector<Timed> ways(const std::tuple<Calls...>& calls) {
    return std::apply([](const auto&... call) { return std::vector<Timed>{timed(call)...}; },
                      calls);
  }

  static void calibrate(Entry& entry);
  void take_turns();
  Round round(Index number) const;
  template <class Value>
  std::vector<double> counted(std::size_t entry, const Value& value) const;
  void tell(const std::string& counter, const std::vector<double>& values);

  benchmark::State& state_;
  std::vector<Entry> entries_;      ///< ours first
  Index count_ = 0;                 ///< number of rounds that count
  std::vector<Round> rounds_ = {};  ///< highest clock first
};

/// Adds a case, a function of (benchmark::State&), to the suite.
template <class Case>
void add(const std::string& name, const Case& run) {
  // One iteration, because Comparison does the repetitions.
  benchmark::RegisterBenchmark(name.c_str(), run)->Iterations(1)->UseManualTime();
}

}  // namespace bench
