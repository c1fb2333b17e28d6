// SPDX-License-Identifier: MIT
#pragma once

#include "cases.hpp"
#include <posenc/kv/cached_attention.hpp>

#include <array>
#include <span>
#include <utility>

namespace bench {

/// Tokens whose keys and values are in a cache of type S.
template <class S>
struct CachedTokens : Tokens {
  using Stored = S;

  CachedTokens(const AttentionModel& m, Index query_count, Index key_count)
      : Tokens(m, query_count, key_count),
        cache({.kv_heads = m.kv_heads, .head_dim = m.head_dim, .capacity = key_count}) {
    cache.append(0, posenc::bshd(std::as_const(k)), posenc::bshd(std::as_const(v)));
  }

  template <class Bias = posenc::NoBias>
  void attend(const Options& options, const Bias& bias = {}) {
    posenc::attention(posenc::bshd(q), cache, std::span<const Index>(sequence), posenc::bshd(out),
                      options, bias, memory());
  }

  std::array<Index, 1> sequence{0};
  posenc::KvCache<S> cache;
};

}  // namespace bench
