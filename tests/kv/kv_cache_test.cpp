// SPDX-License-Identifier: MIT
// Contents of a cache: appended keys and values come back, after any sequence of calls.
#include "attention/key_place.hpp"
#include "kv_cache_case.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include "support/sampled.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/positions.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace kv_cache_test {

using posenc::HeadsView;
using posenc::Index;
using posenc::KvCache;
using posenc::KvCacheConfig;
using support::Heads;
using support::to_double;

namespace {

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
  void append(HeadsView<T> k, HeadsView<T> v, Index b = 0) {
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

bool is_finite(double x) { return std::isfinite(x); }

/// True if the tiles of a sequence equal the model, each number at the address that kernels read.
/// Values after the last key must be zero in its panel, and the flag of non-finite values must be
/// right.
template <class S>
bool tiles_match(const KvCache<S>& cache, Index sequence, const Model<S>& model) {
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
        const bool there = j < model.length();
        for (Index d = 0; d < tile.value_stride; ++d) {
          const S got = tile.values[r * tile.value_stride + d];
          const S want = there && d < value_dim ? model.rows[at(j)][at(2 * h + 1)][at(d)]
                                                : static_cast<S>(0.0F);
          right &= support::same_bits(&got, &want, 1);
          finite &= is_finite(to_double(got));
        }
        for (Index d = 0; there && d < dim; ++d) {
          const S* block = tile.keys + r / panel_lanes * panel_lanes * packed_dim<S>(dim);
          const S* key = block + attention_test::place<S>(r % panel_lanes, d);
          right &= support::same_bits(key, &model.rows[at(j)][at(2 * h)][at(d)], 1);
        }
      }
      right &= tile.finite == finite;
    }
  }
  return right;
}

template <class S>
bool copies_match(const KvCache<S>& cache, Index sequence, Index first, Index count,
                  const Model<S>& model, support::Layout layout = {}) {
  Heads<S> k(1, count, heads, dim, layout), v(1, count, heads, value_dim, layout);
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

/// Test case of a cache that stores S and gets elements of T.
template <class StoredAs, class Element>
struct Given {
  using S = StoredAs;
  using T = Element;
};

}  // namespace

TEMPLATE_TEST_CASE("appended keys and values can be copied out", "[attention][cache]",
                   (Given<float, float>), (Given<double, double>),
                   (Given<Eigen::half, Eigen::half>), (Given<Eigen::bfloat16, Eigen::bfloat16>),
                   (Given<Eigen::half, float>), (Given<Eigen::bfloat16, float>),
                   (Given<float, Eigen::half>), (Given<float, Eigen::bfloat16>),
                   (Given<Eigen::bfloat16, Eigen::half>)) {
  using S = typename TestType::S;
  using T = typename TestType::T;
  support::Random random(1);
  for (const support::Layout& layout : support::layouts()) {
    KvCache<S> cache(full_cache(300));
    REQUIRE(cache.capacity() == 384);
    Model<S> model;
    for (const Index n : {1, 1, 31, 7, 100, 128, 3}) {
      auto k = Heads<T>::random(random, 1, n, heads, dim, layout);
      auto v = Heads<T>::random(random, 1, n, heads, value_dim, layout);
      cache.append(0, k.view(), v.view());
      model.append(k.view(), v.view());
      INFO(layout.name << ", length " << model.length());
      REQUIRE(tiles_match(cache, 0, model));
    }
    CHECK(copies_match(cache, 0, 0, model.length(), model, layout));
    CHECK(copies_match(cache, 0, 30, 101, model, layout));
    CHECK(copies_match(cache, 0, 127, 1, model, layout));
    CHECK(copies_match(cache, 0, model.length(), 0, model));
    // Copies to the element type that was appended: T holds each S exactly, or S was rounded from
    // T.
    Heads<T> k(1, 5, heads, dim), v(1, 5, heads, value_dim);
    cache.copy_keys(0, 125, k.view(), v.view());
    const S first = model.rows[125][0][0];
    CHECK(to_double(k.view().row(0, 0, 0)[0]) == to_double(stored<T>(first)));
  }
}

