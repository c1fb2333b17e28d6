// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/tensor/positions.hpp>

#include <cstddef>
#include <vector>

namespace ring {

using posenc::Index;

/// Which tokens are whose: token p is the n-th of rank p mod ranks, n = p / ranks (striped attention, arXiv
/// 2311.09431).
///
/// So a query sees keys of every rank, and of every rank nearly as many: query i of rank r sees key j of rank s
/// where s + ranks j <= r + ranks i, which is j <= i where s <= r and j < i elsewhere. That is a plain causal mask
/// for a query 0 that stands at key 0 or one before it, and each step of the ring is half a square of work on every
/// rank. Contiguous shares would take twice as long, since in each step some ranks would have a whole square to do
/// and others nothing. Zigzag shares (pieces r and 2 ranks - 1 - r, as in Llama 3's context parallelism) are as
/// balanced, but ask for two calls a step or for positions to be compared.
struct Stripes {
  Index tokens;
  int ranks;

  Index count(int rank) const noexcept { return (tokens - rank + ranks - 1) / ranks; }
  Index position(int rank, Index n) const noexcept { return rank + n * ranks; }

  posenc::Positions positions(int rank) const {
    std::vector<Index> ids;
    ids.reserve(static_cast<std::size_t>(count(rank)));
    for (Index n = 0; n < count(rank); ++n) ids.push_back(position(rank, n));
    return posenc::Positions::ids(ids);
  }

  /// The key of one rank at which another rank's query 0 stands: query_starts of Causal::FromStart.
  static Index place(int of_queries, int of_keys) noexcept {
    return of_keys <= of_queries ? 0 : -1;
  }

  /// How many keys of one rank all queries of another see, together.
  Index pairs(int of_queries, int of_keys) const noexcept {
    const Index queries = count(of_queries);
    return queries * (queries - 1) / 2 + queries * (place(of_queries, of_keys) + 1);
  }
};

}  // namespace ring
