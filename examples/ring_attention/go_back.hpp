// SPDX-License-Identifier: MIT
#pragma once

#include "attend.hpp"

namespace ring {

/// Gradients of the queries, keys and values of some tokens.
struct Gradients {
  Heads q;
  KeysAndValues kv;

  Gradients(const Layer& layer, Index tokens)
      : q(1, tokens, layer.heads, layer.head_dim), kv(layer, tokens) {}
};

/// State of a rank's queries after all keys have passed, and the gradient of their outputs.
struct Attended {
  posenc::HeadsView<const float> q;
  Outputs& outputs;
  posenc::HeadsView<const float> grad_out;
};

/// Adds the gradients of queries, aligned with the key at `place` and those after it, and of a
/// block's keys. Outputs and log-sum-exps are those over all keys, so merge needs no backward.
void go_back_through_block(const Threads& threads, const Attended& queries, const KeysAndValues& kv,
                           Index place, posenc::HeadsView<float> grad_q, KeysAndValues& grad_kv);

/// Backward pass of attend_around_ring(). Keys and values go around once more. The sums of their
/// gradients follow one step behind, and each rank adds the gradients from its queries. The rank
/// before the owner sends them home. The gradients from the owner's own queries stay there, so sums
/// are sent as often as keys. Queries, outputs and their gradients do not move. All sums are in
/// ring order.
///   Throws: LateRank, MpiError
Spent go_back_around_ring(const Ring& ring, const Attended& queries, const KeysAndValues& own,
                          Gradients& gradients);

}  // namespace ring
