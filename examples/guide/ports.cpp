// SPDX-License-Identifier: MIT
// Calls of PyTorch, ggml and MLX beside those of posenc. Each is compared with a plain definition of the other project's
// call, in the order of axes that it has there.
#include <posenc/attention/attention.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/frequency/divisors.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>
#include <posenc/rotary/permute.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <limits>
#include <vector>

using posenc::Index;
using Numbers = std::vector<float>;

namespace {

constexpr Index batch = 2, heads = 4, kv_heads = 2, queries = 3, keys = 7, dim = 8;

// [layout]
/// Views dense memory in the order [B, H, S, D] of PyTorch's attention and MLX.
posenc::HeadsView<float> view_bhsd(float* data, Index b, Index h, Index s, Index d) {
  return {.data = data,
          .batch = b,
          .seq = s,
          .heads = h,
          .dim = d,
          .batch_stride = h * s * d,
          .seq_stride = d,
          .head_stride = s * d};
}
// [/layout]

Numbers numbers(Index count, int seed) {
  Numbers x;
  for (Index n = 0; n < count; ++n) {
    x.push_back(std::sin(static_cast<float>(n * n % 997 + 31 * seed)));
  }
  return x;
}

float largest_difference(const Numbers& a, const Numbers& b) {
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

/// Attention as PyTorch's documentation defines it, over [B, H, S, D]. mask(h, i, j) is added.
Numbers plain_attention(const Numbers& q, const Numbers& k, const Numbers& v, float scale,
                        const std::function<float(Index h, Index i, Index j)>& mask) {
  Numbers out(q.size());
  const auto at = [](Index row, Index c) { return static_cast<std::size_t>(row * dim + c); };
  for (Index b = 0; b < batch; ++b) {
    for (Index h = 0; h < heads; ++h) {
      const Index kv = (b * kv_heads + h / (heads / kv_heads)) * keys;
      for (Index i = 0; i < queries; ++i) {
        const Index row = (b * heads + h) * queries + i;
        Numbers weights;
        float sum = 0;
        for (Index j = 0; j < keys; ++j) {
          float score = 0;
          for (Index c = 0; c < dim; ++c) score += q[at(row, c)] * k[at(kv + j, c)];
          weights.push_back(std::exp(scale * score + mask(h, i, j)));
          sum += weights.back();
        }
        for (Index j = 0; j < keys; ++j) {
          const float weight = weights[static_cast<std::size_t>(j)] / sum;
          for (Index c = 0; c < dim; ++c) out[at(row, c)] += weight * v[at(kv + j, c)];
        }
      }
    }
  }
  return out;
}

// [ggml]
/// The arguments of ggml_rope_ext that determine frequencies.
struct GgmlRope {
  int n_dims = 0, n_ctx_orig = 0;
  float freq_base = 10000, freq_scale = 1, ext_factor = 0, attn_factor = 1, beta_fast = 32,
        beta_slow = 1;
};

/// Returns the frequencies of these arguments. ext_factor is 0 without YaRN, and 1 with it.
posenc::Frequencies frequencies_of(const GgmlRope& rope) {
  const double factor = 1 / static_cast<double>(rope.freq_scale);
  const auto base = static_cast<double>(rope.freq_base);
  const auto attn_factor = static_cast<double>(rope.attn_factor);
  if (rope.ext_factor == 0) {  // the divisors are freq_factors times factor
    const std::vector<double> divisors(static_cast<std::size_t>(rope.n_dims / 2), factor);
    return frequencies(posenc::DivisorScaling{.rotary_dim = rope.n_dims,
                                              .base = base,
                                              .divisors = divisors,
                                              .attention_factor = attn_factor});
  }
  return frequencies(
      posenc::YarnScaling{.rotary_dim = rope.n_dims,
                          .base = base,
                          .factor = factor,
                          .original_max_position = rope.n_ctx_orig,
                          .beta_fast = static_cast<double>(rope.beta_fast),
                          .beta_slow = static_cast<double>(rope.beta_slow),
                          .attention_factor = attn_factor * posenc::yarn_mscale(factor)});
}
// [/ggml]

/// The same frequencies by the definition of ggml's arguments, in double.
std::vector<double> plain_yarn(const GgmlRope& rope) {
  const auto base = static_cast<double>(rope.freq_base);
  const auto scale = static_cast<double>(rope.freq_scale);
  const auto ext_factor = static_cast<double>(rope.ext_factor);
  const auto pair_of = [&](float rotations) {
    const double length = rope.n_ctx_orig / (2 * std::acos(-1.0) * static_cast<double>(rotations));
    return rope.n_dims * std::log(length) / (2 * std::log(base));
  };
  const double low = std::max(0.0, std::floor(pair_of(rope.beta_fast)));
  const double high = std::min(rope.n_dims - 1.0, std::ceil(pair_of(rope.beta_slow)));
  std::vector<double> inv_freq;
  for (int i = 0; i < rope.n_dims / 2; ++i) {
    const double kept = 1 - std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
    const double mix = ext_factor * kept;
    inv_freq.push_back(std::pow(base, -2.0 * i / rope.n_dims) * (scale * (1 - mix) + mix));
  }
  return inv_freq;
}

// [mlx]
/// Returns the frequencies of mx.fast.rope: its `freqs` are the reciprocals of inv_freq, and its
/// `scale` multiplies positions.
posenc::Frequencies frequencies_of_mlx(const std::vector<double>& freqs, double scale) {
  std::vector<double> inv_freq;
  for (const double freq : freqs) inv_freq.push_back(scale / freq);
  return posenc::Frequencies::from_inv_freq(inv_freq);
}
// [/mlx]

/// x cos + rotate_half(x) sin for one head at a position, as in Hugging Face's models.
Numbers plain_rotate_half(const Numbers& x, float position) {
  Numbers y(x.size());
  const std::size_t half = x.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(x.size());
    const float angle = position * std::pow(10000.0F, -exponent);
    y[i] = x[i] * std::cos(angle) - x[i + half] * std::sin(angle);
    y[i + half] = x[i + half] * std::cos(angle) + x[i] * std::sin(angle);
  }
  return y;
}

template <class Pairing>
float score(const Numbers& weights, const Numbers& x, Index distance) {
  const posenc::Rope<Pairing> rope(posenc::Unscaled{.rotary_dim = dim, .base = 10000});
  Numbers q(static_cast<std::size_t>(dim));
  for (std::size_t row = 0; row < q.size(); ++row) {
    for (std::size_t c = 0; c < q.size(); ++c) q[row] += weights[row * q.size() + c] * x[c];
  }
  Numbers k = q;
  rope.rotate(view_bhsd(q.data(), 1, 1, 1, dim), posenc::Positions::range(distance, 1));
  rope.rotate(view_bhsd(k.data(), 1, 1, 1, dim), posenc::Positions::range(0, 1));
  float sum = 0;
  for (std::size_t c = 0; c < q.size(); ++c) sum += q[c] * k[c];
  return sum;
}

}  // namespace

