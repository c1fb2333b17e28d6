// SPDX-License-Identifier: MIT
#pragma once

#include "go_back.hpp"

#include <utility>

namespace ring {

/// What a rank has of some tokens, and what it makes of them.
struct Share {
  Heads queries, grad_out;
  KeysAndValues kv;
  Outputs outputs;
  Gradients gradients;

  /// Outputs and gradients are to be written.
  Share(const Rope& rope, const Layer& layer, const posenc::Positions& positions);

  Attended attended() noexcept {
    return {posenc::bshd(std::as_const(queries)), outputs, posenc::bshd(std::as_const(grad_out))};
  }

  ///   Throws: LateRank, MpiError
  Spent attend(const Ring& ring) { return attend_around_ring(ring, attended().q, kv, outputs); }
  Spent go_back(const Ring& ring) { return go_back_around_ring(ring, attended(), kv, gradients); }

  /// The same of tokens that are a sequence by themselves.
  void attend_alone(const Threads& threads) {
    attend_to_block(threads, attended().q, kv, 0, outputs);
  }
  void go_back_alone(const Threads& threads) {
    go_back_through_block(threads, attended(), kv, 0, posenc::bshd(gradients.q), gradients.kv);
  }
};

}  // namespace ring
