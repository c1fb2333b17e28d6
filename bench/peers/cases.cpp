// SPDX-License-Identifier: MIT
// Other libraries against posenc, on one thread. vs_<peer>: how many times faster posenc is.
// diff_<peer>: the largest difference of the peer's numbers, as a share of the largest number of
// posenc. The label has versions.
#include "../rotary/cases.hpp"

#include "../attention/cached.hpp"
#include "peers.hpp"

#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using bench::AttentionTask, bench::Index, bench::Peer, bench::Prepare, bench::RotationTask;
using bench::Tensor4;

std::vector<float> numbers(const Tensor4& x) { return {x.data(), x.data() + x.size()}; }

double difference(const Tensor4& ours, const std::vector<float>& theirs) {
  using Numbers = Eigen::Map<const Eigen::ArrayXf>;
  const Numbers a(ours.data(), ours.size()), b(theirs.data(), std::ssize(theirs));
  if (a.size() != b.size()) throw std::logic_error("a peer's result has another size than ours");
  return static_cast<double>((a - b).abs().maxCoeff() / a.abs().maxCoeff());
}

/// Adds all peers that support the task of `prepare`.
///   ours: result of one call of posenc for the task's numbers
template <class Task>
void beside_peers(benchmark::State& state, bench::Comparison& comparison, const Task& task,
                  Prepare<Task> Peer::*prepare, const Tensor4& ours) {
  std::string label;
  for (const Peer& peer : bench::peers()) {
    if (!(peer.*prepare)) continue;
    const bench::Prepared theirs = (peer.*prepare)(task);
    theirs.run();
    state.counters["diff_" + peer.name] = difference(ours, theirs.result());
    comparison.faster_than("vs_" + peer.name, theirs.run);
    label += (label.empty() ? "" : "; ") + peer.name + " " + peer.version;
  }
  state.SetLabel(label);
}

void rotation_case(benchmark::State& state, Index seq) {
  using Model = bench::Llama3;
  bench::Setup<Model, posenc::HalfRotate> setup(seq, Model::heads);
  setup.x = bench::random_tensor(seq, Model::heads, Model::head_dim);
  const auto table = [](const bench::Table& t) {
    return std::vector<float>(t.data(), t.data() + t.size());
  };
  const RotationTask task{.past = bench::past,
                          .seq = seq,
                          .heads = Model::heads,
                          .dim = Model::head_dim,
                          .base = Model::base,
                          .x = numbers(setup.x),
                          .cos = table(setup.angles.cos),
                          .sin = table(setup.angles.sin)};
  const auto view = setup.view();
  setup.table.rotate(view);
  const Tensor4 once = setup.x;
  bench::Comparison comparison(state, [&] { setup.table.rotate(view); });
  comparison.beside("vs_limit", setup.limit());
  beside_peers(state, comparison, task, &Peer::rotation, once);
  comparison.measure(setup.bytes());
}

/// Measures attention with keys and values in plain tensors, or in a cache.
template <class Setup>
void attention_case(benchmark::State& state, Index queries, Index keys) {
  Setup setup(bench::llama2_7b, queries, keys);
  const AttentionTask task{.queries = queries,
                           .keys = keys,
                           .heads = setup.model.heads,
                           .dim = setup.model.head_dim,
                           .q = numbers(setup.q),
                           .k = numbers(setup.k),
                           .v = numbers(setup.v)};
  const bench::Options causal = setup.causal();
  setup.attend(causal);
  bench::Comparison comparison(state, [&] { setup.attend(causal); });
  beside_peers(state, comparison, task, &Peer::attention, setup.out);
  bench::measure_attention(state, comparison, setup, bench::causal_work(queries, keys));
}

void add_cases() {
  for (const Index seq : {1, 16, 512}) {
    bench::add("peers/rotary/llama3_8b/half/table/tokens_" + std::to_string(seq),
               [=](benchmark::State& state) { rotation_case(state, seq); });
  }
  const std::string attention = "peers/attention/llama2_7b/";
  for (const Index seq : {128, 1024}) {
    bench::add(attention + "prefill_" + std::to_string(seq),
               [=](benchmark::State& state) { attention_case<bench::Tokens>(state, seq, seq); });
  }
  bench::add(attention + "plain_decode_4096",
             [](benchmark::State& state) { attention_case<bench::Tokens>(state, 1, 4096); });
  bench::add(attention + "decode_4096", [](benchmark::State& state) {
    attention_case<bench::CachedTokens<float>>(state, 1, 4096);
  });
}

const bool added = (add_cases(), true);

}  // namespace
