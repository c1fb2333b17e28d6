// SPDX-License-Identifier: MIT
#pragma once

#include "go_back.hpp"

#include <utility>

namespace ring {

/// Data of a rank for some tokens, with the results.
struct Share {
  Heads queries, grad_out;
  KeysAndValues kv;
  Outputs outputs;
  Gradients gradients;

  /// Fills queries, keys and values; outputs and gradients are uninitialised.
  Share(const Rope& rope, const Layer& layer, const posenc::Positions& positions);

  Attended attended() noexcept {
    return {posenc::bshd(std::as_const(queries)), outputs, posenc::bshd(std::as_const(grad_out))};
  }

  /// Attends to the keys of all ranks.
  ///   Throws: LateRank, MpiError
  Spent attend(const Ring& ring) { return attend_around_ring(ring, attended().q, kv, outputs); }
  Spent go_back(const Ring& ring) { return go_back_around_ring(ring, attended(), kv, gradients); }

  /// Attends to these tokens alone, as a complete sequence.
  void attend_alone(const Threads& threads) {
    attend_to_block(threads, attended().q, kv, 0, outputs);
  }
  void go_back_alone(const Threads& threads) {
    go_back_through_block(threads, attended(), kv, 0, posenc::bshd(gradients.q), gradients.kv);
  }
};

}  // namespace ring
