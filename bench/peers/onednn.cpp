// SPDX-License-Identifier: MIT
// oneDNN 2: attention of its primitives: two products of all heads, with a mask and a softmax
// between them. Slower variants are avoided: the mask as a part of the first product, which would
// use the plain reference, and interleaved heads. Tensors are [heads, seq, head_dim].
#include "peers.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <cmath>
#include <limits>
#include <memory>
#include <unordered_map>

extern "C" void omp_set_num_threads(int count);  // of the OpenMP runtime that it was built with

namespace {

using bench::AttentionTask, bench::Index;
using dnnl::matmul, dnnl::memory, dnnl::softmax_forward;
using Arguments = std::unordered_map<int, memory>;

struct Attention {
  explicit Attention(const AttentionTask& t)
      : queries(t.queries),
        q_numbers(bench::transposed(t.q, t.queries, t.heads, t.dim)),
        k_numbers(bench::transposed(t.k, t.keys, t.heads, t.dim)),
        v_numbers(bench::transposed(t.v, t.keys, t.heads, t.dim)),
        out(t.q.size()),
        mask(static_cast<std::size_t>(t.queries * t.keys)) {
    const Index past = t.keys - t.queries;
    for (Index i = 0; i < t.queries; ++i) {
      for (Index j = past + i + 1; j < t.keys; ++j) {
        mask[static_cast<std::size_t>(i * t.keys + j)] = -std::numeric_limits<float>::infinity();
      }
    }
    const auto dense = [](const memory::dims& extents) {
      return memory::desc(extents, memory::data_type::f32, memory::format_tag::abc);
    };
    const auto of_queries = dense({t.heads, t.queries, t.dim});
    const auto of_all_keys = dense({t.heads, t.keys, t.dim});
    const memory q(of_queries, engine, q_numbers.data()), result(of_queries, engine, out.data());
    const memory k_transposed(of_all_keys.permute_axes({0, 2, 1}), engine, k_numbers.data());
    const memory v(of_all_keys, engine, v_numbers.data());
    const memory seen(dense({1, t.queries, t.keys}), engine, mask.data());
    const memory scores(dense({t.heads, t.queries, t.keys}), engine);

    dnnl::primitive_attr scaled;
    scaled.set_output_scales(0, {1 / std::sqrt(static_cast<float>(t.dim))});
    products_with_keys =
        matmul({{q.get_desc(), k_transposed.get_desc(), scores.get_desc()}, scaled, engine});
    add_mask = dnnl::binary(
        {{dnnl::algorithm::binary_add, scores.get_desc(), seen.get_desc(), scores.get_desc()},
         engine});
    softmax = softmax_forward({{dnnl::prop_kind::forward_inference, scores.get_desc(), 2}, engine});
    products_with_values = matmul({{scores.get_desc(), v.get_desc(), result.get_desc()}, engine});
    of_keys = {{DNNL_ARG_SRC, q}, {DNNL_ARG_WEIGHTS, k_transposed}, {DNNL_ARG_DST, scores}};
    of_mask = {{DNNL_ARG_SRC_0, scores}, {DNNL_ARG_SRC_1, seen}, {DNNL_ARG_DST, scores}};
    of_softmax = {{DNNL_ARG_SRC, scores}, {DNNL_ARG_DST, scores}};
    of_values = {{DNNL_ARG_SRC, scores}, {DNNL_ARG_WEIGHTS, v}, {DNNL_ARG_DST, result}};
  }

  void run() {
    products_with_keys.execute(stream, of_keys);
    if (queries > 1) add_mask.execute(stream, of_mask);
    softmax.execute(stream, of_softmax);
    products_with_values.execute(stream, of_values);
    stream.wait();
  }

  Index queries;
  std::vector<float> q_numbers, k_numbers, v_numbers, out, mask;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  matmul products_with_keys, products_with_values;
  dnnl::binary add_mask;
  softmax_forward softmax;
  Arguments of_keys, of_mask, of_softmax, of_values;
};

bench::Prepared attention(const AttentionTask& task) {
  omp_set_num_threads(1);
  const auto state = std::make_shared<Attention>(task);
  return {
      [state] { state->run(); },
      [state, task] { return bench::transposed(state->out, task.heads, task.queries, task.dim); }};
}

std::string version() {
  const dnnl_version_t* const v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

const bool added =
    bench::add_peer({.name = "onednn", .version = version(), .attention = attention});

}  // namespace
