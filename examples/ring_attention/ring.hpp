// SPDX-License-Identifier: MIT
#pragma once

#include "layer.hpp"
#include "process.hpp"
#include "stripes.hpp"

#include <chrono>
#include <future>
#include <span>
#include <string>
#include <vector>

namespace ring {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using Threads = Eigen::ThreadPoolDevice;

/// Times of a pass around the ring.
struct Spent {
  Seconds attending{}, joining{}, waiting{};
};

/// A rank and its ring. In step n it has the keys of the n-th rank before it.
struct Ring {
  const Process& process;
  Stripes stripes;
  Layer layer;
  const Threads& threads;
  Seconds limit;  ///< longest wait for a message

  int rank() const noexcept { return process.rank(); }
  int ranks() const noexcept { return process.ranks(); }
  int owner_at(int step) const noexcept { return (rank() + ranks() - step) % ranks(); }
  /// Returns the number of the owner's keys.
  Index tokens_at(int step) const noexcept { return stripes.count(owner_at(step)); }
  /// Returns the key of that owner that is aligned with the rank's query 0.
  Index place_at(int step) const noexcept { return Stripes::place(rank(), owner_at(step)); }
  /// Returns the largest number of tokens of a rank.
  Index most_tokens() const noexcept { return stripes.count(0); }

  /// Data of one owner that are sent to the next rank, and of another that are received from the
  /// previous one.
  struct Going {
    const KeysAndValues& of_tokens;
    int owner;
  };
  struct Coming {
    KeysAndValues& of_tokens;
    int owner;
  };
  /// Starts a send and a receive; call wait() for both. `name` is used in error messages.
  ///   Throws: MpiError
  void exchange(const std::string& name, int tag, int step, const Going& going,
                const Coming& coming, std::vector<Request>& messages) const;
  /// Sends the keys of a step on and receives those of the next one; does nothing after the last
  /// step.
  ///   Throws: MpiError
  void pass_keys_on(const KeysAndValues& here, int step, KeysAndValues& coming,
                    std::vector<Request>& messages) const;

  /// Runs the work and returns when the messages have arrived as well. Time beyond the work counts
  /// as waiting.
  ///   Throws: LateRank, MpiError
  template <class Work>
  void work_while_moving(std::span<Request> messages, Spent& spent, const Work& work) const {
    if (messages.empty()) return work();
    const auto begin = Clock::now();
    const auto busy = spent.attending + spent.joining;
    // MPI makes progress with large messages only during calls. Therefore this thread calls MPI,
    // and another one computes.
    auto working = std::async(std::launch::async, std::cref(work));
    wait(messages, limit);
    working.get();
    spent.waiting += Clock::now() - begin - (spent.attending + spent.joining - busy);
  }
};

}  // namespace ring
