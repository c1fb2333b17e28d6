// SPDX-License-Identifier: MIT
#include "measure.hpp"

#include <algorithm>
#include <utility>

namespace ring {
namespace {

using Clock = std::chrono::steady_clock;

/// A rank's share of tokens, and room for what they attend to.
struct Share {
  Heads q;
  KeysAndValues kv;
  Outputs outputs;

  Share(const Rope& rope, const Layer& layer, const posenc::Positions& positions)
      : q(1, positions.count(), layer.heads, layer.head_dim),
        kv(layer, positions.count()),
        outputs(layer, positions.count()) {
    fill_queries(rope, positions, posenc::bshd(q));
    fill_keys_and_values(rope, positions, kv);
  }
};

}  // namespace

double measure_rate(const Rope& rope, const Layer& layer, const Threads& threads, Index tokens) {
  const Stripes stripes{.tokens = (std::min)(tokens, Index{2048}), .ranks = 1};
  Share share(rope, layer, stripes.positions(0));
  Seconds taken{};
  int passes = 0;
  for (; passes < 3 || taken < Seconds(0.3); ++passes) {
    const auto begin = Clock::now();
    attend_to_block(threads, posenc::bshd(std::as_const(share.q)), share.kv, 0, share.outputs);
    taken += Clock::now() - begin;
  }
  return static_cast<double>(passes * stripes.pairs(0, 0) * layer.pair_operations()) /
         taken.count();
}

Seconds measure_empty_step(const Process& process, const Rope& rope, const Layer& layer,
                           const Threads& threads, Seconds limit) {
  const Stripes stripes{.tokens = process.ranks(), .ranks = process.ranks()};
  Share share(rope, layer, stripes.positions(process.rank()));
  Seconds shortest = Seconds::max();
  for (int pass = 0; pass < 10; ++pass) {
    const auto begin = Clock::now();
    attend_around_ring(process, stripes, layer, threads, limit,
                       posenc::bshd(std::as_const(share.q)), share.kv, share.outputs);
    shortest = (std::min)(shortest, Seconds(Clock::now() - begin));
  }
  return shortest / process.ranks();
}

}  // namespace ring
