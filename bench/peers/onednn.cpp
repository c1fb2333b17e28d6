// SPDX-License-Identifier: MIT
// oneDNN: attention of its products, a block of 512 rows of a key head at a time, with our plain
// softmax between them. Masked keys after a block are left out. Rows are [kv_heads, queries, group],
// so that one product serves all query heads of a key head.
#include "onednn.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace {

using bench::AttentionTask, bench::Index;
using dnnl::matmul, dnnl::memory;
using Type = memory::data_type;

matmul product(const dnnl::engine& engine, const memory::desc& x, const memory::desc& y,
               const memory::desc& result) {
#if DNNL_VERSION_MAJOR >= 3
  return matmul(matmul::primitive_desc(engine, x, y, result));
#else
  return matmul(matmul::primitive_desc({x, y, result}, engine));
#endif
}

/// The element type of queries, keys, values and probabilities. Products are float.
template <class S>
constexpr Type type_of = Type::f32;
template <>
constexpr Type type_of<Eigen::bfloat16> = Type::bf16;

template <class S>
class Attention {
 public:
  explicit Attention(const AttentionTask& task)
      : t_(task),
        group_(t_.heads / t_.kv_heads),
        q_(onednn::stored<S>(bench::transposed(t_.q, t_.queries, t_.kv_heads, group_ * t_.dim))),
        k_(onednn::stored<S>(bench::transposed(t_.k, t_.keys, t_.kv_heads, t_.dim))),
        v_(onednn::stored<S>(bench::transposed(t_.v, t_.keys, t_.kv_heads, t_.dim))),
        out_(t_.q.size()) {
    const Index step = std::max<Index>(1, max_rows / group_);
    for (Index first = 0; first < t_.queries; first += step) {
      add_block(first, std::min(first + step, t_.queries));
    }
    const auto most = static_cast<std::size_t>(step * group_ * t_.keys);
    scores_.resize(most);
    probabilities_.resize(most);
  }

  void run() {
    for (Index h = 0; h < t_.kv_heads; ++h) {
      for (const Block& block : blocks_) run_block(h, block);
    }
  }

  std::vector<float> result() const {
    return bench::transposed(out_, t_.kv_heads, t_.queries, group_ * t_.dim);
  }

 private:
  static constexpr Index max_rows = 512;

  struct Block {
    Index first, end, keys;  ///< queries, and the keys that the last of them sees
    memory::desc q, k, scores, probabilities, v, out;
    matmul score_product, value_product;
  };

  void add_block(Index first, Index end) {
    const Index rows = (end - first) * group_, keys = t_.past() + end;
    const auto desc = [](Type type, Index m, Index n, Index m_stride, Index n_stride) {
      return memory::desc({m, n}, type, memory::dims{m_stride, n_stride});
    };
    constexpr Type s = type_of<S>;
    Block b{.first = first,
            .end = end,
            .keys = keys,
            .q = desc(s, rows, t_.dim, t_.dim, 1),
            .k = desc(s, t_.dim, keys, 1, t_.dim),
            .scores = desc(Type::f32, rows, keys, keys, 1),
            .probabilities = desc(s, rows, keys, keys, 1),
            .v = desc(s, keys, t_.dim, t_.dim, 1),
            .out = desc(Type::f32, rows, t_.dim, t_.dim, 1),
            .score_product = {},
            .value_product = {}};
    b.score_product = product(engine_, b.q, b.k, b.scores);
    b.value_product = product(engine_, b.probabilities, b.v, b.out);
    blocks_.push_back(std::move(b));
  }

  void run_block(Index h, const Block& b) {
    const Index row = (h * t_.queries + b.first) * group_ * t_.dim, key = h * t_.keys * t_.dim;
    const auto on = [&](const memory::desc& d, void* data) { return memory(d, engine_, data); };
    // Its own order of one product each: src, weights, dst.
    b.score_product.execute(stream_, {{DNNL_ARG_SRC, on(b.q, q_.data() + row)},
                                      {DNNL_ARG_WEIGHTS, on(b.k, k_.data() + key)},
                                      {DNNL_ARG_DST, on(b.scores, scores_.data())}});
    stream_.wait();
    softmax(b);
    b.value_product.execute(stream_, {{DNNL_ARG_SRC, on(b.probabilities, probabilities_.data())},
                                      {DNNL_ARG_WEIGHTS, on(b.v, v_.data() + key)},
                                      {DNNL_ARG_DST, on(b.out, out_.data() + row)}});
    stream_.wait();
  }

  void softmax(const Block& b) {
    const float scale = 1 / std::sqrt(static_cast<float>(t_.dim));
    for (Index r = 0; r < (b.end - b.first) * group_; ++r) {
      const Index visible = t_.past() + b.first + r / group_ + 1;
      const auto start = r * b.keys;
      Eigen::Map<Eigen::ArrayXf> x(scores_.data() + start, visible);
      Eigen::Map<Eigen::Array<S, Eigen::Dynamic, 1>> p(probabilities_.data() + start, b.keys);
      x = ((x - x.maxCoeff()) * scale).exp();
      p.head(visible) = (x / x.sum()).template cast<S>();
      p.tail(b.keys - visible).setZero();
    }
  }

  AttentionTask t_;
  Index group_;
  std::vector<S> q_, k_, v_, probabilities_;
  std::vector<float> scores_, out_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::vector<Block> blocks_;
};

const bool added = onednn::add_peer<Attention>("onednn");

}  // namespace
