// SPDX-License-Identifier: MIT
#pragma once

#include "attend.hpp"

namespace ring {

/// Gradients of some tokens' queries, keys and values.
struct Gradients {
  Heads q;
  KeysAndValues kv;

  Gradients(const Layer& layer, Index tokens)
      : q(1, tokens, layer.heads, layer.head_dim), kv(layer, tokens) {}
};

/// What a rank has of its own queries after all keys have come by, and the gradient of what they got.
struct Attended {
  posenc::HeadsView<const float> q;
  Outputs& outputs;
  posenc::HeadsView<const float> grad_out;
};

/// Gradients of what queries that stand at `place` got from a block's keys, which are some of those they attended to:
/// outputs and log-sum-exps are of all keys, and so no merge has a backward.
void go_back_through_block(const Threads& threads, const Attended& queries, const KeysAndValues& kv,
                           Index place, posenc::HeadsView<float> grad_q, KeysAndValues& grad_kv);

/// Backward of attend_around_ring(). Keys and values go around once more, and the sums of their gradients a step behind them, to
/// which each rank adds what its queries give; the rank before their owner sends them home. What the owner's queries give
/// stays there, so sums are sent as often as keys. Queries, outputs and their gradients stay where they are. All sums are in
/// the order of the ring.
///   Throws: LateRank, MpiError
Spent go_back_around_ring(const Ring& ring, const Attended& queries, const KeysAndValues& own,
                          Gradients& gradients);

}  // namespace ring
