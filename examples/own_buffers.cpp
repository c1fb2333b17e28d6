// SPDX-License-Identifier: MIT
// An engine with buffers of its own and without Eigen. q, k and v are slices of one fused row per
// token, with positions of 32 bits. Rotated keys and values are stored as bfloat16 in two plain
// arrays, which float queries attend to. Each step reads and writes the arrays where they are.
#include <posenc/without_eigen.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <span>
#include <vector>

#if defined(EIGEN_WORLD_VERSION)
#error "posenc::core must not bring Eigen"
#endif

using posenc::Bfloat16;
using posenc::HeadsView;
using posenc::Index;

namespace {

constexpr Index tokens = 40, heads = 8, kv_heads = 2, head_dim = 64;
constexpr Index fused = (heads + 2 * kv_heads) * head_dim;

std::size_t size(Index count) { return static_cast<std::size_t>(count); }

/// A layer's keys and values, [tokens, kv_heads, head_dim] each.
class Store {
 public:
  HeadsView<Bfloat16> keys(Index first, Index count) { return view(keys_, first, count); }
  HeadsView<Bfloat16> values(Index first, Index count) { return view(values_, first, count); }

 private:
  static HeadsView<Bfloat16> view(std::vector<Bfloat16>& x, Index first, Index count) {
    constexpr Index row = kv_heads * head_dim;
    return {.data = x.data() + first * row,
            .batch = 1,
            .seq = count,
            .heads = kv_heads,
            .dim = head_dim};
  }

  std::vector<Bfloat16> keys_ = std::vector<Bfloat16>(size(tokens * kv_heads * head_dim));
  std::vector<Bfloat16> values_ = keys_;
};

/// Computes attention of tokens first .. first + count - 1, whose fused rows are qkv [count, fused].
void step(float* qkv, std::span<const std::int32_t> positions, Index first, Index count,
          Store& store, float* out) {
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Llama3Scaling{.rotary_dim = head_dim,
                                                                    .base = 500000,
                                                                    .factor = 8,
                                                                    .low_freq_factor = 1,
                                                                    .high_freq_factor = 4,
                                                                    .original_max_position = 8192});
  const HeadsView<float> all{.data = qkv,
                             .batch = 1,
                             .seq = count,
                             .heads = heads + 2 * kv_heads,
                             .dim = head_dim,
                             .seq_stride = fused};
  const auto q = posenc::slice_heads(all, 0, heads);
  const auto k = posenc::slice_heads(all, heads, kv_heads);
  const auto v = posenc::slice_heads(all, heads + kv_heads, kv_heads);
  const auto stored = store.values(first, count);
  const auto table = rope.table<float>(posenc::Positions::view(positions));
  table.rotate(q);
  table.rotate_into(k, store.keys(first, count));
  for (Index s = 0; s < count; ++s) {
    for (Index h = 0; h < kv_heads; ++h) {
      for (Index d = 0; d < head_dim; ++d) stored.row(0, s, h)[d] = Bfloat16(v.row(0, s, h)[d]);
    }
  }
  posenc::attention(
      q, store.keys(0, first + count), store.values(0, first + count),
      HeadsView<float>{.data = out, .batch = 1, .seq = count, .heads = heads, .dim = head_dim},
      {.causal = posenc::Causal::BottomRight});
}

}  // namespace

int main() {
  std::vector<float> qkv(size(tokens * fused));
  for (std::size_t i = 0; i < qkv.size(); ++i) qkv[i] = std::sin(0.1F * static_cast<float>(i));
  std::vector<std::int32_t> positions;
  for (std::int32_t p = 1000; p < 1000 + tokens; ++p) positions.push_back(p);

  std::vector<float> prompt = qkv, one_by_one = qkv;
  std::vector<float> out(size(tokens * heads * head_dim)), out_of_steps = out;
  Store store, store_of_steps;
  step(prompt.data(), positions, 0, tokens, store, out.data());
  for (Index t = 0; t < tokens; ++t) {
    step(one_by_one.data() + t * fused, std::span(positions).subspan(size(t), 1), t, 1,
         store_of_steps, out_of_steps.data() + t * heads * head_dim);
  }
  if (out != out_of_steps) {
    std::cerr << "a prompt and single tokens differ\n";
    return 1;
  }
  std::cout << "a prompt of " << tokens
            << " tokens and single tokens give the same bits: " << out.back() << '\n';
}
