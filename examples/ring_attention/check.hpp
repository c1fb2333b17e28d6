// SPDX-License-Identifier: MIT
#pragma once

#include "attend.hpp"

#include <cstdint>

namespace ring {

/// A number that depends on all bits of a rank's outputs and on whose they are, and adds up over ranks to that of all tokens, however
/// they are shared out.
std::uint64_t fingerprint(const posenc::Positions& positions, posenc::HeadsView<const float> out);

/// How outputs differ from those of one process that has all keys and attends to them in one call.
struct Difference {
  float largest;              ///< of any two numbers
  float allowed;              ///< by merge()'s bound
  std::uint64_t fingerprint;  ///< of the one process's outputs
};

/// Each rank does this for its own queries, since a query's bits do not depend on the others of the call; it needs room for the
/// keys and values of all tokens.
Difference difference_from_one_process(const Rope& rope, const Stripes& stripes, const Layer& layer,
                                       const Threads& threads, int rank,
                                       posenc::HeadsView<const float> q, Outputs& outputs);

}  // namespace ring
