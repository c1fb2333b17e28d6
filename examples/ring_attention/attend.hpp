// SPDX-License-Identifier: MIT
#pragma once

#include "layer.hpp"
#include "ring.hpp"

namespace ring {

/// Outputs of some queries, and ln(sum of exp(score)), with which outputs of other keys are merged.
struct Outputs {
  Heads out;                                      // [1, queries, heads, head_dim]
  Eigen::Tensor<float, 3, Eigen::RowMajor> lses;  // [1, heads, queries]

  Outputs(const Layer& layer, Index queries)
      : out(1, queries, layer.heads, layer.head_dim), lses(1, layer.heads, queries) {}

  posenc::LseView<float> lse() noexcept {
    return {
        .data = lses.data(), .batch = 1, .heads = lses.dimension(1), .queries = lses.dimension(2)};
  }
};

/// Queries that stand at `place` and the keys after it attend to a block's keys.
void attend_to_block(const Threads& threads, posenc::HeadsView<const float> q,
                     const KeysAndValues& kv, Index place, Outputs& outputs);

/// A rank's queries attend to the keys of all ranks. These go around the ring: in each step a block is attended to, sent on to
/// the next rank, and the one after it received. Blocks are merged in the order of the ring, the rank's own first, so for a given
/// number of ranks the bits are the same in every run, with any number of threads.
///   Throws: LateRank, MpiError
Spent attend_around_ring(const Ring& ring, posenc::HeadsView<const float> q,
                         const KeysAndValues& own, Outputs& outputs);

}  // namespace ring
