// SPDX-License-Identifier: MIT
#pragma once

#include "kv/kv_cache_case.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/kv/kv_cache.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

// New tokens of several sequences of a cache, packed into one batch row.
namespace ragged_test {

using kv_cache_test::at;
using posenc::Causal;
using posenc::Index;
using posenc::KvCache;
using posenc::Positions;
using support::Heads;

/// Options of a call of attention().
struct Variant {
  std::string name;
  Causal causal = Causal::BottomRight;
  bool alibi = false, masks = false, sinks = false, softcap = false, temperature = false;
  bool positions = false;
  double dropout = 0;
  Index window = 0;
  posenc::ReturnedScores returned = posenc::ReturnedScores::Probabilities;
};

inline const std::vector<Variant>& variants() {
  static const std::vector<Variant> all{
      {.name = "causal"},
      {.name = "every key", .causal = Causal::No, .returned = posenc::ReturnedScores::Scaled},
      {.name = "top left", .causal = Causal::TopLeft, .alibi = true},
      {.name = "from a start", .causal = Causal::FromStart, .window = 20},
      {.name = "window, ALiBi and sinks", .alibi = true, .sinks = true, .window = 40},
      {.name = "dropout", .dropout = 0.4},
      {.name = "masks, soft cap",
       .masks = true,
       .softcap = true,
       .returned = posenc::ReturnedScores::Masked},
      {.name = "temperature and positions", .alibi = true, .temperature = true, .positions = true},
      {
          .name = "by position",
          .causal = Causal::ByPosition,
          .positions = true,
          .dropout = 0.2,
          .returned = posenc::ReturnedScores::Capped,
      },
  };
  return all;
}

/// Call of all sequences together, or of each separately.
class Call {
 public:
  static constexpr Index heads = 2 * kv_cache_test::heads, dim = kv_cache_test::dim;
  static constexpr Index value_dim = kv_cache_test::value_dim;

  template <class S>
  Call(const KvCache<S>& cache, const std::vector<Index>& of_cache,
       const std::vector<Index>& counts, std::uint64_t seed)
      : sequences(of_cache), offsets{0}, q(1, 0, heads, dim), out(q) {
    for (const Index n : counts) offsets.push_back(offsets.back() + n);
    total = offsets.back();
    for (const Index sequence : sequences) longest = std::max(longest, cache.length(sequence));
    support::Random random(seed);
    q = Heads<float>::random(random, 1, total, heads, dim);
    out = Heads<float>(1, total, heads, value_dim);
    lse.assign(at(heads * total), 0);
    weights.assign(at(heads * total * longest), 0);
    additive.resize(weights.size());
    random.fill_uniform(std::span<float>(additive), -2, 2);
    keep_ = std::make_unique<bool[]>(at(total * longest));
    for (Index n = 0; n < total * longest; ++n) keep_[at(n)] = random.integer(0, 3) != 0;
    sinks.assign(at(heads), 0.5F);
    for (std::size_t n = 0; n < sequences.size(); ++n) {
      starts.push_back(random.integer(0, 5));
      for (Index i = 0; i < counts[n]; ++i) query_ids.push_back(random.integer(0, 300));
      // Positions are sorted for some sequences, and unsorted for others.
      for (Index j = 0; j < longest; ++j) {
        key_ids.push_back(n % 2 == 0 ? 2 * j : random.integer(0, 300));
      }
    }
  }

  template <class S, class... Device>
  void together(const KvCache<S>& cache, const Variant& variant, const Device&... device) {
    run(cache, sequences, variant, 0, sequences.size(), longest, device...);
  }
  template <class S>
  void one_by_one(const KvCache<S>& cache, const Variant& variant) {
    for (std::size_t n = 0; n < sequences.size(); ++n) {
      if (offsets[n] == offsets[n + 1]) continue;
      run(cache, {sequences[n]}, variant, n, n + 1, cache.length(sequences[n]));
    }
  }

  std::vector<float> results() {
    std::vector<float> all;
    out.for_each([&](float x) { all.push_back(x); });
    all.insert(all.end(), lse.begin(), lse.end());
    all.insert(all.end(), weights.begin(), weights.end());
    return all;
  }

  std::vector<Index> sequences, offsets;
  Index total = 0, longest = 0;
  Heads<float> q, out;
  std::vector<float> lse, weights, additive, sinks;
  std::vector<Index> starts, query_ids, key_ids;

 private:
  /// Runs sequences first .. last - 1, whose keys are limited to `keys`.
  template <class S, class... Device>
  void run(const KvCache<S>& cache, const std::vector<Index>& named, const Variant& variant,
           std::size_t first, std::size_t last, Index keys, const Device&... device) {
    const bool packed = last - first == sequences.size();
    const Index begin = offsets[first], count = offsets[last] - begin;
    std::vector<Index> ids(key_ids.begin() + static_cast<Index>(first) * longest,
                           key_ids.begin() + static_cast<Index>(last) * longest);
    if (!packed) ids.resize(at(keys));
    posenc::AttentionOptions<float> options;
    options.causal = variant.causal;
    if (variant.window != 0) options.window = posenc::sliding_window(variant.window);
    if (variant.causal == Causal::FromStart) {
      options.query_starts = std::span(starts).subspan(first, last - first);
    }
    if (variant.masks) {
      options.keep = kept(begin, count, keys);
      options.additive = {
          additive.data() + begin * longest, 1, heads, count, keys, 0, total * longest, longest, 1};
    }
    if (packed) options.cu_seqlens_q = offsets;
    if (variant.softcap) {
      options.softcap = 3;
      options.softcap_order = posenc::SoftcapOrder::BeforeBias;
    }
    if (variant.temperature) {
      options.temperature = [](double position) { return 1 + std::log1p(position); };
      options.temperature_of = posenc::TemperatureOf::ScaledScores;
    }
    if (variant.sinks) options.sinks = sinks;
    options.dropout = {.probability = variant.dropout, .seed = 5};
    if (variant.positions) {
      options.query_positions = Positions::ids(std::span(query_ids).subspan(at(begin), at(count)));
      options.key_positions = Positions::ids(packed ? static_cast<Index>(named.size()) : 1, ids);
    }
    posenc::AttentionMemory<float> memory;
    memory.lse = {lse.data() + begin, 1, heads, count, heads * total, total, 1};
    memory.weights = {
        weights.data() + begin * longest, 1, heads, count, keys, 0, total * longest, longest, 1};
    memory.returned = variant.returned;
    const auto rows = posenc::slice_seq(q.view(), begin, count);
    const auto results = posenc::slice_seq(out.view(), begin, count);
    if (variant.alibi) {
      posenc::attention(rows, cache, named, results, options,
                        posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Symmetric}),
                        memory, device...);
    } else {
      posenc::attention(rows, cache, named, results, options, {}, memory, device...);
    }
    // Scores of keys that only other sequences have are not in the sequence's own call.
    const bool scores = variant.returned != posenc::ReturnedScores::Probabilities;
    for (Index h = 0; scores && h < heads; ++h) {
      for (Index i = begin; i < begin + count; ++i) {
        std::fill_n(weights.begin() + (h * total + i) * longest + keys, longest - keys,
                    -std::numeric_limits<float>::infinity());
      }
    }
  }

  posenc::ScoresView<const bool> kept(Index begin, Index count, Index keys) const {
    return {keep_.get() + begin * longest, 1, 1, count, keys, 0, 0, longest, 1};
  }

  std::unique_ptr<bool[]> keep_;
};

}  // namespace ragged_test
