// SPDX-License-Identifier: MIT
// Step of a server: a prompt together with the next tokens of other sequences, in one call on two
// threads.
#define EIGEN_USE_THREADS

#include "cached.hpp"
#include "threads.hpp"

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

namespace {

using bench::AttentionModel, bench::Index, bench::Tensor4;

constexpr Index context = 1024;

/// Sequences of `context` keys with one new token each, then prompts, and their new queries.
struct Batch {
  Batch(const AttentionModel& m, Index tokens, const std::vector<Index>& longer)
      : model(m),
        singles(tokens),
        prompts(longer),
        cache({.sequences = sequences(),
               .kv_heads = m.kv_heads,
               .head_dim = m.head_dim,
               .capacity = 131072},
              posenc::KvBlockPool({.byte_limit = std::size_t{1} << 40})),
        q(bench::random_tensor(std::accumulate(prompts.begin(), prompts.end(), singles), m.heads,
                               m.head_dim)),
        out(q) {
    const Tensor4 keys = bench::random_tensor(context, m.kv_heads, m.head_dim);
    const auto k = posenc::bshd(keys);
    for (Index n = 0; n < sequences(); ++n) {
      const Index length = n < singles ? context : queries_of(n), queries = queries_of(n);
      cache.append(n, posenc::slice_seq(k, 0, length), posenc::slice_seq(k, 0, length));
      names.push_back(n);
      offsets.push_back(offsets.back() + queries);
      const bench::Work work = bench::causal_work(queries, length);
      flop += bench::flop(m, work);
    }
  }

  Index sequences() const { return singles + static_cast<Index>(prompts.size()); }
  Index queries_of(Index n) const {
    return n < singles ? 1 : prompts[static_cast<std::size_t>(n - singles)];
  }

  template <class D>
  void together(const D& device) {
    posenc::attention(posenc::bshd(q), cache, names, posenc::bshd(out),
                      {.causal = posenc::Causal::BottomRight, .cu_seqlens_q = offsets}, {},
                      {.workspace = &workspace}, device);
  }
  void one_by_one() {
    for (Index n = 0; n < sequences(); ++n) {
      const Index first = offsets[static_cast<std::size_t>(n)], queries = queries_of(n);
      posenc::attention(posenc::slice_seq(posenc::bshd(q), first, queries), cache, {n},
                        posenc::slice_seq(posenc::bshd(out), first, queries),
                        {.causal = posenc::Causal::BottomRight}, {}, {.workspace = &workspace});
    }
  }

  AttentionModel model;
  Index singles;
  std::vector<Index> prompts;
  posenc::KvCache<Eigen::bfloat16> cache;
  Tensor4 q, out;
  std::vector<Index> names, offsets{0};
  posenc::AttentionWorkspace workspace;
  double flop = 0;
};

/// Compares with one call per sequence on one thread. vs_one_thread: how many times faster.
void ragged_case(benchmark::State& state, const AttentionModel& model, Index singles,
                 const std::vector<Index>& prompts) {
  Batch batch(model, singles, prompts);
  const bench::TwoThreads two;
  bench::Comparison comparison(state, [&] { batch.together(two.device()); });
  const double seconds =
      comparison.faster_than("vs_one_thread", [&] { batch.one_by_one(); }).measure();
  state.counters["flop_rate"] = batch.flop / seconds * 1e-9;  // GFLOP/s
  bench::tell_workspace(state, batch);
}

/// Adds the ragged batch, and both of its parts alone, which show the possible gain of two threads.
void add_ragged(const char* name, Index singles, const std::vector<Index>& prompts) {
  bench::add(
      std::string("attention/llama3_8b/") + name + "/threads_2",
      [=](benchmark::State& state) { ragged_case(state, bench::llama3_8b, singles, prompts); });
}

const bool added = [] {
  add_ragged("ragged_512_and_63", 63, {512});
  add_ragged("ragged_512", 0, {512});
  add_ragged("ragged_63", 63, {});
  return true;
}();

}  // namespace
