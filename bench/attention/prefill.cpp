// SPDX-License-Identifier: MIT
// Attention of whole prompts, and of the last few tokens, keys and values in plain tensors.
#include "cases.hpp"

namespace {

using bench::AttentionModel, bench::Index, bench::Tokens;

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
  add_plain(prefill + "4096", model, 4096, 4096, false);  // naive: some 8 seconds a call
  const std::string few = std::string("attention/") + model.name + "/plain_decode_4096/queries_";
  for (const Index queries : {1, 4, 16}) {
    add_plain(few + std::to_string(queries), model, queries, 4096, true);
  }
  if (long_variants) bench::add_variants<Tokens>(prefill + "4096", model, 4096, 4096);
}

void add_prefill() {
  add_model(bench::llama3_8b, true);
  add_model(bench::llama2_7b, false);  // as much work, so once is enough for what takes long
}

const bool added = (add_prefill(), true);

}  // namespace
