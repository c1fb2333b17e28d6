// SPDX-License-Identifier: MIT
// Decoding with a cache: a prompt at once, then one token after the other, with the same bits as
// the whole sequence in one pass.
#include <posenc/posenc.hpp>

#include <cstdlib>
#include <cstring>
#include <iostream>

using posenc::Index;
using Heads = Eigen::Tensor<float, 4, Eigen::RowMajor>;  // [batch, seq, heads, head_dim]

namespace {

constexpr Index prompt = 12, total = 20, heads = 4, kv_heads = 2, head_dim = 64;

/// Keys and values of up to `total` tokens; keys are stored rotated.
struct Cache {
  Heads keys{1, total, kv_heads, head_dim};
  Heads values{1, total, kv_heads, head_dim};
  Index size = 0;
};

/// Appends the keys and values of `count` tokens, rotated to the positions where they stand, and
/// attends to all so far.
void step(const posenc::Rope<posenc::HalfRotate>& rope, Cache& cache,
          posenc::HeadsView<const float> q, posenc::HeadsView<const float> k,
          posenc::HeadsView<const float> v, posenc::HeadsView<float> out) {
  const auto positions = posenc::Positions::range(cache.size, q.seq);

  rope.rotate_into(k, posenc::slice_seq(posenc::bshd(cache.keys), cache.size, k.seq), positions);
  const auto values = posenc::slice_seq(posenc::bshd(cache.values), cache.size, v.seq);
  for (Index s = 0; s < v.seq; ++s) {
    for (Index h = 0; h < v.heads; ++h) std::copy_n(v.row(0, s, h), v.dim, values.row(0, s, h));
  }
  cache.size += q.seq;

  Heads rotated(1, q.seq, heads, head_dim);
  rope.rotate_into(q, posenc::bshd(rotated), positions);
  posenc::attention(posenc::bshd(rotated),
                    posenc::slice_seq(posenc::bshd(cache.keys), 0, cache.size),
                    posenc::slice_seq(posenc::bshd(cache.values), 0, cache.size), out,
                    {.causal = posenc::Causal::BottomRight});
}

}  // namespace

int main() {
  std::clog << posenc::build_info() << '\n';
  const posenc::Rope<posenc::HalfRotate> rope(
      posenc::Unscaled{.rotary_dim = head_dim, .base = 500000});

  Heads q(1, total, heads, head_dim), k(1, total, kv_heads, head_dim),
      v(1, total, kv_heads, head_dim);
  q.setRandom(), k.setRandom(), v.setRandom();
  Heads whole(1, total, heads, head_dim), pieces(1, total, heads, head_dim);

  Cache at_once;
  step(rope, at_once, posenc::bshd(q), posenc::bshd(k), posenc::bshd(v), posenc::bshd(whole));

  Cache cache;
  for (Index first = 0; first < total; first = cache.size) {
    const Index count = first == 0 ? prompt : 1;
    const auto part = [&](auto& tensor) {
      return posenc::slice_seq(posenc::bshd(tensor), first, count);
    };
    step(rope, cache, part(q), part(k), part(v), part(pieces));
  }

  const auto bytes = static_cast<std::size_t>(whole.size()) * sizeof(float);
  const bool same = std::memcmp(whole.data(), pieces.data(), bytes) == 0;
  std::cout << "a prompt of " << prompt << " tokens, then " << total - prompt
            << " tokens one at a time: " << (same ? "the same bits as" : "different from")
            << " one pass over all " << total << '\n';
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
