// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/tensor/positions.hpp>

#include <cstddef>
#include <vector>

namespace ring {

using posenc::Index;

/// Distribution of tokens over ranks: token p is the n-th of rank p mod ranks, n = p / ranks
/// (striped attention, arXiv 2311.09431).
///
/// A query therefore sees keys of every rank, and nearly as many of each. Query i of rank r sees
/// key j of rank s if s + ranks j <= r + ranks i, that is j <= i if s <= r, and j < i otherwise.
/// That is a plain causal mask for a query 0 that is aligned with key 0 or one before it, and each
/// step of the ring is half a square of work on every rank. Contiguous shares would take twice as
/// long, because in each step some ranks would have a full square of work and others none. Zigzag
/// shares (pieces r and 2 ranks - 1 - r, as in Llama 3's context parallelism) are as balanced, but
/// need two calls per step or a comparison of positions.
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

  /// Returns the key of one rank that is aligned with another rank's query 0: query_starts of
  /// Causal::FromStart.
  static Index place(int of_queries, int of_keys) noexcept {
    return of_keys <= of_queries ? 0 : -1;
  }

  /// Returns the number of visible pairs of all queries of one rank and all keys of another.
  Index pairs(int of_queries, int of_keys) const noexcept {
    const Index queries = count(of_queries);
    return queries * (queries - 1) / 2 + queries * (place(of_queries, of_keys) + 1);
  }
};

}  // namespace ring
