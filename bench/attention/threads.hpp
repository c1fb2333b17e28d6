// SPDX-License-Identifier: MIT
#pragma once

#include "cases.hpp"

namespace bench {

/// Two threads of Eigen's pool, on all processors. While they exist, the wall clock measures.
class TwoThreads {
 public:
  const Eigen::ThreadPoolDevice& device() const { return device_; }

 private:
  AllProcessors unpinned_;
  Eigen::ThreadPool pool_{2};
  Eigen::ThreadPoolDevice device_{&pool_, 2};
};

/// Compares attend(device) on two threads of Eigen's pool with attend() on one. vs_one_thread: how
/// many times faster.
template <class Setup, class OneThread, class Threads>
void threads_case(benchmark::State& state, const Setup& setup, const OneThread& one_thread,
                  const Threads& threads) {
  const TwoThreads two;
  Comparison comparison(state, [&] { threads(two.device()); });
  const double seconds = comparison.faster_than("vs_one_thread", one_thread).measure();
  const double useful_flop = flop(setup.model, causal_work(setup.queries(), setup.keys()));
  state.counters["flop_rate"] = useful_flop / seconds * 1e-9;  // GFLOP/s
  tell_workspace(state, setup);
}

}  // namespace bench
