// SPDX-License-Identifier: MIT
#pragma once

#include "go_back.hpp"

namespace ring {

/// Returns the multiply-adds per second of one process on blocks of `tokens` tokens, at most 2048.
double measure_rate(Pass pass, const Ring& ring, const Rope& rope, Index tokens);

/// Returns the time of a step with nearly no work: the shortest of some passes with one token per
/// rank. All ranks must call it together.
///   Throws: LateRank, MpiError
Seconds measure_empty_step(Pass pass, const Ring& ring, const Rope& rope);

}  // namespace ring
