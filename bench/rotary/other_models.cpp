// SPDX-License-Identifier: MIT
// Queries of models whose heads differ from Llama's: fewer heads, or partly rotated.
#include "cases.hpp"

namespace {

using bench::Index;

template <class Model, class Pairing>
void add_model() {
  for (const auto& [phase, seq_of_phase] : bench::phases) {
    const Index seq = seq_of_phase;
    const std::string name = bench::case_name<Model, Pairing>(phase);
    bench::add(name + "table", [seq](benchmark::State& state) {
      bench::table_case<Model, Pairing>(state, seq, Model::heads);
    });
    bench::add(name + "on_the_fly", [seq](benchmark::State& state) {
      bench::on_the_fly_case<Model, Pairing>(state, seq);
    });
    if (Model::kv_heads == Model::heads) continue;
    bench::add(bench::case_name<Model, Pairing>(phase, "kv_heads/") + "table",
               [seq](benchmark::State& state) {
                 bench::table_case<Model, Pairing>(state, seq, Model::kv_heads);
               });
  }
}

void add_models() {
  add_model<bench::Qwen2, posenc::HalfRotate>();
  add_model<bench::GptNeox, posenc::HalfRotate>();
  add_model<bench::GptJ, posenc::Interleaved>();
}

const bool added = (add_models(), true);

}  // namespace
