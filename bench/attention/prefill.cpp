// SPDX-License-Identifier: MIT
// Attention of complete prompts, and of the last few tokens, with keys and values in plain tensors.
#include "cases.hpp"

namespace {

using bench::AttentionModel, bench::In16Bits, bench::Index, bench::Tokens;

/// Adds 16-bit cases. vs_float: our time divided by that in float.
void add_16_bits(const std::string& name, const AttentionModel& model, Index queries, Index keys) {
  bench::add(name + "/bf16", [=](benchmark::State& state) {
    Tokens floats(model, queries, keys);
    In16Bits tokens(floats);
    const bench::Options causal = floats.causal();
    bench::Comparison comparison(state, [&] { tokens.attend(); });
    comparison.beside("vs_float", [&] { floats.attend(causal); });
    bench::measure_attention(state, comparison,
                             bench::flop(model, bench::causal_work(queries, keys)), 0);
  });
}

/// Adds cases with probabilities rounded to bfloat16. vs_unrounded: our time divided by that with
/// unrounded ones.
void add_rounded(const std::string& name, const AttentionModel& model, Index queries, Index keys) {
  bench::add(name + "/bf16_rounded", [=](benchmark::State& state) {
    In16Bits tokens(Tokens(model, queries, keys));
    bench::Comparison comparison(state,
                                 [&] { tokens.attend(posenc::Probabilities::RoundedToBfloat16); });
    comparison.beside("vs_unrounded", [&] { tokens.attend(); });
    bench::measure_attention(state, comparison,
                             bench::flop(model, bench::causal_work(queries, keys)), 0);
  });
}

void add_plain(const std::string& name, const AttentionModel& model, Index queries, Index keys,
               bool with_naive) {
  bench::add(name, [=](benchmark::State& state) {
    Tokens tokens(model, queries, keys);
    bench::plain_case(state, tokens, with_naive);
  });
}

void add_model(const AttentionModel& model, bool long_variants) {
  const std::string prefill = std::string("attention/") + model.name + "/prefill_";
  add_plain(prefill + "128", model, 128, 128, true);
  add_plain(prefill + "1024", model, 1024, 1024, true);
  bench::add_variants<Tokens>(prefill + "1024", model, 1024, 1024);
  add_16_bits(prefill + "1024", model, 1024, 1024);
  add_rounded(prefill + "1024", model, 1024, 1024);
  add_plain(prefill + "4096", model, 4096, 4096, false);  // naive: about 8 seconds per call
  const std::string few = std::string("attention/") + model.name + "/plain_decode_4096/queries_";
  for (const Index queries : {1, 2, 4, 16}) {
    add_plain(few + std::to_string(queries), model, queries, 4096, true);
  }
  if (!long_variants) return;
  bench::add_variants<Tokens>(prefill + "4096", model, 4096, 4096);
  add_16_bits(prefill + "4096", model, 4096, 4096);
  add_rounded(prefill + "4096", model, 4096, 4096);
}

void add_prefill() {
  add_model(bench::llama3_8b, true);
  add_model(bench::llama2_7b, false);  // same work, so slow cases run once
}

const bool added = (add_prefill(), true);

}  // namespace
