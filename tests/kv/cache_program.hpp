// SPDX-License-Identifier: MIT
#pragma once

#include "attention/key_place.hpp"
#include "kv_cache_case.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/kv/kv_cache.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

// Random calls of a cache beside a plain list of its rows.
namespace kv_cache_test {

template <class S, class T>
S stored(T x) {
  return static_cast<S>(static_cast<posenc::Compute<T>>(x));
}

/// Reference model of one sequence: keys and values in rows, rounded to S.
template <class S>
struct Model {
  using Row = std::array<std::vector<S>, 2 * heads>;  ///< key and value of each head
  std::vector<Row> rows;
  Index first = 0;  ///< oldest key that must be stored

  Index length() const { return static_cast<Index>(rows.size()); }

  template <class T>
  void append(posenc::HeadsView<T> k, posenc::HeadsView<T> v, Index b = 0) {
    for (Index s = 0; s < k.seq; ++s) {
      Row row;
      for (Index h = 0; h < heads; ++h) {
        for (Index d = 0; d < dim; ++d) row[at(2 * h)].push_back(stored<S>(k.row(b, s, h)[d]));
        for (Index d = 0; d < value_dim; ++d) {
          row[at(2 * h + 1)].push_back(stored<S>(v.row(b, s, h)[d]));
        }
      }
      rows.push_back(row);
    }
  }
};

/// True if the tiles of a sequence equal the model, each number at the address that kernels read.
/// Values after the last key must be zero in its panel, and the flag of non-finite values must be
/// right. With `has_pool` the last tile may be shared: values that truncate() removed stay in it
/// then, and the flag must be set if one of them is not finite, but may be set without one.
template <class S>
bool tiles_match(const KvCache<S>& cache, Index sequence, const Model<S>& model,
                 bool has_pool = false) {
  using namespace posenc::detail;
  bool right = cache.length(sequence) == model.length() && cache.first(sequence) == model.first;
  for (Index h = 0; h < heads; ++h) {
    for (Index t = model.first / tile_keys; t * tile_keys < model.length(); ++t) {
      const KvTile<S> tile = tile_of(cache, sequence, h, t);
      bool finite = true;
      right &= tile.value_stride == padded_value_dim(value_dim);
      const Index panels = (model.length() - t * tile_keys + panel_lanes - 1) / panel_lanes;
      for (Index r = 0; r < std::min(panels, tile_panels) * panel_lanes; ++r) {
        const Index j = t * tile_keys + r;
        const bool there = j < model.length(), may_be_stale = has_pool && !there;
        for (Index d = 0; d < tile.value_stride; ++d) {
          const S got = tile.values[r * tile.value_stride + d];
          const S want = there && d < value_dim ? model.rows[at(j)][at(2 * h + 1)][at(d)]
                                                : static_cast<S>(0.0F);
          right &= may_be_stale || support::same_bits(&got, &want, 1);
          finite &= std::isfinite(support::to_double(got));
        }
        for (Index d = 0; there && d < dim; ++d) {
          const S* block = tile.keys + r / panel_lanes * panel_lanes * packed_dim<S>(dim);
          const S* key = block + attention_test::place<S>(r % panel_lanes, d);
          right &= support::same_bits(key, &model.rows[at(j)][at(2 * h)][at(d)], 1);
        }
      }
      right &= tile.finite == finite || (has_pool && finite);
    }
  }
  return right;
}

template <class S>
bool copies_match(const KvCache<S>& cache, Index sequence, Index first, Index count,
                  const Model<S>& model, support::Layout layout = {}) {
  support::Heads<S> k(1, count, heads, dim, layout), v(1, count, heads, value_dim, layout);
  cache.copy_keys(sequence, first, k.view(), v.view());
  bool right = k.surroundings_kept() && v.surroundings_kept();
  for (Index i = 0; i < count; ++i) {
    for (Index h = 0; h < heads; ++h) {
      const auto& row = model.rows[at(first + i)];
      right &= support::same_bits<S>(k.view().row(0, i, h), row[at(2 * h)].data(), dim);
      right &= support::same_bits<S>(v.view().row(0, i, h), row[at(2 * h + 1)].data(), value_dim);
    }
  }
  return right;
}

enum class CacheKind { Full, Ring, Pooled };

/// A cache of three sequences, and a Model of each.
template <class S>
class CacheProgram {
 public:
  enum class Call { AppendOne, Append, AppendTwo, AppendTooMany, Truncate, Copy, Erase, Clear };

  explicit CacheProgram(CacheKind kind) : kind_(kind), cache_(make(kind)) {}

