// SPDX-License-Identifier: MIT
// Prompts on two threads.
#define EIGEN_USE_THREADS

#include "threads.hpp"

namespace {

using bench::AttentionModel, bench::Index;

void prefill_case(benchmark::State& state, const AttentionModel& model, Index seq) {
  bench::Tokens tokens(model, seq, seq);
  const bench::Options options = tokens.causal();
  bench::threads_case(
      state, tokens, [&] { tokens.attend(options); },
      [&](const Eigen::ThreadPoolDevice& device) {
        posenc::attention(posenc::bshd(tokens.q), posenc::bshd(tokens.k), posenc::bshd(tokens.v),
                          posenc::bshd(tokens.out), options, {}, tokens.memory(), device);
      });
}

void add_threads() {
  for (const AttentionModel& model : {bench::llama3_8b, bench::llama2_7b}) {
    bench::add(std::string("attention/") + model.name + "/prefill_1024/threads_2",
               [=](benchmark::State& state) { prefill_case(state, model, 1024); });
  }
}

const bool added = (add_threads(), true);

}  // namespace
