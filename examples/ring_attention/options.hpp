// SPDX-License-Identifier: MIT
#pragma once

#include "attend.hpp"
#include "cost.hpp"

#include <string>
#include <vector>

namespace ring {

/// Fault injected into the run, so that a test can check the outcome.
struct Fault {
  enum class Kind { None, Sleep, Exit } kind = Kind::None;
  int rank = 0;
};

struct Options {
  bool help = false, check = true;
  Index tokens = 2048;
  Layer layer{.heads = 8, .kv_heads = 2, .head_dim = 64};
  int threads = 1;
  Seconds limit{60};
  Network network{.bytes_per_second = 1.25e9, .latency = 30e-6};
  Fault fault;
};

std::string usage();

/// Parses the command line.
///   Throws: tour::UsageError
Options parse_options(const std::vector<std::string>& arguments, int ranks);

}  // namespace ring
