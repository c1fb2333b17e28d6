// SPDX-License-Identifier: MIT
#pragma once

#include "share.hpp"

#include <cstdint>

namespace ring {

/// Returns a number that depends on all bits of a rank's outputs and on their positions. Its sum
/// over ranks is that of all tokens, for any distribution of tokens.
std::uint64_t fingerprint(const posenc::Positions& positions, posenc::HeadsView<const float> out);
/// Overload of fingerprint() for gradients.
std::uint64_t fingerprint(const posenc::Positions& positions, const Gradients& gradients);

/// Differences from the numbers of one process that has all queries and keys and makes one call.
struct Difference {
  float largest = 0;              ///< of outputs; of gradients, as a share of the largest
  float allowed = 0;              ///< of outputs, by merge(); of gradients, see check.cpp
  std::uint64_t fingerprint = 0;  ///< of the numbers of one process
};

struct Differences {
  Difference of_outputs, of_gradients;
};

/// Returns the differences from one process. Each rank computes all tokens and compares its own, so
/// it needs memory for the queries, keys and gradients of all tokens.
Differences differences_from_one_process(const Ring& ring, const Rope& rope, const Share& share);

}  // namespace ring
