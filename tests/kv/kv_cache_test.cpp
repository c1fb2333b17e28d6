// SPDX-License-Identifier: MIT
// Contents of a cache: appended keys and values come back, after any sequence of calls.
#include "cache_program.hpp"
#include "kv_cache_case.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include "support/sampled.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/positions.hpp>

#include <Eigen/Core>

#include <algorithm>
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

/// Test case of a cache that stores S and gets elements of T.
template <class StoredAs, class Element>
struct Given {
  using S = StoredAs;
  using T = Element;
};

}  // namespace

TEMPLATE_TEST_CASE("KvCache: appended keys and values can be copied out", "[attention][cache]",
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

TEMPLATE_TEST_CASE("KvCache: any mixture of calls gives the contents of a plain list",
                   "[attention][cache]", float, double, Eigen::half, Eigen::bfloat16) {
  support::Random random(4);
  for (const auto kind : {CacheKind::Full, CacheKind::Ring, CacheKind::Pooled}) {
    CacheProgram<TestType> program(kind);
    for (unsigned step = 0; step < support::sampled(400); ++step) {
      const auto call = program.run_step(random);
      INFO("step " << step << ", call " << static_cast<int>(call));
      REQUIRE(program.matches(random));
    }
  }
}

TEMPLATE_TEST_CASE("KvCache: a context shift leaves the keys of a shorter context",
                   "[attention][cache]", float, double, Eigen::bfloat16) {
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

TEST_CASE("KvCache: keys are updated in place", "[attention][cache]") {
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

TEST_CASE("KvCache: is a value", "[attention][cache]") {
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

TEST_CASE("KvCache: keys rotated in float are rounded once, by append or by rotate_into",
          "[cache]") {
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
