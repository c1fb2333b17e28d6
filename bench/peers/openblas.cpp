// SPDX-License-Identifier: MIT
// OpenBLAS: attention of its products, one head after the other, with the softmax of the naive
// baseline.
#include "../attention/naive.hpp"
#include "peers.hpp"

#include <cblas.h>

#include <memory>
#include <sstream>

namespace {

using bench::AttentionTask, bench::Index;

struct Attention {
  explicit Attention(const AttentionTask& t)
      : task(t), scores(t.queries, t.keys), out(task.q.size()) {}

  void run() {
    for (Index h = 0; h < task.heads; ++h) head(h);
  }

  void head(Index h) {
    const Index kv_offset = h / (task.heads / task.kv_heads) * task.dim;
    const float *q = task.q.data() + h * task.dim, *k = task.k.data() + kv_offset;
    const float* v = task.v.data() + kv_offset;
    float* const result = out.data() + h * task.dim;
    const auto queries = static_cast<blasint>(task.queries), keys = static_cast<blasint>(task.keys);
    const auto dim = static_cast<blasint>(task.dim), row = dim * static_cast<blasint>(task.heads);
    const auto kv_row = dim * static_cast<blasint>(task.kv_heads);
    const float scale = 1 / std::sqrt(static_cast<float>(dim));
    if (queries == 1) {
      cblas_sgemv(CblasRowMajor, CblasNoTrans, keys, dim, 1, k, kv_row, q, 1, 0, scores.data(), 1);
    } else {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, queries, keys, dim, 1, q, row, k, kv_row,
                  0, scores.data(), keys);
    }
    bench::causal_softmax(scores, scale);
    if (queries == 1) {
      cblas_sgemv(CblasRowMajor, CblasTrans, keys, dim, 1, v, kv_row, scores.data(), 1, 0, result,
                  1);
    } else {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, queries, dim, keys, 1, scores.data(),
                  keys, v, kv_row, 0, result, row);
    }
  }

  AttentionTask task;
  bench::ScoreMatrix scores;
  std::vector<float> out;
};

bench::Prepared attention(const AttentionTask& task) {
  openblas_set_num_threads(1);
  const auto state = std::make_shared<Attention>(task);
  return {[state] { state->run(); }, [state] { return state->out; }};
}

/// Returns the version at run time, which may differ from that at compile time: the second word of
/// "OpenBLAS 0.3.21 ... SkylakeX ...".
std::string version() {
  std::istringstream words(openblas_get_config());
  std::string name, number;
  words >> name >> number;
  return number + ", kernels " + openblas_get_corename();
}

const bool added =
    bench::add_peer({.name = "openblas", .version = version(), .attention = attention});

}  // namespace
