// SPDX-License-Identifier: MIT
#pragma once

#include "layer.hpp"

#include <optional>

namespace ring {

/// One rank's line to the next one: given, not measured.
struct Network {
  double bytes_per_second, latency;
};

/// What processes were seen to do in a pass.
struct Rates {
  Pass pass;
  double alone;    ///< multiply-adds per second, while all other ranks are idle
  double in_ring;  ///< of the slowest rank, while all of them compute
  double
      join_per_token;  ///< seconds to merge its output, or to add its gradients, of the slowest rank
  double empty_step;   ///< seconds that a step of the ring takes where there is nothing to do
};

/// Seconds for a causal pass over so many tokens, as a model of times has it.
double seconds_of_one_process(const Layer& layer, double tokens, const Rates& rates);
/// Each step but the last takes as long as the longer of the two, work on a block or moving one on; all take what an
/// empty one does; and in the end gradients go home, while nobody works.
double seconds_of_ring(const Layer& layer, double tokens, int ranks, const Rates& rates,
                       const Network& network);

/// From how many tokens on a ring is faster than one process; nothing where it never is.
std::optional<double> pays_from(const Layer& layer, int ranks, const Rates& rates,
                                const Network& network);
/// From how many tokens on a block is moved on before the work on one is done, so that nobody waits for the network.
std::optional<double> hides_network_from(const Layer& layer, int ranks, const Rates& rates,
                                         const Network& network);

}  // namespace ring
