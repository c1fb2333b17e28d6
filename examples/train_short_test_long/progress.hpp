// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <chrono>
#include <ostream>
#include <string>

namespace study {

using posenc::Index;

/// Prints the progress of training: on a terminal in one line that is overwritten, otherwise in an
/// occasional line.
class Progress {
 public:
  /// all_bytes: bytes of all trainings
  Progress(std::ostream& out, bool is_terminal, double all_bytes)
      : out_(out), is_terminal_(is_terminal), left_(all_bytes) {}

  /// Begins a model's training of `steps` steps.
  void begin(const std::string& name, Index steps);
  /// Skips bytes that an earlier run has trained on.
  void skip(double bytes) { left_ -= bytes; }
  void step(Index step, double bits_per_byte, double bytes);
  /// Ends the line.
  void end();

 private:
  using Clock = std::chrono::steady_clock;

  std::ostream& out_;
  bool is_terminal_, is_open_ = false;
  double left_, done_ = 0;  ///< bytes
  double seconds_ = 0;      ///< time for `done_`
  std::string name_;
  Index steps_ = 0;
  Clock::time_point last_step_ = {}, last_line_ = {};
};

}  // namespace study
