// SPDX-License-Identifier: MIT
// A user's cache format, 8 bits with a scale per block, works with attention through a user's KV
// source.
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/kv/cached_attention.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace scaled_cache_test {

using posenc::HeadsView;
using posenc::Index;
using support::Heads;

namespace {

namespace inside = posenc::detail;

/// Rows of 8-bit numbers with a scale per block of 8 numbers.
class ScaledRows {
 public:
  ScaledRows(Index rows, Index dim)
      : dim_(dim), numbers_(at(rows * dim)), scales_(at(rows * blocks())) {}

  Index dim() const noexcept { return dim_; }

  void write(Index row, const float* x) noexcept {
    for (Index b = 0; b < blocks(); ++b) {
      const Index begin = b * block, end = (std::min)(dim_, begin + block);
      float most = 1e-9F;
      for (Index d = begin; d < end; ++d) most = (std::max)(most, std::abs(x[d]));
      const float scale = most / 127;
      scales_[at(row * blocks() + b)] = scale;
      for (Index d = begin; d < end; ++d) {
        // A block with a value that is not finite decodes to values that are not finite.
        const float number = x[d] / scale;
        numbers_[at(row * dim_ + d)] =
            static_cast<std::int8_t>(std::isfinite(number) ? std::lrint(number) : 1);
      }
    }
  }
  void read(Index row, float* x) const noexcept {
    for (Index d = 0; d < dim_; ++d) {
      x[d] = static_cast<float>(numbers_[at(row * dim_ + d)]) *
             scales_[at(row * blocks() + d / block)];
    }
  }

 private:
  static constexpr Index block = 8;
  static std::size_t at(Index n) noexcept { return static_cast<std::size_t>(n); }
  Index blocks() const noexcept { return (dim_ + block - 1) / block; }

  Index dim_;
  std::vector<std::int8_t> numbers_;
  std::vector<float> scales_;
};

/// Cache with the members that write_tokens() and check_cache() need.
struct ScaledCache {
  explicit ScaledCache(const posenc::KvCacheConfig& config)
      : ranges(config),
        kv_heads_(config.kv_heads),
        k(rows(config), config.head_dim),
        v(rows(config), config.value_dim) {}

  Index sequences() const noexcept { return ranges.sequences(); }
  Index heads() const noexcept { return kv_heads_; }
  Index kv_heads() const noexcept { return kv_heads_; }
  Index dim() const noexcept { return k.dim(); }
  Index head_dim() const noexcept { return k.dim(); }
  Index value_dim() const noexcept { return v.dim(); }
  Index length(Index sequence) const noexcept { return ranges[sequence].end; }

  static Index rows(const posenc::KvCacheConfig& config) {
    return config.sequences * config.kv_heads * inside::cache_capacity(config);
  }
  Index row(Index sequence, Index head, Index key) const noexcept {
    return (sequence * kv_heads_ + head) * ranges.limits().capacity + key;
  }

  void write_keys(Index sequence, Index head, Index first, HeadsView<const float> x) noexcept {
    for (Index h = 0; h < x.heads; ++h) {
      for (Index s = 0; s < x.seq; ++s) {
        k.write(row(sequence, head + h, first + s), x.row(0, s, h));
      }
    }
  }
  void write_values(Index sequence, Index head, Index first, HeadsView<const float> x) noexcept {
    for (Index h = 0; h < x.heads; ++h) {
      for (Index s = 0; s < x.seq; ++s) {
        v.write(row(sequence, head + h, first + s), x.row(0, s, h));
      }
    }
  }

  void append(std::span<const Index> to, HeadsView<const float> keys,
              HeadsView<const float> values) {
    const inside::RaggedBatch runs{to, {}, keys.seq};
    inside::check_tokens("append", *this, runs.batch(), keys, values);
    ranges.check_append("append", runs);
    inside::write_tokens(
        inside::CallingThread(), *this, runs, keys, values,
        [&](Index n) { return length(runs.sequence(n)); }, [](Index, Index) { return true; });
    for (const Index sequence : to)
      ranges[sequence] = ranges.range_after_append(sequence, keys.seq);
  }

  inside::KvRanges ranges;
  Index kv_heads_;
  ScaledRows k, v;
};

/// KV source that converts tiles to floats.
template <class Tier>
class ScaledKeys {
 public:
  using Element = float;
  using Stored = float;
  struct Scratch {
    float *rows, *keys, *values;
  };

  ScaledKeys(const ScaledCache& cache, std::span<const Index> sequences)
      : cache_(cache), sequences_(sequences) {}

  Index heads() const noexcept { return cache_.kv_heads(); }
  inside::StoredKeyRanges stored() const noexcept { return {cache_.ranges.data(), sequences_}; }
  Scratch allocate(inside::ArenaAllocator& allocator) const noexcept {
    return {allocator.allocate<float>(inside::panel_lanes * cache_.head_dim()),
            allocator.allocate<float>(inside::tile_keys * cache_.head_dim()),
            allocator.allocate<float>(inside::tile_keys * value_stride())};
  }

  inside::KvTile<float> tile(const inside::AttentionSequence& s, Index head, Index tile,
                             const inside::KeyRange&, const Scratch& scratch) const noexcept {
    const Index dim = cache_.head_dim(), lanes = inside::panel_lanes;
    const Index first = cache_.row(sequences_[static_cast<std::size_t>(s.kv_index)], head,
                                   tile * inside::tile_keys);
    std::fill_n(scratch.values, inside::tile_keys * value_stride(), 0.0F);
    for (Index j = 0; j < inside::tile_keys; ++j) {
      cache_.k.read(first + j, scratch.rows + j % lanes * dim);
      cache_.v.read(first + j, scratch.values + j * value_stride());
      if (j % lanes != lanes - 1) continue;
      inside::pack_panel<Tier>(scratch.rows, dim, 0, lanes, dim,
                               scratch.keys + j / lanes * lanes * dim);
    }
    const bool finite =
        inside::all_finite<Tier>(scratch.values, inside::tile_keys * value_stride());
    return {scratch.keys, scratch.values, value_stride(), finite, scratch.keys};
  }

 private:
  Index value_stride() const noexcept { return inside::padded_value_dim(cache_.value_dim()); }

  const ScaledCache& cache_;
  std::span<const Index> sequences_;
};

}  // namespace

TEST_CASE("KvCache: an 8-bit cache with scales attends as a cache of its decoded floats",
          "[attention][source]") {
  constexpr Index keys = 150, kv_heads = 2, heads = 4, dim = 20, value_dim = 9, queries = 3;
  using Tier = posenc::tier::Best;
  support::Random random(5);
  auto k = Heads<float>::random(random, 2, keys, kv_heads, dim);
  auto v = Heads<float>::random(random, 2, keys, kv_heads, value_dim);
  auto q = Heads<float>::random(random, 2, queries, heads, dim);
  // Visible to the last query alone.
  v.view().row(0, keys - 1, 0)[3] = std::numeric_limits<float>::infinity();
  const posenc::KvCacheConfig config{.sequences = 2,
                                     .kv_heads = kv_heads,
                                     .head_dim = dim,
                                     .value_dim = value_dim,
                                     .capacity = 256};
  const std::vector<Index> sequences{1, 0};
  ScaledCache scaled(config);
  scaled.append(sequences, k.view(), v.view());

  Heads<float> rounded_k = k, rounded_v = v;
  for (Index b = 0; b < 2; ++b) {
    for (Index s = 0; s < keys; ++s) {
      for (Index h = 0; h < kv_heads; ++h) {
        const Index row = scaled.row(sequences[static_cast<std::size_t>(b)], h, s);
        scaled.k.read(row, rounded_k.view().row(b, s, h));
        scaled.v.read(row, rounded_v.view().row(b, s, h));
      }
    }
  }
  posenc::KvCache<float> exact(config);
  exact.append(sequences, rounded_k.view(), rounded_v.view());

  posenc::AttentionOptions<float> options;
  options.causal = posenc::Causal::BottomRight;
  const posenc::Alibi bias({.heads = heads, .form = posenc::AlibiForm::Causal});
  Heads<float> expected(2, queries, heads, value_dim), out = expected;
  attention(q.view(), exact, sequences, expected.view(), options, bias);
  const Index longest =
      inside::check_cache<float>("attention", q.view(), scaled, sequences, out.view(), options);
  inside::attend<Tier, float>(inside::ErasedDevice(inside::CallingThread()), q.view(),
                              ScaledKeys<Tier>(scaled, sequences), longest, value_dim, out.view(),
                              options, inside::ErasedBias<float>(bias), {}, {});
  CHECK(support::same_bits(out.view(), expected.view()));
  CHECK(longest == keys);
  for (Index d = 0; d < value_dim; ++d) CHECK(std::isfinite(out.view().row(0, queries - 2, 0)[d]));
  CHECK_FALSE(std::isfinite(out.view().row(0, queries - 1, 0)[3]));
}

}  // namespace scaled_cache_test