TEMPLATE_TEST_CASE("any mixture of calls gives the contents of a plain list", "[attention][cache]",
                   float, double, Eigen::half, Eigen::bfloat16) {
  using S = TestType;
  support::Random random(4);
  const Index sequences = 3, max_append = 150;
  for (const bool is_ring : {false, true}) {
    KvCache<S> cache(is_ring ? ring(200, max_append, sequences) : full_cache(700, sequences));
    std::vector<Model<S>> models(at(sequences));
    for (unsigned step = 0; step < support::sampled(400); ++step) {
      const Index sequence = random.integer(0, sequences - 1);
      Model<S>& model = models[at(sequence)];
      const auto what = random.integer(0, 9);
      if (what <= 5) {
        const bool all = what == 5;  // the two other sequences, in reverse order
        const Index batch = all ? 2 : 1;
        Index room = max_append;
        std::vector<Index> ids{sequence};
        if (all) ids = {(sequence + 2) % sequences, (sequence + 1) % sequences};
        for (const Index id : ids) {
          if (!is_ring) room = std::min(room, cache.capacity() - models[at(id)].length());
        }
        const Index n = random.integer(0, what == 0 ? std::min(room, Index{1}) : room);
        auto k = Heads<S>::random(random, batch, n, heads, dim);
        auto v = Heads<S>::random(random, batch, n, heads, value_dim);
        if (n > 0 && random.integer(0, 3) == 0) {
          v.view().row(0, n / 2, 1)[17] = std::numeric_limits<S>::infinity();
        }
        if (all) {
          cache.append(ids, k.view(), v.view());
        } else {
          cache.append(sequence, k.view(), v.view());
        }
        for (Index b = 0; b < batch; ++b) {
          Model<S>& appended = models[at(ids[at(b)])];
          appended.append(k.view(), v.view(), b);
          const Index begun = (appended.length() + 127) / 128 * 128;
          appended.first = std::max(appended.first, begun - cache.capacity());
        }
      } else if (what == 6) {
        const Index length = random.integer(model.first, model.length());
        cache.truncate(sequence, length);
        model.rows.resize(at(length));
      } else if (what == 7) {
        const Index to = random.integer(0, sequences - 1);
        cache.copy(sequence, to);
        models[at(to)] = Model<S>(model);
      } else if (what == 8 && !is_ring) {
        const Index first = random.integer(0, model.length());
        const Index count = random.integer(0, model.length() - first);
        cache.erase(sequence, first, count, nothing);
        model.rows.erase(model.rows.begin() + first, model.rows.begin() + first + count);
      } else if (what == 9 && random.integer(0, 3) == 0) {
        cache.clear(sequence);
        model = {};
      }
      for (Index n = 0; n < sequences; ++n) {
        INFO("step " << step << ", call " << what << ", sequence " << n);
        REQUIRE(tiles_match(cache, n, models[at(n)]));
      }
      const Index first = random.integer(model.first, model.length());
      REQUIRE(copies_match(cache, sequence, first, model.length() - first, model));
    }
  }
}

TEMPLATE_TEST_CASE("a context shift leaves the keys of a shorter context", "[attention][cache]",
                   float, double, Eigen::bfloat16) {
  using S = TestType;
  using Real = posenc::Compute<S>;
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = 8, .base = 10000});
  const Index n = 300, sinks = 4, removed = 90;
  support::Random random(5);
  auto k = Heads<Real>::random(random, 1, n, heads, 9), plain = k;
  auto v = Heads<Real>::random(random, 1, n, heads, 3);
  rope.rotate(k.view(), posenc::Positions::range(0, n));
  KvCache<S> cache({.kv_heads = heads, .head_dim = 9, .value_dim = 3, .capacity = n});
  cache.append(0, k.view(), v.view());
  Index seen = 0;
  cache.erase(0, sinks, removed, [&](auto keys) {
    seen += keys.seq;
    posenc::shift_keys(keys, rope, {-removed});
  });
  CHECK(seen == n - sinks - removed);
  REQUIRE(cache.length(0) == n - removed);
  Heads<Real> got_k(1, n - removed, heads, 9), got_v(1, n - removed, heads, 3);
  cache.copy_keys(0, 0, got_k.view(), got_v.view());
  double worst = 0;
  for (Index j = 0; j < n - removed; ++j) {
    const Index source = j < sinks ? j : j + removed;
    auto want = posenc::slice_seq(plain.view(), source, 1);
    rope.rotate(want, posenc::Positions::range(j, 1));
    for (Index h = 0; h < heads; ++h) {
      for (Index d = 0; d < 9; ++d) {
        const double difference =
            to_double(want.row(0, 0, h)[d]) - to_double(got_k.view().row(0, j, h)[d]);
        worst = std::max(worst, std::abs(difference));
      }
      for (Index d = 0; d < 3; ++d) {
        const S value = stored<S>(v.view().row(0, source, h)[d]);
        REQUIRE(to_double(got_v.view().row(0, j, h)[d]) == to_double(value));
      }
    }
  }
  // Rounded once when stored and once when moved; numbers are below 8.
  CHECK(worst < 4 * support::rounding<S>(8));
}

