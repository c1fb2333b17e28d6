// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/attention.hpp>
#include <posenc/tensor/eigen.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

// Attention operator of ONNX, opset 23 to 25, by posenc::attention.
namespace onnx {

using posenc::Index;

template <class T>
using Tensor4 =
    Eigen::Tensor<T, 4, Eigen::RowMajor>;  // [batch, heads, query, key] or [.., seq, dim]

struct AttentionAttributes {
  bool is_causal = false;
  std::optional<double> scale = std::nullopt;  // if omitted: 1 / sqrt(head size), as in posenc
  double softcap = 0;
  Index left_window_size = -1, right_window_size = -1;  // -1: unbounded
  Index qk_matmul_output_mode = 0;
  // q_num_heads and kv_num_heads state the split of 3-D inputs: posenc::split_heads(bsd(x), heads).
  // softmax_precision has no counterpart: posenc's softmax is in float, or in double for double.
};

template <class T>
struct AttentionInputs {
  posenc::HeadsView<const T> q;
  posenc::HeadsView<const T> k, v;  // past and present concatenated, see concatenate()
  Index past = 0;                   // number of past keys
  // attn_mask, boolean or added; its key axis is as long as the keys, see pad_mask().
  posenc::ScoresView<const bool> keep = {};
  posenc::ScoresView<const posenc::Compute<T>> additive = {};
  std::span<const Index> nonpad_kv_seqlen = {};
};

/// Returns present_key of past_key and K, or present_value of past_value and V, as [B, H, S, D].
template <class T>
Tensor4<T> concatenate(posenc::HeadsView<const T> past, posenc::HeadsView<const T> now) {
  Tensor4<T> present(now.batch, now.heads, past.seq + now.seq, now.dim);
  const auto out = posenc::bhsd(present);
  for (Index b = 0; b < out.batch; ++b) {
    for (Index h = 0; h < out.heads; ++h) {
      for (Index s = 0; s < out.seq; ++s) {
        const T* row = s < past.seq ? past.row(b, s, h) : now.row(b, s - past.seq, h);
        std::copy_n(row, out.dim, out.row(b, s, h));
      }
    }
  }
  return present;
}

/// Pads a mask that is shorter than the keys, with false or -inf.
template <class M>
Tensor4<M> pad_mask(posenc::ScoresView<const M> mask, Index keys, M hidden) {
  Tensor4<M> padded(mask.batch, mask.heads, mask.queries, std::max(keys, Index{mask.keys}));
  const auto out = posenc::bhqk(padded);
  for (Index b = 0; b < out.batch; ++b) {
    for (Index h = 0; h < out.heads; ++h) {
      for (Index i = 0; i < out.queries; ++i) {
        for (Index j = 0; j < out.keys; ++j) {
          out(b, h, i, j) = j < mask.keys ? mask(b, h, i, j) : hidden;
        }
      }
    }
  }
  return padded;
}

/// Returns the key that is aligned with query 0 of each batch row. It follows the past; or the last
/// query is aligned with the last valid key, so that query 0 may precede the first key; or it is
/// key 0.
template <class T>
std::vector<Index> first_queries(const AttentionInputs<T>& inputs) {
  std::vector<Index> first(static_cast<std::size_t>(inputs.q.batch), inputs.past);
  for (std::size_t b = 0; b < std::min(first.size(), inputs.nonpad_kv_seqlen.size()); ++b) {
    first[b] = inputs.nonpad_kv_seqlen[b] - inputs.q.seq;
  }
  return first;
}

/// Computes y, and qk_matmul_output if it has data.
template <class T>
void attention(const AttentionAttributes& attributes, const AttentionInputs<T>& inputs,
               posenc::HeadsView<T> y,
               posenc::ScoresView<posenc::Compute<T>> qk_matmul_output = {}) {
  const std::vector<Index> starts = first_queries(inputs);
  posenc::AttentionOptions<T> options;
  options.scale = attributes.scale;
  options.keep = inputs.keep;
  options.additive = inputs.additive;
  options.key_lengths = inputs.nonpad_kv_seqlen;

  // Without a cache this is Causal::TopLeft. With nonpad_kv_seqlen, and with as many new keys as
  // queries after a past, it is Causal::BottomRight. query_starts expresses all three, for the
  // window too.
  options.query_starts = starts;
  options.causal = attributes.is_causal ? posenc::Causal::FromStart : posenc::Causal::No;
  options.window = {.left = attributes.left_window_size, .right = attributes.right_window_size};
  if (attributes.softcap != 0) {
    options.softcap = attributes.softcap;
    options.softcap_order = posenc::SoftcapOrder::BeforeBias;
  }
  using posenc::ReturnedScores;
  constexpr std::array modes{ReturnedScores::Scaled, ReturnedScores::Capped, ReturnedScores::Masked,
                             ReturnedScores::Probabilities};
  posenc::attention(
      inputs.q, inputs.k, inputs.v, y, options, {},
      {.weights = qk_matmul_output,
       .returned = modes.at(static_cast<std::size_t>(attributes.qk_matmul_output_mode))});
}

}  // namespace onnx
