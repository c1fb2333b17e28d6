// SPDX-License-Identifier: MIT
#pragma once

#include "support/heads.hpp"
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>

#include <cstddef>
#include <vector>

// Settings of small caches, and accessors to their contents.
namespace kv_cache_test {

using posenc::Index;
using posenc::KvCache;
using posenc::KvCacheConfig;

constexpr Index heads = 2, dim = 5, value_dim = 19;

inline KvCacheConfig full_cache(Index capacity, Index sequences = 1) {
  return {.sequences = sequences,
          .kv_heads = heads,
          .head_dim = dim,
          .value_dim = value_dim,
          .capacity = capacity};
}

inline KvCacheConfig ring(Index window, Index max_append, Index sequences = 1) {
  return {.sequences = sequences,
          .kv_heads = heads,
          .head_dim = dim,
          .value_dim = value_dim,
          .window = window,
          .max_append = max_append};
}

/// Returns a tile as attention reads it.
template <class S>
posenc::detail::KvTile<S> tile_of(const KvCache<S>& cache, Index sequence, Index head, Index tile) {
  posenc::detail::AttentionSequence s{};
  s.begin = cache.first(sequence);
  s.stored = cache.length(sequence);
  return posenc::detail::CacheKvSource<S>(cache, {&sequence, 1}).tile(s, head, tile, {}, {});
}

inline std::size_t at(Index i) { return static_cast<std::size_t>(i); }

template <class S>
std::vector<S> all_of(const KvCache<S>& cache, Index sequence) {
  const Index n = cache.length(sequence) - cache.first(sequence);
  support::Heads<S> k(1, n, heads, dim), v(1, n, heads, value_dim);
  cache.copy_keys(sequence, cache.first(sequence), k.view(), v.view());
  std::vector<S> all;
  k.for_each([&](S x) { all.push_back(x); });
  v.for_each([&](S x) { all.push_back(x); });
  return all;
}

inline const auto nothing = [](auto) {};

}  // namespace kv_cache_test