TEST_CASE("keys are updated in place", "[attention][cache]") {
  KvCache<float> cache(ring(150, 100));
  support::Random random(6);
  for (int i = 0; i < 7; ++i) {
    auto k = Heads<float>::random(random, 1, 99, heads, dim);
    auto v = Heads<float>::random(random, 1, 99, heads, value_dim);
    cache.append(0, k.view(), v.view());
  }
  REQUIRE(cache.first(0) == 384);
  const auto before = all_of(cache, 0);
  Index next = cache.first(0);
  cache.update_keys(0, [&](HeadsView<float> keys, Index first) {
    CHECK(first == next);
    CHECK(keys.heads == heads);
    CHECK(keys.dim == dim);
    next += keys.seq;
    for (Index s = 0; s < keys.seq; ++s) {
      for (Index h = 0; h < heads; ++h) keys.row(0, s, h)[1] += static_cast<float>(first + s);
    }
  });
  CHECK(next == cache.length(0));
  const auto after = all_of(cache, 0);
  for (std::size_t n = 0; n < before.size(); ++n) {
    const Index i = static_cast<Index>(n);
    const bool changed = i < (next - 384) * heads * dim && i % dim == 1;
    const Index key = 384 + i / (heads * dim);
    REQUIRE(after[n] == (changed ? before[n] + static_cast<float>(key) : before[n]));
  }
}

TEST_CASE("a cache is a value", "[attention][cache]") {
  support::Random random(7);
  auto k = Heads<float>::random(random, 1, 140, heads, dim);
  auto v = Heads<float>::random(random, 1, 140, heads, value_dim);
  KvCache<float> cache(full_cache(384, 2));
  const std::size_t numbers = at(2 * heads * 384 * (dim + 32));
  CHECK(cache.bytes() >= 4 * numbers);
  CHECK(cache.bytes() < 4 * numbers + 200);
  cache.append(1, k.view(), v.view());
  const auto before = all_of(cache, 1);
  KvCache<float> copy = cache;
  copy.append(1, k.view(), v.view());
  CHECK(all_of(cache, 1) == before);
  const auto longer = all_of(copy, 1);
  cache = std::move(copy);
  CHECK(all_of(cache, 1) == longer);
  CHECK(cache.length(0) == 0);
}

TEST_CASE("keys rotated in float are rounded once, by append or by rotate_into", "[cache]") {
  constexpr Index seq = 9;
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = 4, .base = 10000});
  const auto positions = posenc::Positions::range(100, seq);
  const KvCacheConfig config{
      .kv_heads = heads, .head_dim = dim, .value_dim = value_dim, .capacity = seq};
  KvCache<Eigen::bfloat16> by_append(config), by_rotation(config);
  support::Random random(8);
  auto k = Heads<float>::random(random, 1, seq, heads, dim);
  const auto v = Heads<Eigen::bfloat16>::random(random, 1, seq, heads, value_dim);
  auto values = v;
  Heads<Eigen::bfloat16> narrow(1, seq, heads, dim), a(1, seq, heads, dim), b(1, seq, heads, dim);
  rope.rotate_into(k.view(), narrow.view(), positions);
  by_rotation.append(0, narrow.view(), values.view());
  rope.rotate(k.view(), positions);
  Heads<float> wide_values(1, seq, heads, value_dim);
  for (Index s = 0; s < seq; ++s) {
    for (Index h = 0; h < heads; ++h) {
      for (Index d = 0; d < value_dim; ++d) {
        wide_values.view().row(0, s, h)[d] = static_cast<float>(values.view().row(0, s, h)[d]);
      }
    }
  }
  by_append.append(0, k.view(), wide_values.view());
  by_rotation.copy_keys(0, 0, a.view(), values.view());
  by_append.copy_keys(0, 0, b.view(), values.view());
  CHECK(support::same_bits(a.view(), b.view()));
  CHECK(support::same_bits(a.view(), narrow.view()));
}

}  // namespace kv_cache_test
