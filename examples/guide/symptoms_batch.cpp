// SPDX-License-Identifier: MIT
// A prompt in chunks with the wrong causal alignment, and a batch of prompts of different lengths with shared positions
// and visible padding. Prints the largest difference from each prompt alone in one pass.
#include <posenc/attention/attention.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <limits>
#include <vector>

using posenc::Index;
using posenc::Positions;
using Numbers = std::vector<float>;
using View = posenc::HeadsView<float>;

namespace {

constexpr Index heads = 2, dim = 32, token = heads * dim;
const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = dim, .base = 10000});

View view(Numbers& x, Index batch) {
  return {.data = x.data(),
          .batch = batch,
          .seq = static_cast<Index>(x.size()) / token / batch,
          .heads = heads,
          .dim = dim};
}

/// q, k and v of a sequence, and the output of its attention.
struct Layer {
  Numbers q, k, v, out;

  explicit Layer(Index tokens, int seed) {
    for (Numbers* x : {&q, &k, &v, &out}) {
      for (Index n = 0; n < tokens * token; ++n)
        x->push_back(std::sin(static_cast<float>(n * n % 997 + 7 * ++seed)));
    }
  }
};

/// Runs a sequence alone, in one pass.
Layer alone(Layer layer) {
  const auto tokens = static_cast<Index>(layer.q.size()) / token;
  rope.rotate_all({view(layer.q, 1), view(layer.k, 1)}, Positions::range(0, tokens));
  posenc::attention(view(layer.q, 1), view(layer.k, 1), view(layer.v, 1), view(layer.out, 1),
                    {.causal = posenc::Causal::TopLeft});
  return layer;
}

float largest_difference(const float* a, const float* b, Index count) {
  float largest = 0;
  for (Index i = 0; i < count; ++i) {
    const float difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;  // NaN counts
  }
  return largest;
}

/// The last 4 of 40 tokens in a chunk of their own.
float chunk_difference(posenc::Causal causal) {
  constexpr Index tokens = 40, chunk = 4;
  const Layer whole = alone(Layer(tokens, 1));
  Layer layer = whole;  // rotated
  // [chunk]
  const View q = posenc::slice_seq(view(layer.q, 1), tokens - chunk, chunk);
  const View out = posenc::slice_seq(view(layer.out, 1), tokens - chunk, chunk);
  posenc::attention(q, view(layer.k, 1), view(layer.v, 1), out, {.causal = causal});
  // [/chunk]
  return largest_difference(whole.out.data() + (tokens - chunk) * token, out.data, chunk * token);
}

constexpr std::array<Index, 2> lengths{5, 12};  // tokens of the two prompts
constexpr Index longest = 12;

/// Copies a prompt into its row of a padded batch. Padding is NaN, as memory of others may be.
void copy_row(const Numbers& prompt, Index row, Index first, Numbers& batch) {
  std::copy(prompt.begin(), prompt.end(), batch.begin() + (row * longest + first) * token);
}

/// Both prompts in one call, padded on the left. Returns the difference of the shorter one.
float left_padded(bool masks_padding, bool counts_tokens) {
  const float padding = masks_padding ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
  Layer layer(0, 0);
  for (Numbers* x : {&layer.q, &layer.k, &layer.v, &layer.out})
    x->assign(static_cast<std::size_t>(2 * longest * token), padding);
  std::array<Layer, 2> single{alone(Layer(lengths[0], 100)), alone(Layer(lengths[1], 200))};
  bool keep[2 * longest];  // [B, S]: true for tokens, false for padding
  for (std::size_t b = 0; b < 2; ++b) {
    const auto row = static_cast<Index>(b);
    const Index first = longest - lengths[b];
    const Layer prompt(lengths[b], b == 0 ? 100 : 200);
    copy_row(prompt.q, row, first, layer.q);
    copy_row(prompt.k, row, first, layer.k);
    copy_row(prompt.v, row, first, layer.v);
    for (Index s = 0; s < longest; ++s) keep[row * longest + s] = s >= first;
  }
  const View q = view(layer.q, 2), k = view(layer.k, 2), v = view(layer.v, 2),
             out = view(layer.out, 2);
  // [padded]
  const auto positions = Positions::from_padding_mask({.data = keep, .rows = 2, .cols = longest});
  posenc::AttentionOptions<float> options{.causal = posenc::Causal::TopLeft};
  options.keep = {.data = keep, .batch = 2, .heads = 1, .queries = 1, .keys = longest};
  // [/padded]
  if (!masks_padding) options.keep = {};
  const auto doubled = Positions::starts({0, 0}, longest);
  rope.rotate(q, counts_tokens ? positions : doubled);
  rope.rotate(k, positions);
  posenc::attention(q, k, v, out, options);
  const Index first = longest - lengths[0];
  return largest_difference(single[0].out.data(), layer.out.data() + first * token,
                            lengths[0] * token);
}

/// Both prompts in one call, one after the other without padding.
float packed() {
  std::array<Layer, 2> single{alone(Layer(lengths[0], 100)), alone(Layer(lengths[1], 200))};
  Layer layer(lengths[0], 100);
  const Layer second(lengths[1], 200);
  layer.q.insert(layer.q.end(), second.q.begin(), second.q.end());
  layer.k.insert(layer.k.end(), second.k.begin(), second.k.end());
  layer.v.insert(layer.v.end(), second.v.begin(), second.v.end());
  layer.out.resize(layer.q.size());
  const View q = view(layer.q, 1), k = view(layer.k, 1), v = view(layer.v, 1),
             out = view(layer.out, 1);
  // [packed]
  const std::array<Index, 3> offsets{0, lengths[0], lengths[0] + lengths[1]};
  rope.rotate_all({q, k}, Positions::packed(offsets));
  posenc::attention(
      q, k, v, out,
      {.causal = posenc::Causal::TopLeft, .cu_seqlens_q = offsets, .cu_seqlens_k = offsets});
  // [/packed]
  return std::max(largest_difference(single[0].out.data(), layer.out.data(), lengths[0] * token),
                  largest_difference(single[1].out.data(), layer.out.data() + lengths[0] * token,
                                     lengths[1] * token));
}

}  // namespace

int main() {
  bool ok = true;
  std::cout.precision(1);
  const auto report = [&ok](const char* what, float difference, bool right) {
    std::cout << what << ": " << difference << '\n';
    ok = ok && (right ? difference == 0 : difference > 1e-3F);
  };
  report("last chunk of a prompt, TopLeft", chunk_difference(posenc::Causal::TopLeft), false);
  report("last chunk of a prompt, BottomRight", chunk_difference(posenc::Causal::BottomRight),
         true);
  report("left padding is visible", left_padded(false, true), false);
  report("queries count padding, keys do not", left_padded(true, false), false);
  const float padded = left_padded(true, true);
  std::cout << "left padding is masked and not counted: " << padded << '\n';
  ok = ok && padded < 1e-6F;
  report("packed without padding", packed(), true);
  return ok ? 0 : 1;
}
