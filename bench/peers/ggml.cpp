// SPDX-License-Identifier: MIT
// ggml: its rotary operation, which computes its own angles, and attention of its operations, with
// values transposed as in llama.cpp. Versions of 2025 and later; never run.
#include "peers.hpp"

#include <ggml-cpu.h>
#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>

namespace {

using bench::AttentionTask, bench::Index, bench::RotationTask;

/// Tensors and their graph. ggml lists extents from the innermost one on.
class Graph {
 public:
  explicit Graph(std::size_t bytes) : context(ggml_init({bytes, nullptr, false}), &ggml_free) {
    if (!context) throw std::runtime_error("ggml: no memory for its tensors");
  }

  ggml_tensor* tensor(Index dim, Index heads, Index seq, const std::vector<float>& numbers) {
    ggml_tensor* const t = ggml_new_tensor_3d(get(), GGML_TYPE_F32, dim, heads, seq);
    std::copy(numbers.begin(), numbers.end(), static_cast<float*>(t->data));
    return t;
  }

  void compute(ggml_tensor* wanted) {
    result = wanted;
    graph = ggml_new_graph(get());
    ggml_build_forward_expand(graph, wanted);
    plan = ggml_graph_plan(graph, 1, nullptr);
    work.resize(plan.work_size);
    plan.work_data = work.data();
  }

  void run() {
    if (ggml_graph_compute(graph, &plan) != GGML_STATUS_SUCCESS) {
      throw std::runtime_error("ggml: a graph failed");
    }
  }

  std::vector<float> numbers() const {
    const auto* const data = static_cast<const float*>(result->data);
    return {data, data + ggml_nelements(result)};
  }

  ggml_context* get() const { return context.get(); }

 private:
  std::unique_ptr<ggml_context, decltype(&ggml_free)> context;
  ggml_cgraph* graph = nullptr;
  ggml_tensor* result = nullptr;
  ggml_cplan plan{};
  std::vector<std::uint8_t> work;
};

bench::Prepared prepared(const std::shared_ptr<Graph>& graph, ggml_tensor* result) {
  graph->compute(result);
  return {[graph] { graph->run(); }, [graph] { return graph->numbers(); }};
}

constexpr std::size_t overhead = std::size_t{1} << 24;  // ample for a graph and its tensors

bench::Prepared rotation(const RotationTask& t) {
  const auto graph = std::make_shared<Graph>(overhead + 2 * t.x.size() * sizeof(float));
  ggml_context* const c = graph->get();
  ggml_tensor* const x = graph->tensor(t.dim, t.heads, t.seq, t.x);
  ggml_tensor* const positions = ggml_new_tensor_1d(c, GGML_TYPE_I32, t.seq);
  for (Index s = 0; s < t.seq; ++s) {
    static_cast<std::int32_t*>(positions->data)[s] = static_cast<std::int32_t>(t.past + s);
  }
  return prepared(
      graph, ggml_rope_ext(c, x, positions, nullptr, static_cast<int>(t.dim), GGML_ROPE_TYPE_NEOX,
                           0, static_cast<float>(t.base), 1, 0, 1, 0, 0));
}

bench::Prepared attention(const AttentionTask& t) {
  const auto scores = static_cast<std::size_t>(t.queries * t.keys * t.heads);
  const auto graph = std::make_shared<Graph>(
      overhead + (4 * t.q.size() + 3 * t.k.size() + 3 * scores) * sizeof(float));
  ggml_context* const c = graph->get();
  std::vector<float> transposed(t.v.size()), hidden(static_cast<std::size_t>(t.keys * t.queries));
  for (Index s = 0; s < t.keys; ++s) {
    for (Index i = 0; i < t.heads * t.dim; ++i) {
      transposed[static_cast<std::size_t>(i * t.keys + s)] =
          t.v[static_cast<std::size_t>(s * t.heads * t.dim + i)];
    }
  }
  for (Index q = 0; q < t.queries; ++q) {
    for (Index k = t.keys - t.queries + q + 1; k < t.keys; ++k) {
      hidden[static_cast<std::size_t>(q * t.keys + k)] = -std::numeric_limits<float>::infinity();
    }
  }
  const auto heads_last = [&](ggml_tensor* x) { return ggml_permute(c, x, 0, 2, 1, 3); };
  ggml_tensor* const q = heads_last(graph->tensor(t.dim, t.heads, t.queries, t.q));
  ggml_tensor* const k = heads_last(graph->tensor(t.dim, t.heads, t.keys, t.k));
  ggml_tensor* const v = graph->tensor(t.keys, t.dim, t.heads, transposed);
  ggml_tensor* const mask = graph->tensor(t.keys, t.queries, 1, hidden);
  ggml_tensor* const probabilities =
      ggml_soft_max_ext(c, ggml_mul_mat(c, k, q), t.queries > 1 ? mask : nullptr,
                        1 / std::sqrt(static_cast<float>(t.dim)), 0);
  return prepared(graph, ggml_cont(c, heads_last(ggml_mul_mat(c, v, probabilities))));
}

const bool added = bench::add_peer(
    {.name = "ggml", .version = ggml_version(), .rotation = rotation, .attention = attention});

}  // namespace
