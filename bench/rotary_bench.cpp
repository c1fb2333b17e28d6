// SPDX-License-Identifier: MIT
// Rotation of the queries of Llama-3-8B (32 heads of 128 channels), beside the limit: a pass x *= c
// over the same bytes.
#include <posenc/posenc.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <vector>

namespace {

using posenc::Index;
using Heads = Eigen::Tensor<float, 4, Eigen::RowMajor>;  // [batch, seq, heads, head_dim]

constexpr Index heads = 32, head_dim = 128;
constexpr Index past = 4096;

Heads make_queries(Index seq) {
  Heads q(1, seq, heads, head_dim);
  q.setConstant(1);
  return q;
}

/// Every element is read and written once.
void count_bytes(benchmark::State& state, const Heads& q) {
  const auto bytes = 2 * static_cast<std::size_t>(q.size()) * sizeof(float);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

template <class Pairing>
posenc::Rope<Pairing> llama3_8b() {
  return posenc::Rope<Pairing>(posenc::Unscaled{.rotary_dim = head_dim, .base = 500000});
}

template <class Pairing>
void table(benchmark::State& state) {
  Heads q = make_queries(state.range(0));
  const auto rotation =
      llama3_8b<Pairing>().template table<float>(posenc::Positions::range(past, state.range(0)));
  const auto view = posenc::bshd(q);
  for (auto _ : state) {
    rotation.rotate(view);
    benchmark::ClobberMemory();
  }
  count_bytes(state, q);
}

template <class Pairing>
void on_the_fly(benchmark::State& state) {
  Heads q = make_queries(state.range(0));
  const auto rope = llama3_8b<Pairing>();
  const auto positions = posenc::Positions::range(past, state.range(0));
  const auto view = posenc::bshd(q);
  for (auto _ : state) {
    rope.rotate(view, positions);
    benchmark::ClobberMemory();
  }
  count_bytes(state, q);
}

void limit(benchmark::State& state) {
  Heads q = make_queries(state.range(0));
  float factor = 1;
  for (auto _ : state) {
    // A factor that the compiler cannot know keeps it from folding the passes into one.
    benchmark::DoNotOptimize(factor);
    float* data = q.data();
    for (Index i = 0; i < q.size(); ++i) data[i] *= factor;
    benchmark::ClobberMemory();
  }
  count_bytes(state, q);
}

void phases(benchmark::internal::Benchmark* bench) {
  bench->ArgName("seq")->Arg(1)->Arg(16)->Arg(512)->Arg(4096);
}

BENCHMARK(limit)->Name("rotary/llama3_8b/limit")->Apply(phases);
BENCHMARK(table<posenc::HalfRotate>)->Name("rotary/llama3_8b/half/table")->Apply(phases);
BENCHMARK(table<posenc::Interleaved>)->Name("rotary/llama3_8b/interleaved/table")->Apply(phases);
BENCHMARK(on_the_fly<posenc::HalfRotate>)->Name("rotary/llama3_8b/half/on_the_fly")->Apply(phases);
BENCHMARK(on_the_fly<posenc::Interleaved>)
    ->Name("rotary/llama3_8b/interleaved/on_the_fly")
    ->Apply(phases);

}  // namespace
