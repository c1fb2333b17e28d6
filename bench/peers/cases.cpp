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
#include <type_traits>
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

/// Adds all peers that support the task of `prepare`, and returns their names and versions.
///   ours: result of one call of posenc for the task's numbers
template <class Task>
std::string beside_peers(benchmark::State& state, bench::Comparison& comparison, const Task& task,
                         Prepare<Task> Peer::*prepare, const Tensor4& ours) {
  std::string label;
  for (const Peer& peer : bench::peers()) {
    const bench::Prepared theirs = peer.*prepare ? (peer.*prepare)(task) : bench::Prepared();
    if (!theirs.run) continue;
    theirs.run();
    state.counters["diff_" + peer.name] = difference(ours, theirs.result());
    comparison.faster_than("vs_" + peer.name, theirs.run);
    label += (label.empty() ? "" : "; ") + peer.name + " " + peer.version;
  }
  return label;
}

void rotation_case(benchmark::State& state, Index seq, bool in_place) {
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
  Tensor4 once = setup.x;
  setup.table.rotate_into(view, posenc::bshd(once));
  bench::Comparison comparison(state, [&] {
    if (in_place) {
      setup.table.rotate(view);
    } else {
      setup.table.rotate_into(view, posenc::bshd(once));
    }
  });
  if (in_place) {
    comparison.beside("vs_limit", setup.limit());
  } else {
    comparison.beside("vs_limit", bench::copy(once.data(), setup.x.data(), once.size()));
  }
  const std::string peers = beside_peers(state, comparison, task,
                                         in_place ? &Peer::rotation : &Peer::rotation_into, once);
  comparison.measure(setup.bytes());
  state.SetLabel(peers);
}

/// Tokens of a prompt in bfloat16.
template <posenc::Probabilities probabilities>
struct Tokens16 : bench::Tokens {
  using Stored = Eigen::bfloat16;

  Tokens16(const bench::AttentionModel& m, Index queries, Index keys)
      : Tokens(m, queries, keys), tokens(*this) {}

  void attend(const bench::Options&) { tokens.attend(probabilities); }

  bench::In16Bits tokens;
};
using Unrounded = Tokens16<posenc::Probabilities::Unrounded>;
using Rounded = Tokens16<posenc::Probabilities::RoundedToBfloat16>;

Tensor4 result(const bench::Tokens& setup) { return setup.out; }
template <posenc::Probabilities probabilities>
Tensor4 result(const Tokens16<probabilities>& setup) {
  return setup.tokens.out.template cast<float>();
}

/// Measures attention with keys and values in plain tensors, or in a cache. Peers get the same
/// element type: float or, for ours of bfloat16, theirs of 16 bits.
template <class Setup>
void attention_case(benchmark::State& state, const bench::AttentionModel& model, Index queries,
                    Index keys) {
  Setup setup(model, queries, keys);
  const AttentionTask task{.queries = queries,
                           .keys = keys,
                           .heads = model.heads,
                           .kv_heads = model.kv_heads,
                           .dim = model.head_dim,
                           .q = numbers(setup.q),
                           .k = numbers(setup.k),
                           .v = numbers(setup.v)};
  const bench::Options causal = setup.causal();
  setup.attend(causal);
  bench::Comparison comparison(state, [&] { setup.attend(causal); });
  constexpr bool is_float = std::is_same_v<typename Setup::Stored, float>;
  const std::string peers =
      beside_peers(state, comparison, task, is_float ? &Peer::attention : &Peer::attention_16_bit,
                   result(setup));
  bench::measure_attention(state, comparison, setup, bench::causal_work(queries, keys));
  state.SetLabel(peers);
}

template <class Setup>
void add_attention(const bench::AttentionModel& model, const std::string& name, Index queries,
                   Index keys) {
  bench::add("peers/attention/" + std::string(model.name) + "/" + name,
             [=](benchmark::State& state) { attention_case<Setup>(state, model, queries, keys); });
}

void add_cases() {
  for (const bool in_place : {true, false}) {
    for (const Index seq : {1, 16, 512, 4096}) {
      bench::add("peers/rotary/llama3_8b/half/" + std::string(in_place ? "table" : "table_into") +
                     "/tokens_" + std::to_string(seq),
                 [=](benchmark::State& state) { rotation_case(state, seq, in_place); });
    }
  }
  using Bf16Cache = bench::CachedTokens<Eigen::bfloat16>;
  for (const auto& model : {bench::llama2_7b, bench::llama3_8b}) {
    for (const Index seq : {128, 1024, 4096}) {
      add_attention<bench::Tokens>(model, "prefill_" + std::to_string(seq), seq, seq);
      add_attention<Unrounded>(model, "bf16_prefill_" + std::to_string(seq), seq, seq);
      add_attention<Rounded>(model, "bf16_rounded_prefill_" + std::to_string(seq), seq, seq);
    }
    add_attention<bench::Tokens>(model, "plain_decode_4096", 1, 4096);
    for (const Index keys : {4096, 32768}) {
      for (const Index queries : {1, 4}) {
        const std::string name =
            (queries == 1 ? "decode_" : "queries_4_of_") + std::to_string(keys);
        add_attention<bench::CachedTokens<float>>(model, name, queries, keys);
        add_attention<Bf16Cache>(model, "bf16_" + name, queries, keys);
      }
    }
  }
}

const bool added = (add_cases(), true);

}  // namespace