int main() {
  bool ok = true;
  const auto check = [&ok](const char* what, bool condition) {
    std::cout << (condition ? "agrees: " : "WRONG:  ") << what << '\n';
    ok = ok && condition;
  };
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Numbers q = numbers(batch * heads * queries * dim, 1), out(q.size());
  Numbers k = numbers(batch * kv_heads * keys * dim, 2),
          v = numbers(batch * kv_heads * keys * dim, 3);
  const float scale = 1 / std::sqrt(static_cast<float>(dim));
  const auto agrees = [&](float factor, const auto& mask) {
    return largest_difference(out, plain_attention(q, k, v, factor, mask)) < 1e-5F;
  };

  // [sdpa]
  const auto q_view = view_bhsd(q.data(), batch, heads, queries, dim);
  const auto k_view = view_bhsd(k.data(), batch, kv_heads, keys, dim);
  const auto v_view = view_bhsd(v.data(), batch, kv_heads, keys, dim);
  const auto out_view = view_bhsd(out.data(), batch, heads, queries, dim);

  // F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
  posenc::attention(q_view, k_view, v_view, out_view, {.causal = posenc::Causal::TopLeft});
  // [/sdpa]
  check("scaled_dot_product_attention, is_causal",
        agrees(scale, [&](Index, Index i, Index j) { return j <= i ? 0 : -infinity; }));

  // [flash]
  // flash_attn_func(q, k, v, causal=True), mx.fast.scaled_dot_product_attention(..., mask="causal")
  posenc::attention(q_view, k_view, v_view, out_view, {.causal = posenc::Causal::BottomRight});
  // [/flash]
  check("flash_attn_func, causal", agrees(scale, [&](Index, Index i, Index j) {
          return j <= i + keys - queries ? 0 : -infinity;
        }));

  bool is_kept[queries * keys];
  Numbers bias = numbers(queries * keys, 4);
  for (Index n = 0; n < queries * keys; ++n) is_kept[n] = n % 3 != 1;
  // [mask]
  // F.scaled_dot_product_attention(q, k, v, attn_mask=keep, scale=0.5), keep a bool tensor [1, 1, L, S]
  posenc::attention(
      q_view, k_view, v_view, out_view,
      {.scale = 0.5,
       .causal = posenc::Causal::No,
       .keep = {.data = is_kept, .batch = 1, .heads = 1, .queries = queries, .keys = keys}});
  // [/mask]
  check("scaled_dot_product_attention, bool mask", agrees(0.5F, [&](Index, Index i, Index j) {
          return is_kept[i * keys + j] ? 0 : -infinity;
        }));
  posenc::attention(
      q_view, k_view, v_view, out_view,
      {.causal = posenc::Causal::No,
       .additive = {
           .data = bias.data(), .batch = 1, .heads = 1, .queries = queries, .keys = keys}});
  check("scaled_dot_product_attention, float mask", agrees(scale, [&](Index, Index i, Index j) {
          return bias[static_cast<std::size_t>(i * keys + j)];
        }));

  // [alibi]
  // ggml_soft_max_ext(kq, mask, scale, max_bias = 8), mask -|position of query - position of key|
  posenc::attention(
      q_view, k_view, v_view, out_view, {.causal = posenc::Causal::BottomRight},
      posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Causal, .max_bias = 8}));
  // [/alibi]
  check("ggml_soft_max_ext, max_bias", agrees(scale, [&](Index h, Index i, Index j) {
          const Index distance = i + keys - queries - j;
          return distance < 0
                     ? -infinity
                     : -std::exp2(-2.0F * static_cast<float>(h + 1)) * static_cast<float>(distance);
        }));

  Numbers head = numbers(dim, 5);
  const Numbers rotated = plain_rotate_half(head, 100);
  posenc::Rope<posenc::HalfRotate>(posenc::Unscaled{.rotary_dim = dim, .base = 10000})
      .rotate(view_bhsd(head.data(), 1, 1, 1, dim), posenc::Positions::range(100, 1));
  check("apply_rotary_pos_emb", largest_difference(head, rotated) < 1e-4F);

  const GgmlRope yarn{.n_dims = 128,
                      .n_ctx_orig = 4096,
                      .freq_base = 10000,
                      .freq_scale = 1.0F / 32,
                      .ext_factor = 1};
  const std::vector<double> ours = frequencies_of(yarn).inv_freq(), theirs = plain_yarn(yarn);
  check("ggml_rope_ext with YaRN",
        std::equal(ours.begin(), ours.end(), theirs.begin(),
                   [](double a, double b) { return std::abs(a - b) < 1e-12 * b; }));
  check("... its attention factor",
        std::abs(frequencies_of(yarn).attention_factor() - (1 + 0.1 * std::log(32.0))) < 1e-12);
  check("mx.fast.rope with freqs",
        frequencies_of_mlx({1, 100}, 0.25).inv_freq() == std::vector<double>{0.25, 0.0025});

  // [permute]
  // llama.cpp stores W_q and W_k of Llama in the order of GGML_ROPE_TYPE_NORMAL.
  Numbers weights = numbers(dim * dim, 6);  // of one head, as in the file of Hugging Face
  Numbers permuted = weights;
  posenc::permute_pairs<posenc::HalfRotate, posenc::Interleaved>(
      posenc::MatrixView<float>{.data = permuted.data(), .rows = dim, .cols = dim},
      {.head_dim = dim, .rotary_dim = dim});
  // [/permute]
  const Numbers x = numbers(dim, 7);
  const float expected = score<posenc::HalfRotate>(weights, x, 9);
  check("llama.cpp's permuted weights",
        std::abs(score<posenc::Interleaved>(permuted, x, 9) - expected) < 1e-5F);
  check("... give other scores with the other pairing",
        std::abs(score<posenc::HalfRotate>(permuted, x, 9) - expected) > 1e-2F);
  return ok ? 0 : 1;
}
