// SPDX-License-Identifier: MIT
#pragma once

#include "layer.hpp"

#include <optional>

namespace ring {

/// Connection from a rank to the next one: given, not measured.
struct Network {
  double bytes_per_second, latency;
};

/// Measured rates of processes in a pass.
struct Rates {
  Pass pass;
  double alone;           ///< multiply-adds per second, others idle
  double in_ring;         ///< of the slowest rank, while all compute
  double join_per_token;  ///< seconds to merge or add one token, of the slowest rank
  double empty_step;      ///< seconds of a step of the ring without work
};

/// Returns the modelled seconds of a causal pass over that many tokens in one process.
double seconds_of_one_process(const Layer& layer, double tokens, const Rates& rates);
/// Returns the modelled seconds of a ring. Each step but the last takes the longer of two times:
/// work on a block, and sending one. Every step takes the time of an empty one in addition. At the
/// end gradients are sent home without concurrent work.
double seconds_of_ring(const Layer& layer, double tokens, int ranks, const Rates& rates,
                       const Network& network);

/// Returns the number of tokens from which on a ring is faster than one process; nothing if it
/// never is.
std::optional<double> pays_from(const Layer& layer, int ranks, const Rates& rates,
                                const Network& network);
/// Returns the number of tokens from which on sending a block takes less time than the work on one,
/// so that no rank waits for the network.
std::optional<double> hides_network_from(const Layer& layer, int ranks, const Rates& rates,
                                         const Network& network);

}  // namespace ring
