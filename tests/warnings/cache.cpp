// SPDX-License-Identifier: MIT
// kv/: the cache, and attention over it.
#include "tensors.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/int8_per_token_head.hpp>
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/kv/kv_cache_config.hpp>
#include <posenc/kv/kv_format.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>

#include <Eigen/Core>

#include <utility>

using warnings::Index;

template <class T, posenc::KvFormat S = T>
double decode() {
  auto q = warnings::ones<T>(3, 4, 64), y = q;
  auto k = warnings::ones<T>(3, 2, 64), v = k;
  const posenc::KvCacheConfig config{.kv_heads = 2, .head_dim = 64, .capacity = 128};
  posenc::KvCache<S> cache(config), pooled(config, posenc::KvBlockPool({1 << 20}));
  posenc::KvCache<S> ring({.kv_heads = 2, .head_dim = 64, .window = 40, .max_append = 4});
  const Index sequences[] = {0};
  for (auto* each : {&cache, &pooled, &ring}) {
    each->append(sequences, k.view(), v.view());
    posenc::attention(q.view(), *each, sequences, y.view(),
                      {.causal = posenc::Causal::BottomRight});
  }
  const posenc::Alibi alibi({.heads = 4, .form = posenc::AlibiForm::Causal});
  posenc::attention(q.view(), cache, sequences, y.view(), {.causal = posenc::Causal::BottomRight},
                    alibi);
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = 64, .base = 10000});
  cache.erase(0, 0, 1, [&](auto keys) { posenc::shift_keys(keys, rope, {-1}); });
  cache.copy_keys(0, 0, posenc::slice_seq(k.view(), 0, 2), posenc::slice_seq(v.view(), 0, 2));
  cache.truncate(0, 1);
  cache.clear(0);
  return static_cast<double>(y.values[1]) + static_cast<double>(k.values[2]);
}

double use_caches() {
  return decode<float>() + decode<double>() + decode<Eigen::half>() + decode<Eigen::bfloat16>() +
         decode<float, posenc::Int8PerTokenHead>();
}
