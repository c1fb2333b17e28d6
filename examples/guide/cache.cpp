// SPDX-License-Identifier: MIT
// The lines of cache.md: decoding with a cache, ragged batches, paging, shared prefixes, windows,
// saved sessions, cached keys that move, and a cache of 8 bits. Results are compared with attention in one pass.
#include <posenc/core/error.hpp>
#include <posenc/frequency/dynamic_ntk.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/interop/prompt_positions.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/int8_per_token_head.hpp>
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <vector>

using posenc::Causal;
using posenc::Index;
using posenc::Positions;
using Cache = posenc::KvCache<float>;
using Rope = posenc::Rope<posenc::HalfRotate>;

namespace {

int failures = 0;

void expect(bool holds, const char* claim) {
  if (holds) return;
  std::cout << "wrong: " << claim << '\n';
  ++failures;
}

constexpr Index heads = 4, kv_heads = 2, dim = 32;

/// Tensor x(s, h, d) of one batch row, in memory of its own.
class Tokens {
 public:
  Tokens(Index count, Index heads_of_token, std::uint32_t state)
      : count_(count),
        heads_(heads_of_token),
        numbers_(static_cast<std::size_t>(count * heads_of_token * dim)) {
    for (float& x : numbers_) {
      state = state * 1664525 + 1013904223;
      x = static_cast<float>(state >> 8) / 8388608 - 1;
    }
  }
  posenc::HeadsView<float> view() {
    return {.data = numbers_.data(), .batch = 1, .seq = count_, .heads = heads_, .dim = dim};
  }
  bool operator==(const Tokens& other) const { return numbers_ == other.numbers_; }
  float largest_difference(const Tokens& other) const {
    float largest = 0;
    for (std::size_t i = 0; i < numbers_.size(); ++i) {
      largest = std::max(largest, std::abs(numbers_[i] - other.numbers_[i]));
    }
    return largest;
  }

