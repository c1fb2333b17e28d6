// SPDX-License-Identifier: MIT
// Queries of Llama-3-8B stored in 16 bits.
#include "cases.hpp"

namespace {

using bench::Index, bench::Llama3;

template <class Pairing, class T>
void add_type(const char* phase, Index seq, const char* mode) {
  bench::add(bench::case_name<Llama3, Pairing>(phase) + mode, [seq](benchmark::State& state) {
    bench::storage_case<Llama3, Pairing, T>(state, seq);
  });
}

void add_storage() {
  for (const auto& [phase, seq] : bench::phases) {
    add_type<posenc::HalfRotate, Eigen::bfloat16>(phase, seq, "bf16_table");
    add_type<posenc::HalfRotate, Eigen::half>(phase, seq, "f16_table");
    add_type<posenc::Interleaved, Eigen::bfloat16>(phase, seq, "bf16_table");
    add_type<posenc::Interleaved, Eigen::half>(phase, seq, "f16_table");
  }
}

const bool added = (add_storage(), true);

}  // namespace
