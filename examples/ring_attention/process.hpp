// SPDX-License-Identifier: MIT
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

// MPI as this program needs it: errors are exceptions, messages are objects, and no wait is without a limit. All calls come from
// the thread that made the Process. The machines must agree on how numbers lie in memory.
namespace ring {

/// A call of MPI that failed; the message names it and says what MPI says.
struct MpiError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Messages that did not come, or were not taken, within the limit; the message names their ranks.
struct LateRank : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// This process among those of the run. Made once, it ends MPI when it goes.
class Process {
 public:
  ///   Throws: MpiError
  Process(int argc, char** argv);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// Waits for all others to come here, and without a limit: leave_together() goes before it.
  ~Process();

  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  /// The one that keys go to, and the one they come from.
  int next() const noexcept { return (rank_ + 1) % ranks_; }
  int previous() const noexcept { return (rank_ + ranks_ - 1) % ranks_; }

  /// Ends all processes of the run.
  [[noreturn]] static void abort() noexcept;

 private:
  int rank_ = 0, ranks_ = 1;
};

/// What goes where, or comes from where.
struct Letter {
  std::string name;      ///< what messages of errors call it
  int peer = 0;          ///< the rank at the other end
  int tag = 0;           ///< the same at both ends
  std::size_t unit = 1;  ///< bytes that are counted as one: MPI counts in int
};

/// One for each purpose, and for each step of the ring.
namespace tag {
constexpr int report = 0, end = 1;
constexpr int keys(int step) { return 2 + 2 * step; }
constexpr int gradients(int step) { return 3 + 2 * step; }
}  // namespace tag

/// A message on its way. Its memory must live, and keep still, until done().
class Request {
 public:
  ///   Throws: MpiError; std::length_error where there are more units than an int holds
  static Request send(std::span<const std::byte> bytes, Letter letter);
  static Request receive(std::span<std::byte> bytes, Letter letter);

  Request(Request&& other) noexcept;
  Request& operator=(Request&&) = delete;
  ~Request();

  /// Whether the message has arrived, or left; asking is what moves messages on.
  ///   Throws: MpiError
  bool done();

  /// "rank 2 has not sent the keys of rank 1"
  std::string complaint() const;

 private:
  enum class Direction { Send, Receive };
  Request(Letter letter, Direction direction) noexcept;

  MPI_Request request_ = MPI_REQUEST_NULL;
  Letter letter_;
  Direction direction_;
};

/// Returns when all are done.
///   Throws: LateRank if that takes longer than the limit; MpiError
void wait(std::span<Request> requests, std::chrono::duration<double> limit);

}  // namespace ring
