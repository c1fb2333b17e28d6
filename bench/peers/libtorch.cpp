// SPDX-License-Identifier: MIT
// libtorch: rotation and attention composed of its operations, as in models of Hugging Face, and
// its scaled_dot_product_attention. Tensors are [batch, heads, seq, head_dim], as in these models.
#include "peers.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/api/include/torch/version.h>

#include <cmath>
#include <limits>
#include <memory>

namespace {

using at::Tensor;
using bench::AttentionTask, bench::Index, bench::RotationTask;

/// Returns a copy of [seq, heads, dim] as [1, heads, seq, dim].
Tensor heads_first(const std::vector<float>& x, Index seq, Index heads, Index dim) {
  return at::from_blob(const_cast<float*>(x.data()), {1, seq, heads, dim}, at::kFloat)
      .transpose(1, 2)
      .clone(at::MemoryFormat::Contiguous);
}

std::vector<float> tokens_first(const Tensor& x) {
  const Tensor y = x.transpose(1, 2).contiguous();
  return {y.data_ptr<float>(), y.data_ptr<float>() + y.numel()};
}

/// Runs operations without the records of autograd.
template <class Operations>
bench::Prepared prepared(const Operations& operations) {
  at::set_num_threads(1);
  const auto out = std::make_shared<Tensor>();
  return {[=] {
            const c10::InferenceMode no_gradients;
            *out = operations();
          },
          [=] { return tokens_first(*out); }};
}

Tensor rotate_half(const Tensor& x) {
  const Index pairs = x.size(-1) / 2;
  return at::cat({-x.slice(-1, pairs), x.slice(-1, 0, pairs)}, -1);
}

bench::Prepared rotation(const RotationTask& t) {
  const Tensor x = heads_first(t.x, t.seq, t.heads, t.dim);
  const auto both_halves = [&](const std::vector<float>& table) {
    const Tensor half = heads_first(table, t.seq, 1, t.dim / 2);
    return at::cat({half, half}, -1);
  };
  const Tensor cos = both_halves(t.cos), sin = both_halves(t.sin);
  return prepared([=] { return x * cos + rotate_half(x) * sin; });
}

/// Calls use(q, k, v), with a copy of each key head for every query head, as these models have.
/// Tasks with more than 1 GiB of scores are left out: new pages would take most of the time.
template <class Use>
bench::Prepared with_heads(const AttentionTask& t, const Use& use) {
  if (t.heads * t.queries * t.keys > Index{1} << 28) return {};
  const Tensor q = heads_first(t.q, t.queries, t.heads, t.dim);
  const Index group = t.heads / t.kv_heads;
  const Tensor k = heads_first(t.k, t.keys, t.kv_heads, t.dim).repeat_interleave(group, 1);
  const Tensor v = heads_first(t.v, t.keys, t.kv_heads, t.dim).repeat_interleave(group, 1);
  return prepared([=] { return use(q, k, v); });
}

bench::Prepared composed_attention(const AttentionTask& t) {
  const double scale = 1 / std::sqrt(static_cast<double>(t.dim));
  const Tensor mask =
      at::full({t.queries, t.keys}, -std::numeric_limits<float>::infinity(), at::kFloat)
          .triu(t.keys - t.queries + 1);
  return with_heads(t, [=](const Tensor& q, const Tensor& k, const Tensor& v) {
    Tensor scores = at::matmul(q, k.transpose(2, 3)) * scale;
    if (q.size(2) > 1) scores = scores + mask;
    return at::matmul(at::softmax(scores, -1), v);
  });
}

bench::Prepared own_attention(const AttentionTask& t) {
  // Its own causal mask aligns query 0 with key 0.
  if (t.queries > 1 && t.queries < t.keys) return {};
  const bool causal = t.queries > 1;
  return with_heads(t, [=](const Tensor& q, const Tensor& k, const Tensor& v) {
#if TORCH_VERSION_MAJOR >= 2
    return at::scaled_dot_product_attention(q, k, v, {}, 0, causal);
#else
    return std::get<0>(at::_scaled_dot_product_attention(q, k, v, {}, 0, false, causal));
#endif
  });
}

const bool added =
    bench::add_peer({.name = "libtorch",
                     .version = TORCH_VERSION,
                     .rotation_into = rotation,
                     .attention = composed_attention}) &&
    bench::add_peer(
        {.name = "libtorch_sdpa", .version = TORCH_VERSION, .attention = own_attention});

}  // namespace
