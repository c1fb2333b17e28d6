// SPDX-License-Identifier: MIT
#pragma once

#include "memory/without_memory.hpp"
#include <posenc/kv/kv_cache.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

// Caches with keys, and their contents as numbers to compare.
namespace memory_test {

using posenc::KvCache;

inline constexpr Index heads = 4, kv_heads = 2, dim = 8;

/// Appends the range and the contents of each sequence to `all`.
template <class S>
void append_numbers(std::vector<float>& all, const KvCache<S>& cache) {
  for (Index sequence = 0; sequence < cache.sequences(); ++sequence) {
    const Index first = cache.first(sequence), n = cache.length(sequence) - first;
    all.push_back(static_cast<float>(first));
    all.push_back(static_cast<float>(n));
    std::vector<float> k(static_cast<std::size_t>(n * cache.kv_heads() * cache.head_dim()));
    std::vector<float> v(static_cast<std::size_t>(n * cache.kv_heads() * cache.value_dim()));
    cache.copy_keys(sequence, first, heads_view(k.data(), 1, n, cache.kv_heads(), cache.head_dim()),
                    heads_view(v.data(), 1, n, cache.kv_heads(), cache.value_dim()));
    all.insert(all.end(), k.begin(), k.end());
    all.insert(all.end(), v.begin(), v.end());
  }
}

/// Returns a cache whose sequence s holds length + s keys, appended `chunk` per call.
template <class S>
KvCache<S> filled(const posenc::KvCacheConfig& config, Index length, Index chunk) {
  KvCache<S> cache(config);
  const auto k = numbers(chunk * config.kv_heads * config.head_dim, 3);
  const auto x = heads_view(k.data(), 1, chunk, config.kv_heads, config.head_dim);
  for (Index sequence = 0; sequence < config.sequences; ++sequence) {
    for (Index n = 0; n < length + sequence; n += chunk) {
      const auto part = posenc::slice_seq(x, 0, std::min(chunk, length + sequence - n));
      cache.append(sequence, part, part);
    }
  }
  return cache;
}

inline constexpr posenc::KvCacheConfig plain{
    .sequences = 2, .kv_heads = kv_heads, .head_dim = dim, .capacity = 600};
inline constexpr posenc::KvCacheConfig ring{
    .sequences = 2, .kv_heads = kv_heads, .head_dim = dim, .window = 100, .max_append = 140};

/// Cache and output of a call.
template <class S>
struct Session {
  KvCache<S> cache;
  std::vector<float> out;
};

template <class S>
std::vector<float> state_of(const Session<S>& session) {
  std::vector<float> all = session.out;
  append_numbers(all, session.cache);
  return all;
}

}  // namespace memory_test
