// SPDX-License-Identifier: MIT
// oneDNN's graphs: attention as one partition, as its documentation of scaled dot-product attention
// and of grouped queries has it. Tensors are [1, kv_heads, group, queries or keys, dim]; the mask
// of a prompt is a tensor, since the partition has all scores of a head at once.
#include "onednn.hpp"

#include <oneapi/dnnl/dnnl_graph.hpp>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using bench::AttentionTask, bench::Index;
using dnnl::graph::logical_tensor, dnnl::graph::op, dnnl::graph::tensor;
using Kind = op::kind;
using Type = logical_tensor::data_type;

/// The element type of queries, keys, values and the result. Scores are float.
template <class S>
constexpr Type type_of = Type::f32;
template <>
constexpr Type type_of<Eigen::bfloat16> = Type::bf16;

template <class S>
class Attention {
 public:
  explicit Attention(const AttentionTask& t)
      : t_(t),
        q_(onednn::stored<S>(bench::transposed(t.q, t.queries, t.heads, t.dim))),
        k_(onednn::stored<S>(bench::transposed(t.k, t.keys, t.kv_heads, t.dim))),
        v_(onednn::stored<S>(bench::transposed(t.v, t.keys, t.kv_heads, t.dim))),
        out_(t.q.size()) {
    const Index group = t.heads / t.kv_heads;
    const logical_tensor q = described(type_of<S>, {1, t.kv_heads, group, t.queries, t.dim});
    const logical_tensor k = described(type_of<S>, {1, t.kv_heads, 1, t.keys, t.dim});
    const logical_tensor v = described(type_of<S>, {1, t.kv_heads, 1, t.keys, t.dim});
    const logical_tensor scale = described(Type::f32, {1});
    const logical_tensor mask = described(Type::f32, {1, 1, 1, t.queries, t.keys});
    const logical_tensor out = described(type_of<S>, {1, t.kv_heads, group, t.queries, t.dim});

    std::vector<logical_tensor> inputs;
    const auto add_input = [&](const logical_tensor& x, void* data) {
      inputs.push_back(x);
      inputs_.emplace_back(x, engine_, data);
    };
    add_input(q, q_.data());
    add_input(k, k_.data());
    add_input(v, v_.data());
    add_input(scale, &scale_);
    if (is_masked()) {
      fill_mask();
      add_input(mask, mask_.data());
    }
    outputs_.emplace_back(out, engine_, out_.data());
    compiled_ = partition(q, k, scale, mask, v, out).compile(inputs, {out}, engine_);
  }

  void run() {
    compiled_.execute(stream_, inputs_, outputs_);
    stream_.wait();
  }

  std::vector<float> result() const {
    return bench::transposed({out_.begin(), out_.end()}, t_.heads, t_.queries, t_.dim);
  }

 private:
  logical_tensor described(Type type, const std::vector<Index>& extents) {
    return {ids_++, type, extents, logical_tensor::layout_type::strided};
  }

  op operation(Kind kind, const std::vector<logical_tensor>& inputs, const logical_tensor& output) {
    const std::size_t id = ids_++;
    return {id, kind, inputs, {output}, std::to_string(id)};
  }

  /// Returns softmax(q k^T scale + mask) v.
  dnnl::graph::partition partition(const logical_tensor& q, const logical_tensor& k,
                                   const logical_tensor& scale, const logical_tensor& mask,
                                   const logical_tensor& v, const logical_tensor& out) {
    const std::vector<Index> of_scores{1, t_.kv_heads, t_.heads / t_.kv_heads, t_.queries, t_.keys};
    dnnl::graph::graph graph(engine_.get_kind());
    const logical_tensor products = described(Type::f32, of_scores);
    op product = operation(Kind::MatMul, {q, k}, products);
    product.set_attr<bool>(op::attr::transpose_b, true);
    graph.add_op(product);
    logical_tensor scores = described(Type::f32, of_scores);
    graph.add_op(operation(Kind::Multiply, {products, scale}, scores));
    if (is_masked()) {
      const logical_tensor masked = described(Type::f32, of_scores);
      graph.add_op(operation(Kind::Add, {scores, mask}, masked));
      scores = masked;
    }
    const logical_tensor probabilities = described(type_of<S>, of_scores);
    op softmax = operation(Kind::SoftMax, {scores}, probabilities);
    softmax.set_attr<Index>(op::attr::axis, -1);
    softmax.set_attr<std::string>(op::attr::mode, "inf_as_zero");
    graph.add_op(softmax);
    graph.add_op(operation(Kind::MatMul, {probabilities, v}, out));
    graph.finalize();

    const auto partitions = graph.get_partitions();
    if (partitions.size() != 1 || !partitions[0].is_supported()) {
      throw std::runtime_error("oneDNN: attention is not one partition");
    }
    return partitions[0];
  }

  bool is_masked() const { return t_.queries > 1; }

  void fill_mask() {
    mask_.resize(static_cast<std::size_t>(t_.queries * t_.keys));
    for (Index i = 0; i < t_.queries; ++i) {
      for (Index j = t_.past() + i + 1; j < t_.keys; ++j) {
        mask_[static_cast<std::size_t>(i * t_.keys + j)] = -std::numeric_limits<float>::infinity();
      }
    }
  }

  AttentionTask t_;
  std::vector<S> q_, k_, v_, out_;
  std::vector<float> mask_;
  float scale_ = 1 / std::sqrt(static_cast<float>(t_.dim));
  std::size_t ids_ = 0;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<tensor> inputs_, outputs_;
  dnnl::graph::compiled_partition compiled_;
};

const bool added = onednn::add_peer<Attention>("onednn_graph");

}  // namespace
