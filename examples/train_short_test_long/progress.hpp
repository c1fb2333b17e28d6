// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <chrono>
#include <ostream>
#include <string>

namespace study {

using posenc::Index;

/// Says how far training is: in one line that is written anew on a terminal, else in a line now and then.
class Progress {
 public:
  /// all_bytes: of all that will be trained
  Progress(std::ostream& out, bool is_terminal, double all_bytes)
      : out_(out), is_terminal_(is_terminal), left_(all_bytes) {}

  /// A model's training, of so many steps in all.
  void begin(const std::string& name, Index steps);
  /// It had been trained so far before.
  void skip(double bytes) { left_ -= bytes; }
  void step(Index step, double bits_per_byte, double bytes);
  /// Ends the line.
  void end();

 private:
  using Clock = std::chrono::steady_clock;

  std::ostream& out_;
  bool is_terminal_, is_open_ = false;
  double left_, done_ = 0;  ///< bytes
  double seconds_ = 0;      ///< that `done_` took
  std::string name_;
  Index steps_ = 0;
  Clock::time_point last_step_ = {}, last_line_ = {};
};

}  // namespace study