 private:
  Index count_, heads_;
  std::vector<float> numbers_;
};

/// Tokens of a text: what a layer's projections return, and the output of attention.
struct Text {
  Tokens q, k, v, out;
  Text(Index count, std::uint32_t seed)
      : q(count, heads, seed),
        k(count, kv_heads, seed + 1),
        v(count, kv_heads, seed + 2),
        out(count, heads, 0) {}
};

const posenc::DynamicNtkScaling rule{
    .rotary_dim = dim, .base = 10000, .factor = 2, .original_max_position = 2048};
const Rope rope(frequencies(rule, 2048));

/// Processes tokens first .. first + count - 1 of a text, which follow those in the cache.
template <class S>
void step(posenc::KvCache<S>& cache, Index sequence, Text& text, Index first, Index count,
          posenc::Window window = {}) {
  const auto part = [&](Tokens& x) { return posenc::slice_seq(x.view(), first, count); };
  const auto q = part(text.q), k = part(text.k), v = part(text.v), out = part(text.out);

  rope.rotate_all({q, k}, Positions::range(cache.length(sequence), count));
  cache.append(sequence, k, v);
  posenc::attention(q, cache, {sequence}, out, {.causal = Causal::BottomRight, .window = window});
}

void decode_equals_prefill() {
  const Text text(200, 1);
  Text whole = text, pieces = text;

  Cache one_pass({.kv_heads = kv_heads, .head_dim = dim, .capacity = 1024});
  step(one_pass, 0, whole, 0, 200);

  Cache cache({.kv_heads = kv_heads, .head_dim = dim, .capacity = 1024});
  step(cache, 0, pieces, 0, 150);                                                  // the prompt
  for (Index token = 150; token < 200; ++token) step(cache, 0, pieces, token, 1);  // decoding

  expect(whole.out == pieces.out, "decoding gives the bits of one pass");
}

void ragged_batch() {
  Cache cache({.sequences = 3, .kv_heads = kv_heads, .head_dim = dim, .capacity = 1024});
  Text earlier(137, 5);
  step(cache, 0, earlier, 0, 100);
  step(cache, 2, earlier, 100, 37);
  Cache separate = cache;

  // One new token for sequence 0, a prompt of 50 for sequence 1, and 3 tokens for sequence 2.
  const std::vector<Index> sequences{0, 1, 2}, cu_seqlens{0, 1, 51, 54};
  Text text(54, 9), same = text;
  std::vector<Index> starts;
  for (const Index n : sequences) starts.push_back(cache.length(n));
  rope.rotate_all({text.q.view(), text.k.view()}, Positions::packed(cu_seqlens, starts));
  cache.append(sequences, cu_seqlens, text.k.view(), text.v.view());
  posenc::attention(text.q.view(), cache, sequences, text.out.view(),
                    {.causal = Causal::BottomRight, .cu_seqlens_q = cu_seqlens});

  step(separate, 0, same, 0, 1);
  step(separate, 1, same, 1, 50);
  step(separate, 2, same, 51, 3);
  expect(text.out == same.out, "one call gives the bits of three");
}

void prompt_with_pictures() {
  const Rope mrope(posenc::Unscaled{.rotary_dim = dim, .base = 10000}, 0,
                   posenc::mrope_chunked({4, 6, 6}));
  // 40 tokens of text, a picture of 6 x 8 tokens, and 30 tokens of text.
  const auto prompt =
      posenc::prompt_positions({{.text = 40}, {.rows = 12, .cols = 16, .merge = 2}, {.text = 30}});
  const Index tokens = prompt.positions.count();
  Text text(tokens, 41), whole = text;
  Cache cache({.kv_heads = kv_heads, .head_dim = dim, .capacity = 1024});
  for (Index first = 0; first < tokens; first += 32) {
    const Index count = std::min(Index{32}, tokens - first);
    const auto part = [&](Tokens& x) { return posenc::slice_seq(x.view(), first, count); };
    mrope.rotate_all({part(text.q), part(text.k)}, prompt.positions.slice(first, count));
    cache.append(0, part(text.k), part(text.v));
    posenc::attention(part(text.q), cache, {0}, part(text.out), {.causal = Causal::BottomRight});
  }

  Cache one_pass({.kv_heads = kv_heads, .head_dim = dim, .capacity = 1024});
  mrope.rotate_all({whole.q.view(), whole.k.view()}, prompt.positions);
  one_pass.append(0, whole.k.view(), whole.v.view());
  posenc::attention(whole.q.view(), one_pass, {0}, whole.out.view(),
                    {.causal = Causal::BottomRight});
  expect(text.out == whole.out, "chunks of a prompt with a picture give the bits of one pass");
}

void paging_and_shared_prefixes() {
  const posenc::KvBlockPool pool({.byte_limit = 1 << 20});  // for all layers and sequences
  Cache cache({.sequences = 16, .kv_heads = kv_heads, .head_dim = dim, .capacity = 8192}, pool);
  expect(pool.blocks() == 0, "a cache on a pool starts without memory");

  Text prefix(300, 13), question(20, 17), alone = question;
  step(cache, 0, prefix, 0, 300);
  expect(pool.blocks() == 3, "300 keys take three blocks of 128");

  cache.copy(0, 1);  // shares the blocks
  expect(pool.blocks() == 3, "a copy takes no memory");
  step(cache, 1, question, 0, 20);  // copies the last block, which sequence 0 still reads
  expect(pool.blocks() == 4, "a write copies one block");

  Cache whole({.kv_heads = kv_heads, .head_dim = dim, .capacity = 8192});
  Text again(300, 13);
  step(whole, 0, again, 0, 300);
  step(whole, 0, alone, 0, 20);
  expect(question.out == alone.out, "a shared prefix changes no bit");

  // The pool is full after some more sequences. A sequence that ends makes room.
  Index refused = -1;
  for (Index n = 2; n < 16 && refused < 0; ++n) {
    Text other(300, 21);
    try {
      step(cache, n, other, 0, 300);
    } catch (const posenc::MemoryLimitError&) {
      refused = n;  // nothing was written
    }
  }
  expect(refused > 2 && cache.length(refused) == 0, "the pool rejects keys beyond its limit");
  cache.clear(2);
  Text other(300, 21);
  step(cache, refused, other, 0, 300);
  expect(cache.length(refused) == 300, "released blocks are used again");
}

void window() {
  Text text(960, 25), same = text;
  const auto window = posenc::sliding_window(64);

  Cache ring({.kv_heads = kv_heads, .head_dim = dim, .window = 64, .max_append = 16});
  for (Index token = 0; token < 960; token += 16) step(ring, 0, text, token, 16, window);
  expect(ring.length(0) == 960 && ring.first(0) > 0, "old keys are evicted");

  Cache whole({.kv_heads = kv_heads, .head_dim = dim, .capacity = 960});
  step(whole, 0, same, 0, 960, window);
  expect(ring.bytes() < whole.bytes() / 2, "a ring does not grow with the text");
  expect(text.out == same.out, "a ring gives the bits of a cache that keeps all keys");
}

void context_shift() {
  Text text(130, 29), rest(98, 0);
  Cache cache({.kv_heads = kv_heads, .head_dim = dim, .capacity = 128});
  const Text original = text;
  step(cache, 0, text, 0, 128);

  // The cache is full. The first 4 keys stay, because models give them much weight. The next 32
  // go, and later keys move down by 32 positions.
  cache.erase(0, 4, 32, [&](auto k) { posenc::shift_keys(k, rope, {-32}); });
  expect(cache.length(0) == 96, "there is room for 32 more");
  step(cache, 0, text, 128, 2);

  // The same keys, without a history.
  Cache fresh({.kv_heads = kv_heads, .head_dim = dim, .capacity = 128});
  Text source = original;
  const auto move = [&](Tokens& from, Tokens& to) {
    for (Index s = 0; s < 98; ++s) {
      const auto row = posenc::slice_seq(from.view(), s < 4 ? s : s + 32, 1);
      std::copy_n(row.data, row.heads * dim, posenc::slice_seq(to.view(), s, 1).data);
    }
  };
  move(source.q, rest.q), move(source.k, rest.k), move(source.v, rest.v);
  step(fresh, 0, rest, 0, 98);
  const auto last = [](Tokens& x, Index token) { return x.view().row(0, token, 0); };
  float largest = 0;
  for (Index d = 0; d < heads * dim; ++d) {
    largest = std::max(largest, std::abs(last(text.out, 129)[d] - last(rest.out, 97)[d]));
  }
  expect(largest < 1e-5F, "shifted keys equal keys that were rotated at their new positions");
}

void change_of_frequencies() {
  Text text(150, 33), same = text;
  Cache cache({.kv_heads = kv_heads, .head_dim = dim, .capacity = 8192});
  step(cache, 0, text, 0, 150);

  // The text will grow to 8192 tokens, for which the rule has other frequencies.
  const Rope longer(frequencies(rule, 8192));
  cache.update_keys(0, [&](auto k, Index first) {
    const auto positions = Positions::range(first, k.seq);
    posenc::rerotate(k, rope, positions, longer, positions);
  });

  Tokens k(150, kv_heads, 0), v(150, kv_heads, 0);
  cache.copy_keys(0, 0, k.view(), v.view());
  longer.rotate(same.k.view(), Positions::range(0, 150));
  expect(k.largest_difference(same.k) < 2e-6F, "rerotate() equals a new rotation");
}

void saved_session() {
  Text text(250, 37), same = text;
  const auto window = posenc::sliding_window(64);
  const posenc::KvCacheConfig config{
      .kv_heads = kv_heads, .head_dim = dim, .window = 64, .max_append = 250};
  Cache cache(config);
  step(cache, 0, text, 0, 240, window);

  const Index first = cache.first(0), count = cache.length(0) - first;
  Tokens k(count, kv_heads, 0), v(count, kv_heads, 0);  // to be written to a file
  cache.copy_keys(0, first, k.view(), v.view());

  Cache resumed(config);
  resumed.restore(0, first, k.view(), v.view());
  same = text;
  step(cache, 0, text, 240, 10, window);
  step(resumed, 0, same, 240, 10, window);
  expect(text.out == same.out, "a restored session continues with the same bits");
}

void eight_bits() {
  Text text(200, 41), same = text;
  Cache floats({.kv_heads = kv_heads, .head_dim = dim, .capacity = 1024});
  step(floats, 0, same, 0, 200);

  posenc::KvCache<posenc::Int8PerTokenHead> cache(
      {.kv_heads = kv_heads, .head_dim = dim, .capacity = 1024});
  step(cache, 0, text, 0, 200);
  expect(cache.bytes() < floats.bytes() * 27 / 100, "8 bits take about a quarter of floats");
  expect(text.out.largest_difference(same.out) < 0.01F, "8 bits change little");
}

}  // namespace

int main() {
  decode_equals_prefill();
  ragged_batch();
  prompt_with_pictures();
  paging_and_shared_prefixes();
  window();
  context_shift();
  change_of_frequencies();
  saved_session();
  eight_bits();
  if (failures == 0) std::cout << "all claims of cache.md hold\n";
  return failures;
}
