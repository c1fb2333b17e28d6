// SPDX-License-Identifier: MIT
#include "progress.hpp"

#include "../tour/numbers.hpp"

namespace study {
namespace {

std::string duration(double seconds) {
  const auto whole = static_cast<Index>(seconds + 0.5);
  if (whole < 120) return tour::cat(whole, " s");
  return tour::cat(whole / 60, " min ", whole % 60, " s");
}

}  // namespace

void Progress::begin(const std::string& name, Index steps) {
  name_ = name;
  steps_ = steps;
  last_step_ = Clock::now();
}

void Progress::step(Index step, double bits_per_byte, double bytes) {
  const auto now = Clock::now();
  seconds_ += std::chrono::duration<double>(now - last_step_).count();
  last_step_ = now;
  done_ += bytes;
  left_ -= bytes;
  if (step != steps_ && now - last_line_ < std::chrono::milliseconds(is_terminal_ ? 250 : 10000)) {
    return;
  }
  last_line_ = now;
  const double rate = done_ / seconds_;
  out_ << (is_terminal_ ? "\r\033[K" : "") << name_ << ": step " << step << " of " << steps_ << ", "
       << tour::fixed(bits_per_byte, 3) << " bits per byte, "
       << tour::grouped(static_cast<Index>(rate)) << " tokens/s, " << duration(left_ / rate)
       << " left" << (is_terminal_ ? "" : "\n") << std::flush;
  is_open_ = is_terminal_;
}

void Progress::end() {
  if (is_open_) out_ << '\n' << std::flush;
  is_open_ = false;
}

}  // namespace study
