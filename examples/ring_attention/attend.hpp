// SPDX-License-Identifier: MIT
#pragma once

#include "layer.hpp"
#include "ring.hpp"

namespace ring {

/// Outputs of some queries, and ln(sum of exp(score)), which merging with outputs of other keys
/// needs.
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

/// Attends from queries, aligned with the key at `place` and those after it, to the keys of a
/// block.
void attend_to_block(const Threads& threads, posenc::HeadsView<const float> q,
                     const KeysAndValues& kv, Index place, Outputs& outputs);

/// Attends from a rank's queries to the keys of all ranks. Keys go around the ring: in each step a
/// block is attended to and sent to the next rank, while the following one is received. Blocks are
/// merged in ring order, the rank's own first. For a given number of ranks the result is therefore
/// bit-identical in every run, with any number of threads.
///   Throws: LateRank, MpiError
Spent attend_around_ring(const Ring& ring, posenc::HeadsView<const float> q,
                         const KeysAndValues& own, Outputs& outputs);

}  // namespace ring
