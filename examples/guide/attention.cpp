// SPDX-License-Identifier: MIT
// The lines of attention.md: options, biases, masks, results other than the output, a workspace,
// and attention over keys that arrive in parts.
#include <posenc/attention/attention.hpp>
#include <posenc/attention/merge.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/tensor/eigen.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <limits>

using posenc::Index;
using Heads = Eigen::Tensor<float, 4, Eigen::RowMajor>;  // x(b, s, h, d)

namespace {

int failures = 0;

void expect(bool holds, const char* claim) {
  if (holds) return;
  std::cout << "wrong: " << claim << '\n';
  ++failures;
}

bool same_bits(const Heads& a, const Heads& b) {
  return std::equal(a.data(), a.data() + a.size(), b.data());
}

float largest_difference(const Heads& a, const Heads& b) {
  float largest = 0;
  for (Index i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a.data()[i] - b.data()[i]));
  }
  return largest;
}

constexpr Index batch = 2, seq = 40, heads = 8, kv_heads = 2, dim = 32;

}  // namespace

int main() {
  Heads q(batch, seq, heads, dim), out(batch, seq, heads, dim);
  Heads k(batch, seq, kv_heads, dim), v(batch, seq, kv_heads, dim);
  q.setRandom(), k.setRandom(), v.setRandom();

  posenc::attention(posenc::bshd(q), posenc::bshd(k), posenc::bshd(v), posenc::bshd(out),
                    {.scale = 0.0625,                  // Gemma, Granite; default 1 / sqrt(head_dim)
                     .softmax_scale_multiplier = 1.0,  // rope.softmax_scale_multiplier()
                     .causal = posenc::Causal::BottomRight,  // required
                     .window = posenc::sliding_window(16),   // keys, the query's own included
                     .softcap = 50,
                     .softcap_order = posenc::SoftcapOrder::BeforeBias},
                    posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Causal}));

  // Keys that the window hides do not matter, even if they hold NaN.
  Heads nan_key = k, same = out;
  nan_key.chip(0, 1).setConstant(std::numeric_limits<float>::quiet_NaN());
  posenc::attention(posenc::bshd(q), posenc::bshd(nan_key), posenc::bshd(v), posenc::bshd(same),
                    {.scale = 0.0625,
                     .causal = posenc::Causal::BottomRight,
                     .window = posenc::sliding_window(16),
                     .softcap = 50,
                     .softcap_order = posenc::SoftcapOrder::BeforeBias},
                    posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Causal}));
  const auto last = [](Heads& x) { return posenc::slice_seq(posenc::bshd(x), seq - 1, 1); };
  expect(last(out).row(0, 0, 0)[0] == last(same).row(0, 0, 0)[0], "masked keys do not matter");

  // T5's learned buckets, [num_buckets, heads] as in a checkpoint; T5 does not scale scores.
  Eigen::Tensor<float, 2, Eigen::RowMajor> buckets(32, heads);
  buckets.setRandom();
  const posenc::T5Bias<float> t5(posenc::table_view(buckets),
                                 {.direction = posenc::T5Direction::Bidirectional});
  posenc::attention(posenc::bshd(q), posenc::bshd(k), posenc::bshd(v), posenc::bshd(out),
                    {.scale = 1, .causal = posenc::Causal::No}, t5);

  // Shaw's table of 2 * 8 + 1 relative positions, shared by the heads.
  Heads table(1, 17, 1, dim);
  table.setRandom();
  const posenc::RelativeBias<float> shaw{.table = posenc::bshd(table),
                                         .index = {.order = posenc::RelativeOrder::KeyMinusQuery,
                                                   .first = -8,
                                                   .beyond = posenc::BeyondTable::Nearest},
                                         .scale = posenc::RelativeScale::Scaled};
  posenc::attention(posenc::bshd(q), posenc::bshd(k), posenc::bshd(v), posenc::bshd(out),
                    {.causal = posenc::Causal::No}, shaw);

  // Row 1 has 25 keys: a length, or a mask of which true means visible, give the same bits.
  const std::array<Index, batch> lengths{seq, 25};
  const posenc::AttentionOptions<float> by_length{.causal = posenc::Causal::TopLeft,
                                                  .key_lengths = lengths};
  Eigen::Tensor<bool, 2, Eigen::RowMajor> keep(batch, seq);
  for (Index b = 0; b < batch; ++b) {
    for (Index j = 0; j < seq; ++j) keep(b, j) = b == 0 || j < 25;
  }
  const posenc::AttentionOptions<float> by_mask{.causal = posenc::Causal::TopLeft,
                                                .keep = posenc::bk(keep)};
  Heads masked(batch, seq, heads, dim);
  posenc::attention(posenc::bshd(q), posenc::bshd(k), posenc::bshd(v), posenc::bshd(out),
                    by_length);
  posenc::attention(posenc::bshd(q), posenc::bshd(k), posenc::bshd(v), posenc::bshd(masked),
                    by_mask);
  expect(same_bits(out, masked), "lengths and masks agree");

  posenc::AttentionWorkspace workspace;  // for one call at a time
  Eigen::Tensor<float, 3, Eigen::RowMajor> lse(batch, heads, seq);
  posenc::attention(posenc::bshd(q), posenc::bshd(k), posenc::bshd(v), posenc::bshd(out),
                    {.causal = posenc::Causal::No}, {},
                    {.lse = posenc::bhq(lse), .workspace = &workspace});

  // The keys arrive in two parts, for example from two machines.
  Heads part(batch, seq, heads, dim), merged(batch, seq, heads, dim);
  Eigen::Tensor<float, 3, Eigen::RowMajor> lse_of_part(batch, heads, seq), lse_of_all = lse;
  const auto attend_to = [&](Index first, Index count, Heads& result, auto& lse_of_result) {
    posenc::attention(posenc::bshd(q), posenc::slice_seq(posenc::bshd(k), first, count),
                      posenc::slice_seq(posenc::bshd(v), first, count), posenc::bshd(result),
                      {.causal = posenc::Causal::No}, {},
                      {.lse = posenc::bhq(lse_of_result), .workspace = &workspace});
  };
  attend_to(0, 24, merged, lse_of_all);
  attend_to(24, seq - 24, part, lse_of_part);
  posenc::merge(posenc::bshd(merged), posenc::bhq(lse_of_all), posenc::bshd(part),
                posenc::bhq(lse_of_part));
  expect(largest_difference(merged, out) < 1e-6F, "merged parts equal one call over all keys");
  return failures;
}
