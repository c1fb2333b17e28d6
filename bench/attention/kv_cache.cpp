// SPDX-License-Identifier: MIT
// Attention over a cache: the next token, also on two threads, over which its keys are distributed,
// and prompts stored in 16 bits.
#define EIGEN_USE_THREADS

#include "cached.hpp"
#include "threads.hpp"

namespace {

using bench::AttentionModel, bench::Index;
using InFloat = bench::CachedTokens<float>;
using In16Bits = bench::CachedTokens<Eigen::bfloat16>;

/// Compares with a cache of floats. vs_float: our time divided by its time.
void bfloat16_case(benchmark::State& state, const AttentionModel& model, Index queries,
                   Index keys) {
  In16Bits tokens(model, queries, keys);
  InFloat floats(model, queries, keys);
  const bench::Options options = tokens.causal(), float_options = floats.causal();
  bench::Comparison comparison(state, [&] { tokens.attend(options); });
  comparison.beside("vs_float", [&] { floats.attend(float_options); });
  bench::measure_attention(state, comparison, tokens, bench::causal_work(queries, keys));
}

/// Compares with plain tensors, whose keys every call has to pack (vs_plain_attention).
void prompt_case(benchmark::State& state, const AttentionModel& model, Index seq) {
  In16Bits tokens(model, seq, seq);
  const bench::Options options = tokens.causal();
  bench::Comparison comparison(state, [&] { tokens.attend(options); });
  comparison.beside("vs_plain_attention", [&] { tokens.Tokens::attend(options); });
  bench::measure_attention(state, comparison, tokens, bench::causal_work(seq, seq));
}

/// Compares with a cache that owns its memory (vs_contiguous).
void pool_case(benchmark::State& state, const AttentionModel& model, Index queries, Index keys) {
  InFloat tokens(model, queries, keys);
  const posenc::KvBlockPool pool({std::size_t{1} << 40});
  posenc::KvCache<float> pooled(
      {.kv_heads = model.kv_heads, .head_dim = model.head_dim, .capacity = keys}, pool);
  pooled.append(0, posenc::bshd(std::as_const(tokens.k)), posenc::bshd(std::as_const(tokens.v)));
  const bench::Options options = tokens.causal();
  bench::Comparison comparison(state, [&] {
    posenc::attention(posenc::bshd(tokens.q), pooled, std::span<const Index>(tokens.sequence),
                      posenc::bshd(tokens.out), options, {}, tokens.memory());
  });
  comparison.beside("vs_contiguous", [&] { tokens.attend(options); });
  bench::measure_attention(state, comparison, tokens, bench::causal_work(queries, keys));
}

void threads_case(benchmark::State& state, const AttentionModel& model, Index keys) {
  InFloat tokens(model, 1, keys);
  const bench::Options options = tokens.causal();
  bench::threads_case(
      state, tokens, [&] { tokens.attend(options); },
      [&](const Eigen::ThreadPoolDevice& device) {
        posenc::attention(posenc::bshd(tokens.q), tokens.cache,
                          std::span<const Index>(tokens.sequence), posenc::bshd(tokens.out),
                          options, {}, tokens.memory(), device);
      });
}

void add_cached() {
  for (const AttentionModel& model : {bench::llama3_8b, bench::llama2_7b}) {
    const std::string name = std::string("attention/") + model.name;
    const std::string decode = name + "/decode_4096";
    bench::add(decode, [=](benchmark::State& state) {
      InFloat tokens(model, 1, 4096);
      bench::plain_case(state, tokens, true);
    });
    bench::add_variants<InFloat>(decode, model, 1, 4096);
    bench::add(decode + "/bf16_cache",
               [=](benchmark::State& state) { bfloat16_case(state, model, 1, 4096); });
    bench::add(decode + "/pool",
               [=](benchmark::State& state) { pool_case(state, model, 1, 4096); });
    bench::add(decode + "/threads_2",
               [=](benchmark::State& state) { threads_case(state, model, 4096); });
    bench::add(name + "/prefill_1024/bf16_cache",
               [=](benchmark::State& state) { prompt_case(state, model, 1024); });
  }
  bench::add("attention/llama3_8b/prefill_4096/bf16_cache",
             [](benchmark::State& state) { prompt_case(state, bench::llama3_8b, 4096); });
}

const bool added = (add_cached(), true);

}  // namespace
