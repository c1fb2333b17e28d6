// SPDX-License-Identifier: MIT
#pragma once

#include "go_back.hpp"

namespace ring {

/// Multiply-adds per second of one process on blocks of so many tokens, or of 2048 where that is less.
double measure_rate(Pass pass, const Ring& ring, const Rope& rope, Index tokens);

/// What a step takes where there is next to nothing to do: the shortest of some passes with one token per rank. To be called by all
/// ranks together.
///   Throws: LateRank, MpiError
Seconds measure_empty_step(Pass pass, const Ring& ring, const Rope& rope);

}  // namespace ring
