// SPDX-License-Identifier: MIT
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

// Wrapper of MPI for this program: errors are exceptions, messages are objects, and every wait has
// a limit. All calls come from the thread that constructed the Process. All machines must have the
// same number formats.
namespace ring {

/// Failed call of MPI; the message has its name and MPI's text.
struct MpiError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Messages that were not received, or not taken, within the limit; the error message names their
/// ranks.
struct LateRank : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// This process among those of the run. Constructed once; its destructor finalises MPI.
class Process {
 public:
  /// Initialises MPI.
  ///   Throws: MpiError
  Process(int argc, char** argv);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// Waits for all other ranks without a limit, so call leave_together() before.
  ~Process();

  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }
  /// Ranks that keys are sent to, and received from.
  int next() const noexcept { return (rank_ + 1) % ranks_; }
  int previous() const noexcept { return (rank_ + ranks_ - 1) % ranks_; }

  /// Ends all processes of the run.
  [[noreturn]] static void abort() noexcept;

 private:
  int rank_ = 0, ranks_ = 1;
};

/// Message address: peer, tag and unit.
struct Letter {
  std::string name;      ///< name in error messages
  int peer = 0;          ///< rank at the other end
  int tag = 0;           ///< equal at both ends
  std::size_t unit = 1;  ///< bytes counted as one, because MPI counts in int
};

/// Tags: one for each purpose, and for each step of the ring.
namespace tag {
constexpr int report = 0, end = 1;
constexpr int keys(int step) { return 2 + 2 * step; }
constexpr int gradients(int step) { return 3 + 2 * step; }
}  // namespace tag

/// Message in transit. Its memory must live at a fixed address until done().
class Request {
 public:
  /// Sends a message.
  ///   Throws: MpiError; std::length_error if there are more units than an int can count
  static Request send(std::span<const std::byte> bytes, Letter letter);
  static Request receive(std::span<std::byte> bytes, Letter letter);

  Request(Request&& other) noexcept;
  Request& operator=(Request&&) = delete;
  ~Request();

  /// True if the message has arrived, or left. Messages make progress only during calls of done().
  ///   Throws: MpiError
  bool done();

  /// Returns a text like "rank 2 has not sent the keys of rank 1".
  std::string complaint() const;

 private:
  enum class Direction { Send, Receive };
  Request(Letter letter, Direction direction) noexcept;

  MPI_Request request_ = MPI_REQUEST_NULL;
  Letter letter_;
  Direction direction_;
};

/// Waits until all requests are done.
///   Throws: LateRank if that takes longer than the limit; MpiError
void wait(std::span<Request> requests, std::chrono::duration<double> limit);

}  // namespace ring
