// SPDX-License-Identifier: MIT
#pragma once

#include "share.hpp"

#include <cstdint>

namespace ring {

/// A number that depends on all bits of a rank's outputs and on whose they are, and adds up over ranks to that of all tokens, however
/// they are shared out.
std::uint64_t fingerprint(const posenc::Positions& positions, posenc::HeadsView<const float> out);
/// The same of gradients.
std::uint64_t fingerprint(const posenc::Positions& positions, const Gradients& gradients);

/// How numbers differ from those of one process that has all queries and keys and makes one call.
struct Difference {
  float largest = 0;  ///< of any two numbers; of gradients, in parts of the largest number
  float allowed = 0;  ///< of outputs, by merge()'s bound; of gradients, see check.cpp
  std::uint64_t fingerprint = 0;  ///< of the one process's numbers
};

struct Differences {
  Difference of_outputs, of_gradients;
};

/// Each rank does all of it and compares its own tokens; it needs room for the queries, keys and gradients of all.
Differences differences_from_one_process(const Ring& ring, const Rope& rope, const Share& share);

}  // namespace ring
