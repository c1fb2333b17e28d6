// SPDX-License-Identifier: MIT
#include "attention.hpp"
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>

#include <Eigen/Core>

#include <algorithm>

namespace bits {
namespace {

/// Appends tokens in chunks; the queries of a chunk attend to the keys that the cache then has.
template <class T, class S>
void report_cache(const std::string& name, const Shape& shape, const posenc::KvCacheConfig& config,
                  Index piece, void (*fill)(Call<T>&)) {
  Call<T> c(shape, 5);
  fill(c);
  c.memory.lse = {};
  posenc::KvCache<S> cache(config);
  std::vector<Index> sequences;
  for (Index b = 0; b < shape.batch; ++b) sequences.push_back(shape.batch - 1 - b);
  Hash hash;
  const auto step = [&](Index first, Index count) {
    cache.append(sequences, c.k.tokens(first, count), c.v.tokens(first, count));
    auto q = c.q.tokens(first, count), out = c.out.tokens(first, count);
    if (c.bias) {
      posenc::attention(q, cache, sequences, out, c.options, *c.bias, c.memory, Threads{});
    } else {
      posenc::attention(q, cache, sequences, out, c.options, {}, c.memory, Threads{});
    }
  };
  for (Index first = 0; first < shape.queries; first += piece) {
    step(first, (std::min)(piece, shape.queries - first));
  }
  hash.add(c.out.values);
  // The cache after a rejected token, and its contents.
  for (const Index sequence : sequences) cache.truncate(sequence, cache.length(sequence) - 2);
  step(shape.queries - 2, 2);
  hash.add(c.out.values);
  const Index oldest = cache.first(0);
  Heads<T> k(1, cache.length(0) - oldest, shape.kv_heads, shape.dim);
  Heads<T> v(1, cache.length(0) - oldest, shape.kv_heads, shape.value_dim);
  cache.copy_keys(0, oldest, k.view(), v.view());
  hash.add(k.values);
  hash.add(v.values);
  report("kv/" + name, hash);
  Hash contents;
  contents.add(k.values);
  contents.add(v.values);
  report("kv/" + name + "/contents", contents);
}

template <class T, class S>
void report_caches(const std::string& types, Index pair) {
  const Shape shape{"", 2, 6, 2, 290, 290, 19, 21};
  const posenc::KvCacheConfig config{
      .sequences = 2, .kv_heads = 2, .head_dim = 19, .value_dim = 21, .capacity = 300};
  const posenc::KvCacheConfig ring{.sequences = 2,
                                   .kv_heads = 2,
                                   .head_dim = 19,
                                   .value_dim = 21,
                                   .window = 40,
                                   .max_append = 8};
  // Each case is run by two of the six pairs of types.
  Index number = 0;
  const auto report_one = [&](const std::string& name, const posenc::KvCacheConfig& of_cache,
                              Index piece, void (*fill)(Call<T>&)) {
    if (number++ % 3 == pair % 3)
      report_cache<T, S>(types + "/" + name, shape, of_cache, piece, fill);
  };
  report_one("tokens", config, 1, [](Call<T>&) {});
  report_one("pieces", config, 53, [](Call<T>& c) { c.sinks(); });
  report_one("biased", config, 29, [](Call<T>& c) {
    c.slope();
    c.dropout();
    c.softcap(posenc::SoftcapOrder::AfterBias);
  });
  report_one("ring", ring, 6, [](Call<T>& c) { c.options.window = posenc::sliding_window(40); });
  report_one("ring_alibi", ring, 1, [](Call<T>& c) {
    c.options.window = posenc::sliding_window(30);
    c.alibi();
  });
  report_one("infinity", config, 31, [](Call<T>& c) {
    c.options.window = posenc::sliding_window(20);
    c.put(3, std::numeric_limits<double>::infinity());
    c.put(170, -std::numeric_limits<double>::infinity());
  });
}

template <class T, class S>
void report_caches_of(const std::string& names, Index pair) {
  if constexpr (takes<T> && takes<S>) report_caches<T, S>(names, pair);
}

}  // namespace

void report_all_caches() {
  report_caches_of<float, float>("float_in_float", 0);
  report_caches_of<float, Eigen::half>("float_in_half", 1);
  report_caches_of<float, Eigen::bfloat16>("float_in_bfloat16", 2);
  report_caches_of<double, double>("double_in_double", 3);
  report_caches_of<Eigen::half, Eigen::half>("half_in_half", 4);
  report_caches_of<Eigen::bfloat16, Eigen::bfloat16>("bfloat16_in_bfloat16", 5);
}

}  // namespace bits
