// SPDX-License-Identifier: MIT
// oneDNN 2: attention of its primitives, two products of all heads with a softmax between them. Scale and
// causal mask are part of the first product, which reads and writes the heads where they lie.
#include "peers.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <cmath>
#include <limits>
#include <memory>
#include <unordered_map>

extern "C" void omp_set_num_threads(int count);  // of the runtime that it was built with

namespace {

using bench::AttentionTask, bench::Index;
using dnnl::matmul, dnnl::memory, dnnl::softmax_forward;
using Arguments = std::unordered_map<int, memory>;

struct Attention {
  explicit Attention(const AttentionTask& t)
      : task(t), mask(static_cast<std::size_t>(t.queries * t.keys)), out(task.q.size()) {
    const Index past = t.keys - t.queries;
    for (Index i = 0; i < t.queries; ++i) {
      for (Index j = past + i + 1; j < t.keys; ++j) {
        mask[static_cast<std::size_t>(i * t.keys + j)] = -std::numeric_limits<float>::infinity();
      }
    }
    const auto heads = [&](Index rows, std::vector<float>& x) {
      const memory::dims strides{t.dim, t.heads * t.dim, 1};
      return memory({{t.heads, rows, t.dim}, memory::data_type::f32, strides}, engine, x.data());
    };
    const memory q = heads(t.queries, task.q), k = heads(t.keys, task.k);
    const memory v = heads(t.keys, task.v), result = heads(t.queries, out);
    const memory k_transposed(k.get_desc().permute_axes({0, 2, 1}), engine, task.k.data());
    const memory seen({{1, t.queries, t.keys}, memory::data_type::f32, memory::format_tag::abc},
                      engine, mask.data());
    const memory scores(
        {{t.heads, t.queries, t.keys}, memory::data_type::f32, memory::format_tag::abc}, engine);

    dnnl::post_ops add_mask;
    add_mask.append_binary(dnnl::algorithm::binary_add, seen.get_desc());
    dnnl::primitive_attr scaled;
    scaled.set_output_scales(0, {1 / std::sqrt(static_cast<float>(t.dim))});
    if (t.queries > 1) scaled.set_post_ops(add_mask);
    products_with_keys =
        matmul({{q.get_desc(), k_transposed.get_desc(), scores.get_desc()}, scaled, engine});
    softmax = softmax_forward({{dnnl::prop_kind::forward_inference, scores.get_desc(), 2}, engine});
    products_with_values = matmul({{scores.get_desc(), v.get_desc(), result.get_desc()}, engine});
    of_keys = {{DNNL_ARG_SRC, q}, {DNNL_ARG_WEIGHTS, k_transposed}, {DNNL_ARG_DST, scores}};
    if (t.queries > 1) of_keys.emplace(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, seen);
    of_softmax = {{DNNL_ARG_SRC, scores}, {DNNL_ARG_DST, scores}};
    of_values = {{DNNL_ARG_SRC, scores}, {DNNL_ARG_WEIGHTS, v}, {DNNL_ARG_DST, result}};
  }

  void run() {
    products_with_keys.execute(stream, of_keys);
    softmax.execute(stream, of_softmax);
    products_with_values.execute(stream, of_values);
    stream.wait();
  }

  AttentionTask task;
  std::vector<float> mask, out;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  matmul products_with_keys, products_with_values;
  softmax_forward softmax;
  Arguments of_keys, of_softmax, of_values;
};

bench::Prepared attention(const AttentionTask& task) {
  omp_set_num_threads(1);
  const auto state = std::make_shared<Attention>(task);
  return {[state] { state->run(); }, [state] { return state->out; }};
}

std::string version() {
  const dnnl_version_t* const v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

const bool added =
    bench::add_peer({.name = "onednn", .version = version(), .attention = attention});

}  // namespace
