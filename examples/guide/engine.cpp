// SPDX-License-Identifier: MIT
// An engine with raw buffers: its RoPE loop, and posenc in its place without Eigen. Compares the two, rotates a fused
// QKV buffer by int32 positions, and attends over keys and values in bfloat16.
#include <posenc/attention/attention.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/simd/bfloat16.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <span>
#include <vector>

#if defined(EIGEN_WORLD_VERSION)
#error "this program must not need Eigen"
#endif

using posenc::Index;
using Numbers = std::vector<float>;

namespace {

// [constants]
constexpr int heads = 8, kv_heads = 2, head_size = 64, max_tokens = 200;
constexpr int dim = heads * head_size, kv_dim = kv_heads * head_size;
// [/constants]

// [loop]
/// Rotates the query and the key of one token, as many small engines do.
void rope_loop(float* q, float* k, int position) {
  const auto rotate = [](float* pair, float cos, float sin) {
    const float first = pair[0], second = pair[1];
    pair[0] = first * cos - second * sin;
    pair[1] = first * sin + second * cos;
  };
  for (int i = 0; i < dim; i += 2) {
    const float exponent = static_cast<float>(i % head_size) / static_cast<float>(head_size);
    const float angle = static_cast<float>(position) / std::pow(10000.0F, exponent);
    rotate(q + i, std::cos(angle), std::sin(angle));
    if (i < kv_dim) rotate(k + i, std::cos(angle), std::sin(angle));
  }
}
// [/loop]

// [rope]
using Rope = posenc::Rope<posenc::Interleaved>;  // pairs (i, i + 1), as in the loop

/// Returns a view of `tokens` tokens whose heads are dense.
posenc::HeadsView<float> tokens_of(float* data, Index tokens, Index heads_per_token,
                                   Index token_stride) {
  return {.data = data,
          .batch = 1,
          .seq = tokens,
          .heads = heads_per_token,
          .dim = head_size,
          .seq_stride = token_stride};
}

/// Rotates the query and the key of one token.
void rotate_token(const Rope& rope, float* q, float* k, int position) {
  rope.rotate_all({tokens_of(q, 1, heads, dim), tokens_of(k, 1, kv_heads, kv_dim)},
                  posenc::Positions::range(position, 1));
}
// [/rope]

// [fused]
constexpr Index qkv_dim = dim + 2 * kv_dim;  // a token's q, k and v follow each other

/// Rotates q and k of a batch of tokens inside the fused buffer.
void rotate_fused(const Rope& rope, float* qkv, std::span<const std::int32_t> positions) {
  const auto count = static_cast<Index>(positions.size());
  rope.rotate_all(
      {tokens_of(qkv, count, heads, qkv_dim), tokens_of(qkv + dim, count, kv_heads, qkv_dim)},
      posenc::Positions::view(positions));
}
// [/fused]

// [cache]
/// Appends a token's key and value, which are rounded to bfloat16. Attends from its query.
void step(posenc::KvCache<posenc::Bfloat16>& cache, float* q, float* k, float* v, float* out) {
  cache.append(0, tokens_of(k, 1, kv_heads, kv_dim), tokens_of(v, 1, kv_heads, kv_dim));
  posenc::attention(tokens_of(q, 1, heads, dim), cache, {0}, tokens_of(out, 1, heads, dim),
                    {.causal = posenc::Causal::BottomRight});
}
// [/cache]

// [own]
/// The engine's own cache of one layer: keys and values, each [max_tokens, kv_heads, head_size].
struct OwnCache {
  std::vector<posenc::Bfloat16> keys = std::vector<posenc::Bfloat16>(max_tokens * kv_dim);
  std::vector<posenc::Bfloat16> values = keys;
};

/// Views tokens first .. first + count - 1 of a cache's keys or values.
posenc::HeadsView<posenc::Bfloat16> view_of(std::vector<posenc::Bfloat16>& buffer, Index first,
                                            Index count) {
  return {.data = buffer.data() + first * kv_dim,
          .batch = 1,
          .seq = count,
          .heads = kv_heads,
          .dim = head_size};
}

/// Decodes token t. Its key is rotated into the cache, in one pass and with one rounding.
void step_own(const Rope& rope, OwnCache& cache, Index t, float* q, float* k, const float* v,
              float* out) {
  const auto query = tokens_of(q, 1, heads, dim);
  const auto position = posenc::Positions::range(t, 1);
  rope.rotate(query, position);
  rope.rotate_into(tokens_of(k, 1, kv_heads, kv_dim), view_of(cache.keys, t, 1), position);
  std::transform(v, v + kv_dim, cache.values.begin() + t * kv_dim,
                 [](float x) { return posenc::Bfloat16(x); });
  posenc::attention(query, view_of(cache.keys, 0, t + 1), view_of(cache.values, 0, t + 1),
                    tokens_of(out, 1, heads, dim), {.causal = posenc::Causal::BottomRight});
}
// [/own]

/// Attention over floats as a small engine writes it.
Numbers attention_loop(const Numbers& q, const Numbers& keys, const Numbers& values, int tokens) {
  Numbers out(dim);
  for (int h = 0; h < heads; ++h) {
    const float* const query = q.data() + h * head_size;
    const int kv_head = h / (heads / kv_heads) * head_size;
    Numbers weights;
    float sum = 0;
    for (int t = 0; t < tokens; ++t) {
      const float* const key = keys.data() + t * kv_dim + kv_head;
      const float score = std::inner_product(query, query + head_size, key, 0.0F);
      weights.push_back(std::exp(score / std::sqrt(static_cast<float>(head_size))));
      sum += weights.back();
    }
    for (int t = 0; t < tokens; ++t) {
      const float weight = weights[static_cast<std::size_t>(t)] / sum;
      const float* const value = values.data() + t * kv_dim + kv_head;
      float* const head = out.data() + h * head_size;
      std::transform(value, value + head_size, head, head,
                     [weight](float x, float y) { return y + weight * x; });
    }
  }
  return out;
}

Numbers numbers(int count, int seed) {
  Numbers x;
  for (int n = 0; n < count; ++n)
    x.push_back(std::sin(static_cast<float>(n * n % 997 + 31 * seed)));
  return x;
}

float largest_difference(const Numbers& a, const Numbers& b) {
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

/// Returns the largest difference of loop and posenc at a position.
float loop_difference(const Rope& rope, int position) {
  Numbers q = numbers(dim, 1), k = numbers(kv_dim, 2), loop_q = q, loop_k = k;
  rotate_token(rope, q.data(), k.data(), position);
  rope_loop(loop_q.data(), loop_k.data(), position);
  return std::max(largest_difference(q, loop_q), largest_difference(k, loop_k));
}

}  // namespace

int main() {
  bool ok = true;
  const auto check = [&ok](bool condition, const char* what) {
    if (!condition) std::cout << "wrong: " << what << '\n';
    ok = ok && condition;
  };
  std::cout.precision(1);
  // [model]
  const Rope rope(posenc::Unscaled{.rotary_dim = head_size, .base = 10000});  // once per model
  // [/model]

  for (const int position : {0, 10, 1000, 100000}) {
    std::cout << "position " << position << ": the loop differs by "
              << loop_difference(rope, position) << '\n';
  }
  check(loop_difference(rope, 10) < 1e-5F, "near positions agree");
  check(loop_difference(rope, 100000) > 1e-3F, "float32 angles are off at far positions");

  // A batch in a fused buffer gives the bits of its tokens alone.
  const std::vector<std::int32_t> positions{7, 8, 9, 3, 70000};
  Numbers qkv = numbers(5 * static_cast<int>(qkv_dim), 3), alone = qkv;
  rotate_fused(rope, qkv.data(), positions);
  for (std::size_t t = 0; t < positions.size(); ++t) {
    float* const token = alone.data() + static_cast<Index>(t) * qkv_dim;
    rotate_token(rope, token, token + dim, positions[t]);
  }
  check(qkv == alone, "a batch in a fused buffer has the bits of single tokens");

  // Decodes, and compares both caches with the loop over floats.
  posenc::KvCache<posenc::Bfloat16> cache(
      {.kv_heads = kv_heads, .head_dim = head_size, .capacity = max_tokens});
  OwnCache own;
  Numbers keys, values;
  float cache_error = 0, own_error = 0;
  for (int t = 0; t < 150; ++t) {
    Numbers q = numbers(dim, 3 * t), k = numbers(kv_dim, 3 * t + 1), v = numbers(kv_dim, 3 * t + 2);
    Numbers out(dim), own_out(dim);
    step_own(rope, own, t, Numbers(q).data(), Numbers(k).data(), v.data(), own_out.data());
    rotate_token(rope, q.data(), k.data(), t);
    keys.insert(keys.end(), k.begin(), k.end());
    values.insert(values.end(), v.begin(), v.end());
    step(cache, q.data(), k.data(), v.data(), out.data());
    const Numbers expected = attention_loop(q, keys, values, t + 1);
    cache_error = std::max(cache_error, largest_difference(out, expected));
    own_error = std::max(own_error, largest_difference(own_out, expected));
  }
  std::cout << "attention over a bfloat16 KvCache differs from floats by " << cache_error
            << ", over own bfloat16 buffers by " << own_error << '\n';
  check(cache_error < 1e-2F && own_error < 1e-2F, "attention over bfloat16");
  return ok ? 0 : 1;
}
