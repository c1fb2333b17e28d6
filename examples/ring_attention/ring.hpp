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

/// What a pass around the ring spent its time on.
struct Spent {
  Seconds attending{}, joining{}, waiting{};
};

/// A rank among those around which keys go: in step n it has the keys of the n-th rank before it.
struct Ring {
  const Process& process;
  Stripes stripes;
  Layer layer;
  const Threads& threads;
  Seconds limit;  ///< for which a message is waited for at most

  int rank() const noexcept { return process.rank(); }
  int ranks() const noexcept { return process.ranks(); }
  int owner_at(int step) const noexcept { return (rank() + ranks() - step) % ranks(); }
  /// Of the owner's keys.
  Index tokens_at(int step) const noexcept { return stripes.count(owner_at(step)); }
  /// The key of that owner at which the rank's query 0 stands.
  Index place_at(int step) const noexcept { return Stripes::place(rank(), owner_at(step)); }
  /// The most tokens that any rank has.
  Index most_tokens() const noexcept { return stripes.count(0); }

  /// What the rank has of one owner, as it goes to the next rank, and of another, as it comes from the one before it.
  struct Going {
    const KeysAndValues& of_tokens;
    int owner;
  };
  struct Coming {
    KeysAndValues& of_tokens;
    int owner;
  };
  /// Sends and receives; wait() for both. `name` is what messages of errors call it.
  ///   Throws: MpiError
  void exchange(const std::string& name, int tag, int step, const Going& going,
                const Coming& coming, std::vector<Request>& messages) const;
  /// Sends the keys of a step on, while those of the next one come; after the last step there are none.
  ///   Throws: MpiError
  void pass_keys_on(const KeysAndValues& here, int step, KeysAndValues& coming,
                    std::vector<Request>& messages) const;

  /// Returns when the work is done and the messages have arrived; what is waited for beyond the work counts as waiting.
  ///   Throws: LateRank, MpiError
  template <class Work>
  void work_while_moving(std::span<Request> messages, Spent& spent, const Work& work) const {
    if (messages.empty()) return work();
    const auto begin = Clock::now();
    const auto busy = spent.attending + spent.joining;
    // MPI moves large messages on only while it is asked about them: this thread asks, another one computes.
    auto working = std::async(std::launch::async, std::cref(work));
    wait(messages, limit);
    working.get();
    spent.waiting += Clock::now() - begin - (spent.attending + spent.joining - busy);
  }
};

}  // namespace ring
