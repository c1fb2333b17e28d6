// SPDX-License-Identifier: MIT
// Queries and keys of Llama-3-8B in both pairings: from a table, with angles on the fly, in one
// joint call, and in both axis orders.
#include "cases.hpp"

namespace {

using bench::Index, bench::Llama3;

template <class Pairing>
void add_pairing(const char* phase, Index seq) {
  const std::string name = bench::case_name<Llama3, Pairing>(phase);
  bench::add(name + "table", [seq](benchmark::State& state) {
    bench::table_case<Llama3, Pairing>(state, seq, Llama3::heads);
  });
  bench::add(name + "on_the_fly", [seq](benchmark::State& state) {
    bench::on_the_fly_case<Llama3, Pairing>(state, seq);
  });
  bench::add(name + "qk_on_the_fly", [seq](benchmark::State& state) {
    bench::queries_and_keys_case<Llama3, Pairing>(state, seq);
  });
  bench::add(name + "bhsd_table", [seq](benchmark::State& state) {
    bench::table_case<Llama3, Pairing, bench::Bhsd>(state, seq, Llama3::heads);
  });
  bench::add(bench::case_name<Llama3, Pairing>(phase, "kv_heads/") + "table",
             [seq](benchmark::State& state) {
               bench::table_case<Llama3, Pairing>(state, seq, Llama3::kv_heads);
             });
}

void add_llama3_8b() {
  for (const auto& [phase, seq] : bench::phases) {
    add_pairing<posenc::HalfRotate>(phase, seq);
    add_pairing<posenc::Interleaved>(phase, seq);
  }
}

const bool added = (add_llama3_8b(), true);

}  // namespace
