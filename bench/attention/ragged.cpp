// SPDX-License-Identifier: MIT
// A server's step: a prompt beside the next tokens of other sequences, in one call on two threads.
#define EIGEN_USE_THREADS

#include "cached.hpp"

#include <vector>

namespace {

using bench::AttentionModel, bench::Index, bench::Tensor4;

constexpr Index sequences = 64, prompt = 512, context = 1024;

/// 63 sequences of `context` keys and a prompt, which comes last, and their new queries.
struct Batch {
  explicit Batch(const AttentionModel& m)
      : model(m),
        cache({.sequences = sequences,
               .kv_heads = m.kv_heads,
               .head_dim = m.head_dim,
               .capacity = 131072},
              posenc::KvBlockPool({.byte_limit = std::size_t{1} << 40})),
        q(bench::random_tensor(sequences - 1 + prompt, m.heads, m.head_dim)),
        out(q) {
    const Tensor4 keys = bench::random_tensor(context, m.kv_heads, m.head_dim);
    const auto k = posenc::bshd(keys);
    for (Index n = 0; n < sequences; ++n) {
      const Index length = n < sequences - 1 ? context : prompt, queries = queries_of(n);
      cache.append(n, posenc::slice_seq(k, 0, length), posenc::slice_seq(k, 0, length));
      names.push_back(n);
      offsets.push_back(offsets.back() + queries);
      const bench::Work work = bench::causal_work(queries, length);
      flop += bench::flop(m, work);
    }
  }

  static Index queries_of(Index n) { return n < sequences - 1 ? 1 : prompt; }

  template <class D>
  void together(const D& device) {
    posenc::attention(
        device, posenc::bshd(q), cache, names, posenc::bshd(out),
        {.causal = posenc::Causal::BottomRight, .cu_seqlens_q = offsets, .workspace = &workspace});
  }
  void one_by_one() {
    for (Index n = 0; n < sequences; ++n) {
      const Index first = offsets[static_cast<std::size_t>(n)], queries = queries_of(n);
      posenc::attention(posenc::slice_seq(posenc::bshd(q), first, queries), cache, {n},
                        posenc::slice_seq(posenc::bshd(out), first, queries),
                        {.causal = posenc::Causal::BottomRight, .workspace = &workspace});
    }
  }

  AttentionModel model;
  posenc::KvCache<Eigen::bfloat16> cache;
  Tensor4 q, out;
  std::vector<Index> names, offsets{0};
  posenc::AttentionWorkspace workspace;
  double flop = 0;
};

/// vs_one_thread: how many times faster than a call for each sequence on one thread.
void ragged_case(benchmark::State& state, const AttentionModel& model) {
  Batch batch(model);
  Eigen::ThreadPool pool(2);
  const Eigen::ThreadPoolDevice device(&pool, 2);
  bench::Comparison comparison(state, [&] { batch.together(device); });
  const double seconds =
      comparison.faster_than("vs_one_thread", [&] { batch.one_by_one(); }).measure();
  state.counters["flop_rate"] = batch.flop / seconds * 1e-9;  // GFLOP/s
  bench::tell_workspace(state, batch);
}

const bool added =
    (bench::add("attention/llama3_8b/ragged_512_and_63/threads_2",
                [](benchmark::State& state) { ragged_case(state, bench::llama3_8b); }),
     true);

}  // namespace
