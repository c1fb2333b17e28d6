// SPDX-License-Identifier: MIT
// attention/ over tensors, forward and backward, with the preparation of inputs and the merge of
// outputs.
#include "tensors.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>
#include <posenc/attention/attention_memory.hpp>
#include <posenc/attention/cosine.hpp>
#include <posenc/attention/dropout.hpp>
#include <posenc/attention/gradients.hpp>
#include <posenc/attention/merge.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/attention/relative_index.hpp>
#include <posenc/attention/workspace.hpp>
#include <posenc/bias/alibi.hpp>

#include <Eigen/Core>

#include <array>
#include <vector>

using posenc::Causal;
using warnings::Index;

template <class T>
double attend() {
  using Real = posenc::Compute<T>;
  auto q = warnings::ones<T>(5, 4, 64), out = q, out_b = q;
  auto k = warnings::ones<T>(9, 2, 64), v = k;
  std::vector<Real> lse(4 * 5), lse_b = lse;
  const std::array<bool, 9> keep{true, true, false, true, true, true, true, true, false};
  const std::vector<Real> sinks(4, Real{0.5});
  posenc::AttentionWorkspace workspace;
  posenc::attention(q.view(), k.view(), v.view(), out.view(),
                    {.causal = Causal::BottomRight,
                     .window = posenc::sliding_window(4),
                     .softcap = 30,
                     .softcap_order = posenc::SoftcapOrder::BeforeBias,
                     .sinks = sinks,
                     .dropout = {.probability = 0.1, .seed = 1}},
                    {}, {.lse = {lse.data(), 1, 4, 5}, .workspace = &workspace});
  posenc::attention(q.view(), k.view(), v.view(), out_b.view(),
                    {.causal = Causal::No, .keep = {keep.data(), 1, 1, 1, 9}},
                    posenc::Alibi({.heads = 4, .form = posenc::AlibiForm::Symmetric}),
                    {.lse = {lse_b.data(), 1, 4, 5}});
  posenc::merge(out.view(), {lse.data(), 1, 4, 5}, out_b.view(), {lse_b.data(), 1, 4, 5});
  auto table = warnings::ones<T>(9, 4, 64);
  posenc::RelativeBias<T> relative;
  relative.index = {.order = posenc::RelativeOrder::QueryMinusKey,
                    .first = -4,
                    .beyond = posenc::BeyondTable::Nearest};
  relative.scale = posenc::RelativeScale::Scaled;
  relative.table = table.view();
  posenc::attention(q.view(), k.view(), v.view(), out.view(), {.causal = Causal::TopLeft},
                    relative);
  const std::vector<double> logit_scale(4, 1);
  posenc::cosine_queries(q.view(), logit_scale);
  posenc::cosine_keys(k.view());
  posenc::add_to_heads(q.view(), posenc::slice_seq(table.view(), 0, 1), out.view());
  return static_cast<double>(out.values[1]) +
         posenc::dropout_factor({.probability = 0.1, .seed = 1}, 0, 1, 2, 3);
}

template <class T>
double go_back() {
  using Real = posenc::Compute<T>;
  auto q = warnings::ones<T>(5, 4, 64), out = q, grad_out = q, grad_q = q;
  auto k = warnings::ones<T>(9, 2, 64), v = k, grad_k = k, grad_v = k;
  std::vector<Real> lse(4 * 5);
  const posenc::AttentionOptions<T> options{.causal = Causal::BottomRight};
  const posenc::AttentionMemory<T> memory{.lse = {lse.data(), 1, 4, 5}};
  const posenc::Alibi alibi({.heads = 4, .form = posenc::AlibiForm::Causal});
  auto of_slopes = alibi.zero_gradient();
  posenc::attention(q.view(), k.view(), v.view(), out.view(), options, alibi, memory);
  const posenc::AttentionGradients<T> gradients{grad_q.view(), grad_k.view(), grad_v.view()};
  posenc::attention_backward<T>(q.view(), k.view(), v.view(), out.view(), memory.lse,
                                grad_out.view(), gradients, options, alibi, of_slopes);
  const std::vector<double> logit_scale(4, 1);
  posenc::cosine_queries_backward<T>(q.view(), logit_scale, grad_q.view());
  posenc::cosine_keys_backward<T>(k.view(), grad_k.view());
  return static_cast<double>(grad_q.values[1]) + of_slopes[2];
}

double attend_across_types() {
  auto q = warnings::ones<float>(5, 4, 64), out = q;
  auto k = warnings::ones<Eigen::bfloat16>(9, 2, 64), v = k;
  posenc::attention(q.view(), k.view(), v.view(), out.view(), {.causal = Causal::BottomRight});
  return static_cast<double>(out.values[1]);
}

double use_attention() {
  return attend_across_types() + attend<float>() + attend<double>() + attend<Eigen::bfloat16>() +
         go_back<float>() + go_back<double>() + go_back<Eigen::bfloat16>();
}
