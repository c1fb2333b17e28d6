// SPDX-License-Identifier: MIT
// Cached keys whose rotation is stale: after a context shift, and after dynamic NTK has changed the frequencies. Prints
// the share of the right score that a head finds which looks 30 tokens back.
#include <posenc/frequency/dynamic_ntk.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>

#include <cmath>
#include <cstddef>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <vector>

using posenc::Index;
using posenc::Positions;
using Rope = posenc::Rope<posenc::HalfRotate>;

namespace {

constexpr Index dim = 128, distance = 30, gone = 64;

posenc::HeadsView<float> view(std::vector<float>& x) {
  return {.data = x.data(),
          .batch = 1,
          .seq = static_cast<Index>(x.size()) / dim,
          .heads = 1,
          .dim = dim};
}

/// Returns keys of `count` tokens with the same content, so that only positions distinguish them.
std::vector<float> keys_of(Index count) {
  std::vector<float> x;
  for (Index i = 0; i < count * dim; ++i)
    x.push_back(std::sin(static_cast<float>(i % dim * (i % dim) % 101 + 1)));
  return x;
}

/// Returns the share of the right score that a query finds in the key `distance` tokens before the end of the cache.
/// The query is that of the next token, rotated by `rope`.
float found(const posenc::KvCache<float>& cache, const Rope& rope) {
  std::vector<float> q = keys_of(1), k(static_cast<std::size_t>(dim)), v = k;
  const float best = std::inner_product(q.begin(), q.end(), q.begin(), 0.0F);
  const Index next = cache.length(0);
  rope.inverse(view(q), Positions::range(distance, 1));
  rope.rotate(view(q), Positions::range(next, 1));
  cache.copy_keys(0, next - distance, view(k), view(v));
  return std::inner_product(q.begin(), q.end(), k.begin(), 0.0F) / best;
}

/// Returns a cache of `count` tokens, rotated by `rope`.
posenc::KvCache<float> cache_of(const Rope& rope, Index count) {
  std::vector<float> k = keys_of(count), v = k;
  rope.rotate(view(k), Positions::range(0, count));
  posenc::KvCache<float> cache({.kv_heads = 1, .head_dim = dim, .capacity = 1024});
  cache.append(0, view(k), view(v));
  return cache;
}

}  // namespace

int main() {
  bool ok = true;
  std::cout << std::fixed << std::setprecision(2);
  const auto report = [&ok](const char* what, float share, bool right) {
    std::cout << std::setw(44) << what << std::setw(8) << share << '\n';
    ok = ok && (right ? std::abs(share - 1) < 1e-3F : share < 0.9F);
  };

  const Rope rope(posenc::Unscaled{.rotary_dim = dim, .base = 10000});
  const posenc::KvCache<float> full = cache_of(rope, 500);
  report("before the shift", found(full, rope), true);

  // [stale]
  auto stale = full;
  stale.erase(0, 0, gone, [](auto) {});  // later keys move down, but keep their rotation
  // [/stale]
  report("after the shift, keys as they were", found(stale, rope), false);
  // [shifted]
  auto shifted = full;
  shifted.erase(0, 0, gone, [&](auto k) { posenc::shift_keys(k, rope, {-gone}); });
  // [/shifted]
  report("... keys shifted", found(shifted, rope), true);
  auto twice = shifted;
  twice.update_keys(0, [&](auto k, Index) { posenc::shift_keys(k, rope, {-gone}); });
  report("... keys shifted twice", found(twice, rope), false);

  // Keys in a buffer without a cache, rotated when they were stored.
  std::vector<float> own = keys_of(500), moved = keys_of(500 - gone);
  rope.rotate(view(own), Positions::range(0, 500));
  rope.rotate(view(moved), Positions::range(0, 500 - gone));
  // [own]
  const auto kept = posenc::slice_seq(view(own), gone, 500 - gone);
  posenc::shift_keys(kept, rope, {-gone});
  // [/own]
  for (std::size_t i = 0; i < moved.size(); ++i) {
    ok = ok && std::abs(kept.data[i] - moved[i]) < 1e-5F;
  }

  // [lengths]
  const posenc::DynamicNtkScaling rule{
      .rotary_dim = dim, .base = 10000, .factor = 4, .original_max_position = 256};
  const Rope before(frequencies(rule, 256)), after(frequencies(rule, 512));
  // [/lengths]
  auto cache = cache_of(before, 256);
  report("dynamic NTK, cached keys as they were", found(cache, after), false);
  // [rerotate]
  cache.update_keys(0, [&](auto k, Index first) {
    const auto positions = Positions::range(first, k.seq);
    posenc::rerotate(k, before, positions, after, positions);
  });
  // [/rerotate]
  report("... keys rotated anew", found(cache, after), true);
  return ok ? 0 : 1;
}