  /// Makes a random call, on the cache and on the models.
  Call run_step(support::Random& random) {
    const Index sequence = random.integer(0, sequences - 1);
    // Appends are the most frequent, so that sequences grow.
    constexpr std::array calls{Call::AppendOne,     Call::Append,    Call::Append,   Call::Append,
                               Call::Append,        Call::AppendTwo, Call::Truncate, Call::Copy,
                               Call::AppendTooMany, Call::Erase,     Call::Clear};
    const Call call = calls[at(random.integer(0, Index{calls.size()} - 1))];
    Model<S>& model = models_[at(sequence)];
    switch (call) {
      case Call::AppendOne:
        append(random, {sequence}, 1);
        break;
      case Call::Append:
        append(random, {sequence}, max_append);
        break;
      case Call::AppendTwo:  // in reverse order
        append(random, {(sequence + 2) % sequences, (sequence + 1) % sequences}, max_append);
        break;
      case Call::AppendTooMany:
        fail_to_append(random, sequence);
        break;
      case Call::Truncate: {
        const Index length = random.integer(model.first, model.length());
        cache_.truncate(sequence, length);
        model.rows.resize(at(length));
        break;
      }
      case Call::Copy: {
        const Index to = random.integer(0, sequences - 1);
        cache_.copy(sequence, to);
        models_[at(to)] = Model<S>(model);
        break;
      }
      case Call::Erase: {
        if (is_ring()) break;
        const Index first = random.integer(0, model.length());
        const Index count = random.integer(0, model.length() - first);
        cache_.erase(sequence, first, count, nothing);
        model.rows.erase(model.rows.begin() + first, model.rows.begin() + first + count);
        break;
      }
      case Call::Clear:
        if (random.integer(0, 3) != 0) break;
        cache_.clear(sequence);
        model = {};
        break;
    }
    return call;
  }

  /// True if the cache holds what the models hold: all tiles, and copies of random keys.
  bool matches(support::Random& random) const {
    for (Index n = 0; n < sequences; ++n) {
      if (!tiles_match(cache_, n, models_[at(n)], kind_ == CacheKind::Pooled)) return false;
    }
    const Index sequence = random.integer(0, sequences - 1);
    const Model<S>& model = models_[at(sequence)];
    const Index first = random.integer(model.first, model.length());
    return copies_match(cache_, sequence, first, model.length() - first, model);
  }

 private:
  static constexpr Index sequences = 3, max_append = 150;

  bool is_ring() const { return kind_ == CacheKind::Ring; }

  static KvCache<S> make(CacheKind kind) {
    if (kind == CacheKind::Ring) return KvCache<S>(ring(200, max_append, sequences));
    const KvCacheConfig full = full_cache(700, sequences);
    return kind == CacheKind::Full ? KvCache<S>(full)
                                   : KvCache<S>(full, posenc::KvBlockPool({1 << 22}));
  }

  void append(support::Random& random, const std::vector<Index>& ids, Index most) {
    if (!is_ring()) {
      for (const Index id : ids)
        most = std::min(most, cache_.capacity() - models_[at(id)].length());
    }
    const auto batch = static_cast<Index>(ids.size());
    const Index n = random.integer(0, most);
    support::Random numbers(static_cast<std::uint64_t>(random.integer(0, 255)));
    auto k = support::Heads<S>::random(numbers, batch, n, heads, dim);
    auto v = support::Heads<S>::random(numbers, batch, n, heads, value_dim);
    if (n > 0 && random.integer(0, 3) == 0) {
      v.view().row(0, n / 2, 1)[17] = std::numeric_limits<S>::infinity();
    }
    if (batch == 1) {
      cache_.append(ids.front(), k.view(), v.view());
    } else {
      cache_.append(ids, k.view(), v.view());
    }
    for (Index b = 0; b < batch; ++b) {
      Model<S>& model = models_[at(ids[at(b)])];
      model.append(k.view(), v.view(), b);
      const Index end_of_tile = (model.length() + 127) / 128 * 128;
      model.first = std::max(model.first, end_of_tile - cache_.capacity());
    }
  }

  /// Appends one key more than there is room for, which must throw and change nothing.
  void fail_to_append(support::Random& random, Index sequence) {
    const Index room = is_ring() ? max_append : cache_.capacity() - models_[at(sequence)].length();
    auto k = support::Heads<S>::random(random, 1, room + 1, heads, dim);
    auto v = support::Heads<S>::random(random, 1, room + 1, heads, value_dim);
    try {
      cache_.append(sequence, k.view(), v.view());
    } catch (const posenc::ShapeError&) {
      return;
    }
    models_[at(sequence)] = {};  // so that matches() fails
    models_[at(sequence)].first = 1;
  }

  CacheKind kind_;
  KvCache<S> cache_;
  std::array<Model<S>, sequences> models_;
};

}  // namespace kv_cache_test
