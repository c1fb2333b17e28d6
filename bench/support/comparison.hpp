// SPDX-License-Identifier: MIT
#pragma once

#include "opaque.hpp"

#include <benchmark/benchmark.h>

#include <chrono>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

namespace bench {

/// One benchmark: ours and its baselines, measured in turn in the same run, so that a drift of the
/// machine hits all of them. Time is the median of ours; what the baselines give goes into counters,
/// each with its spread, half of the distance between the quartiles: `vs_limit`, `vs_limit_spread`.
///
/// A chain of multiply-adds before and after every round tells the clock (and whether a neighbour uses
/// the same core). While too few rounds ran at the best clock that was seen, up to three times as many
/// are measured, and those at the highest clock count; `low_clock` is the share of these that still
/// fell short of the best.
class Comparison {
 public:
  template <class Call>
  Comparison(benchmark::State& state, const Call& ours) : state_(state) {
    entries_.push_back({"", Shown::Nothing, {timed(ours)}});
  }

  // A call of ours does `work` times the work of one of theirs, whose time then counts so often.
  // Theirs is a call, or a tuple of several ways to do the same, the fastest of which then stands for
  // all.

  /// counter = time of ours / time of theirs: what we cost beside a limit.
  template <class Theirs>
  Comparison& beside(std::string counter, const Theirs& theirs, double work = 1) {
    entries_.push_back({std::move(counter), Shown::OursByTheirs, ways(theirs), work});
    return *this;
  }

  /// counter = time of theirs / time of ours: how many times faster we are.
  template <class Theirs>
  Comparison& faster_than(std::string counter, const Theirs& theirs, double work = 1) {
    entries_.push_back({std::move(counter), Shown::TheirsByOurs, ways(theirs), work});
    return *this;
  }

  /// Runs everything and returns the seconds that a call of ours takes. It reads and writes so many
  /// bytes; 0: they do not matter.
  double measure(Index bytes = 0);

 private:
  enum class Shown { Nothing, OursByTheirs, TheirsByOurs };

  using Timed = std::function<double(Index)>;  ///< runs so many calls, returns their seconds

  struct Entry {
    std::string counter;
    Shown shown;
    std::vector<Timed> ways;  ///< the fastest one is left by calibrate()
    double work = 1;          ///< what theirs counts
    double call = 0;          ///< seconds, roughly
    Index calls = 1;          ///< in a repetition
    Index every = 1;          ///< takes part in every n-th round
  };

  struct Round {
    double clock = 0;                  ///< seconds of the chain of multiply-adds, the longer of two
    std::vector<double> seconds = {};  ///< of a call of each entry; 0: took no part
  };

  /// The loop stands inside the type-erased function: a call of some hundred nanoseconds must not
  /// pay for the erasure.
  template <class Call>
  static Timed timed(const Call& call) {
    return [call](Index calls) {
      const auto start = std::chrono::steady_clock::now();
      for (Index i = 0; i < calls; ++i) {
        call();
        benchmark::ClobberMemory();
      }
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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
  Index count_ = 0;                 ///< of the rounds that count
  std::vector<Round> rounds_ = {};  ///< the highest clock first
};

/// Adds a case, a function of (benchmark::State&), to the suite.
template <class Case>
void add(const std::string& name, const Case& run) {
  // One iteration, because a Comparison does the repeating.
  benchmark::RegisterBenchmark(name.c_str(), run)->Iterations(1)->UseManualTime();
}

}  // namespace bench
