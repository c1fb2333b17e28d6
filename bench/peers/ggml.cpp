// SPDX-License-Identifier: MIT
// ggml: its rotary operation, which computes its own angles, and its attention in one operation.
// Versions of 2025 and later; of its kernels for several processors it takes this one's. With values
// of 16 bits, llama.cpp's default, it also rounds queries.
#include "peers.hpp"

#include <ggml-backend.h>
#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>

namespace {

using bench::AttentionTask, bench::Index, bench::RotationTask;

/// Returns its processor backend, on one thread.
ggml_backend_t backend() {
  static const ggml_backend_t one_thread = [] {
    ggml_backend_load_all();
    const ggml_backend_t cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr);
    if (cpu == nullptr) throw std::runtime_error("ggml: no kernels for this processor");
    ggml_backend_reg_t const reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(cpu));
    void* const set_threads = ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    reinterpret_cast<ggml_backend_set_n_threads_t>(set_threads)(cpu, 1);
    return cpu;
  }();
  return one_thread;
}

/// Tensors and their graph. ggml lists extents from the innermost one on.
class Graph {
 public:
  explicit Graph(std::size_t bytes) : context(ggml_init({bytes, nullptr, false}), &ggml_free) {
    if (!context) throw std::runtime_error("ggml: no memory for its tensors");
  }

  ggml_tensor* tensor(Index dim, Index heads, Index seq, const std::vector<float>& numbers,
                      ggml_type type = GGML_TYPE_F32) {
    ggml_tensor* const t = ggml_new_tensor_3d(get(), type, dim, heads, seq);
    if (type == GGML_TYPE_F32) {
      std::copy(numbers.begin(), numbers.end(), static_cast<float*>(t->data));
    } else {
      ggml_fp32_to_fp16_row(numbers.data(), static_cast<ggml_fp16_t*>(t->data),
                            static_cast<Index>(numbers.size()));
    }
    return t;
  }

  void compute(ggml_tensor* wanted) {
    result = wanted;
    graph = ggml_new_graph(get());
    ggml_build_forward_expand(graph, wanted);
  }

  void run() {
    if (ggml_backend_graph_compute(backend(), graph) != GGML_STATUS_SUCCESS) {
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
};

bench::Prepared prepared(const std::shared_ptr<Graph>& graph, ggml_tensor* result) {
  graph->compute(result);
  return {[graph] { graph->run(); }, [graph] { return graph->numbers(); }};
}

constexpr std::size_t overhead = std::size_t{1} << 24;  // ample for a graph and its tensors

template <bool in_place>
bench::Prepared rotation(const RotationTask& t) {
  const auto graph = std::make_shared<Graph>(overhead + 3 * t.x.size() * sizeof(float));
  ggml_context* const c = graph->get();
  ggml_tensor* const x = graph->tensor(t.dim, t.heads, t.seq, t.x);
  ggml_tensor* const positions = ggml_new_tensor_1d(c, GGML_TYPE_I32, t.seq);
  for (Index s = 0; s < t.seq; ++s) {
    static_cast<std::int32_t*>(positions->data)[s] = static_cast<std::int32_t>(t.past + s);
  }
  const auto rope = in_place ? ggml_rope_ext_inplace : ggml_rope_ext;
  return prepared(graph, rope(c, x, positions, nullptr, static_cast<int>(t.dim),
                              GGML_ROPE_TYPE_NEOX, 0, static_cast<float>(t.base), 1, 0, 1, 0, 0));
}

/// Attention of ggml_flash_attn_ext, over keys and values of type S in the order of llama.cpp's
/// cache: [keys, kv_heads, dim].
template <ggml_type S>
bench::Prepared attention(const AttentionTask& t) {
  const auto mask_size = static_cast<std::size_t>(t.keys * t.queries);
  const auto graph = std::make_shared<Graph>(
      overhead + (2 * t.q.size() + 2 * t.k.size() + mask_size) * sizeof(float));
  ggml_context* const c = graph->get();
  const auto heads_last = [&](ggml_tensor* x) { return ggml_permute(c, x, 0, 2, 1, 3); };
  ggml_tensor* const q = heads_last(graph->tensor(t.dim, t.heads, t.queries, t.q));
  ggml_tensor* const k = heads_last(graph->tensor(t.dim, t.kv_heads, t.keys, t.k, S));
  ggml_tensor* const v = heads_last(graph->tensor(t.dim, t.kv_heads, t.keys, t.v, S));
  ggml_tensor* mask = nullptr;
  if (t.queries > 1) {
    std::vector<float> masked(mask_size);
    for (Index i = 0; i < t.queries; ++i) {
      for (Index j = t.past() + i + 1; j < t.keys; ++j) {
        masked[static_cast<std::size_t>(i * t.keys + j)] = -std::numeric_limits<float>::infinity();
      }
    }
    mask = graph->tensor(t.keys, t.queries, 1, masked, GGML_TYPE_F16);
  }
  return prepared(
      graph, ggml_flash_attn_ext(c, q, k, v, mask, 1 / std::sqrt(static_cast<float>(t.dim)), 0, 0));
}

const bool added = bench::add_peer({.name = "ggml",
                                    .version = ggml_version(),
                                    .rotation = rotation<true>,
                                    .rotation_into = rotation<false>,
                                    .attention = attention<GGML_TYPE_F32>,
                                    .attention_16_bit = attention<GGML_TYPE_F16>});

}  // namespace
