// SPDX-License-Identifier: MIT
// Decoding with a cache: a prompt in one call, then one token per call, bit-identical to one pass
// over the full sequence. Also a 16-bit cache, and decoding past the cache's capacity by a context
// shift.
#include <posenc/posenc.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>

using posenc::Index;
using Heads = Eigen::Tensor<float, 4, Eigen::RowMajor>;  // [batch, seq, heads, head_dim]
using Rope = posenc::Rope<posenc::HalfRotate>;

namespace {

constexpr Index prompt = 120, total = 200, heads = 4, kv_heads = 2, head_dim = 64;
constexpr std::array<Index, 1> sequence{0};

template <class S>
posenc::KvCache<S> make_cache(Index capacity) {
  return posenc::KvCache<S>({.kv_heads = kv_heads, .head_dim = head_dim, .capacity = capacity});
}

/// Stand-in for the outputs of a layer's projections.
struct Tokens {
  Heads q{1, total, heads, head_dim}, k{1, total, kv_heads, head_dim},
      v{1, total, kv_heads, head_dim};

  Tokens() { q.setRandom(), k.setRandom(), v.setRandom(); }
};

/// Attends from tokens first .. first + count - 1 to themselves and all keys of the cache.
template <class S>
void step(const Rope& rope, posenc::KvCache<S>& cache, Tokens tokens, Index first, Index count,
          Heads& out) {
  const auto part = [&](auto& x) { return posenc::slice_seq(posenc::bshd(x), first, count); };
  rope.rotate_all({part(tokens.q), part(tokens.k)},
                  posenc::Positions::range(cache.length(0), count));
  cache.append(0, part(tokens.k), part(tokens.v));
  posenc::attention(part(tokens.q), cache, sequence, part(out),
                    {.causal = posenc::Causal::BottomRight});
}

/// Decodes a prompt, then one token per call. If the cache is full, its oldest quarter is erased
/// and the other keys are rotated to their new positions.
template <class S>
Heads decode(const Rope& rope, posenc::KvCache<S> cache, const Tokens& tokens) {
  Heads out(1, total, heads, head_dim);
  step(rope, cache, tokens, 0, prompt, out);
  for (Index token = prompt; token < total; ++token) {
    if (cache.length(0) == cache.capacity()) {
      const Index gone = cache.capacity() / 4;
      cache.erase(0, 0, gone, [&](auto k) { posenc::shift_keys(k, rope, {-gone}); });
    }
    step(rope, cache, tokens, token, 1, out);
  }
  return out;
}

float largest_difference(const Heads& a, const Heads& b) {
  const Eigen::Tensor<float, 0, Eigen::RowMajor> largest = (a - b).abs().maximum();
  return largest();
}

}  // namespace

int main() {
  std::clog << posenc::build_info() << '\n';
  const Rope rope(posenc::Unscaled{.rotary_dim = head_dim, .base = 500000});
  const Tokens tokens;

  Heads whole(1, total, heads, head_dim);
  auto cache = make_cache<float>(total);
  step(rope, cache, tokens, 0, total, whole);

  const Heads pieces = decode(rope, make_cache<float>(total), tokens);
  const auto bytes = static_cast<std::size_t>(whole.size()) * sizeof(float);
  const bool same = std::memcmp(whole.data(), pieces.data(), bytes) == 0;
  std::cout << "a prompt of " << prompt << " tokens, then " << total - prompt
            << " tokens one at a time: " << (same ? "the same bits as" : "different from")
            << " one pass over all " << total << '\n';

  const auto half = make_cache<Eigen::bfloat16>(total);
  const float rounded = largest_difference(whole, decode(rope, half, tokens));
  std::cout << "a bfloat16 cache, " << half.bytes() / 1024 << " KiB in place of "
            << cache.bytes() / 1024 << ": largest difference " << rounded << '\n';

  const Heads shifted = decode(rope, make_cache<float>(128), tokens);
  const bool finite = std::all_of(shifted.data(), shifted.data() + shifted.size(),
                                  [](float x) { return std::isfinite(x); });
  std::cout << "a cache of 128 keys drops its oldest 32 whenever it is full, and continues\n";
  return same && finite && rounded < 0.05F ? EXIT_SUCCESS : EXIT_FAILURE;
}
