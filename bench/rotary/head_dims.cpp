// SPDX-License-Identifier: MIT
// Heads whose rows and halves are not multiples of a vector or of a cache line.
#include "cases.hpp"

namespace {

using bench::Index;

template <Index Dim>
struct HeadsOf {
  static constexpr Index heads = 32, head_dim = Dim, rotary_dim = Dim;
  static constexpr double base = 10000;
};

template <Index Dim>
void add_dim() {
  for (const auto& [phase, seq_of_phase] : {bench::phases[0], bench::phases[1]}) {
    const Index seq = seq_of_phase;
    bench::add("rotary/head_dim_" + std::to_string(Dim) + "/" + phase + "/half/table",
               [seq](benchmark::State& state) {
                 bench::table_case<HeadsOf<Dim>, posenc::HalfRotate>(state, seq, 32);
               });
  }
}

template <Index... Dims>
bool add_dims() {
  (add_dim<Dims>(), ...);
  return true;
}

const bool added = add_dims<64, 72, 80, 96, 100, 112, 160>();

}  // namespace
