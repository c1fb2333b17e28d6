// SPDX-License-Identifier: MIT
#pragma once

#include "../support/limits.hpp"
#include "naive.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/tensor/eigen.hpp>

#include <Eigen/Core>
#include <unsupported/Eigen/CXX11/Tensor>

#include <algorithm>
#include <cstdint>
#include <string>

namespace bench {

struct AttentionModel {
  const char* name;
  Index heads, kv_heads, head_dim;
};

constexpr AttentionModel llama3_8b{"llama3_8b", 32, 8, 128};
constexpr AttentionModel llama2_7b{"llama2_7b", 32, 32, 128};

using Options = posenc::AttentionOptions<float>;
using Memory = posenc::AttentionMemory<float>;
using Tensor4 = Eigen::Tensor<float, 4, Eigen::RowMajor>;
using Mask = Eigen::Tensor<bool, 2, Eigen::RowMajor>;

/// Returns numbers in [-1, 1], the same in every run.
inline Tensor4 random_tensor(Index seq, Index heads, Index dim) {
  Tensor4 x(1, seq, heads, dim);
  Eigen::Map<Eigen::ArrayXf>(x.data(), x.size()).setRandom();
  return x;
}

/// Last tokens of a sequence, with all its keys and values: [1, seq, heads, head_dim].
struct Tokens {
  using Stored = float;

  Tokens(const AttentionModel& m, Index queries, Index keys)
      : model(m),
        q(random_tensor(queries, m.heads, m.head_dim)),
        k(random_tensor(keys, m.kv_heads, m.head_dim)),
        v(random_tensor(keys, m.kv_heads, m.head_dim)),
        out(1, queries, m.heads, m.head_dim) {}

  Index queries() const { return q.dimension(1); }
  Index keys() const { return k.dimension(1); }

  static Options causal() { return {.causal = posenc::Causal::BottomRight}; }
  Memory memory() { return {.workspace = &workspace}; }

  template <class Bias = posenc::NoBias>
  void attend(const Options& options, const Bias& bias = {}) {
    posenc::attention(posenc::bshd(q), posenc::bshd(k), posenc::bshd(v), posenc::bshd(out), options,
                      bias, memory());
  }

  AttentionModel model;
  Tensor4 q, k, v, out;
  posenc::AttentionWorkspace workspace;
};

/// Queries, keys, values and outputs in bfloat16.
struct In16Bits {
  using T = Eigen::bfloat16;
  using Tensor = Eigen::Tensor<T, 4, Eigen::RowMajor>;

  explicit In16Bits(const Tokens& tokens)
      : q(tokens.q.cast<T>()),
        k(tokens.k.cast<T>()),
        v(tokens.v.cast<T>()),
        out(tokens.out.cast<T>()) {}

  void attend(posenc::Probabilities probabilities = {}) {
    posenc::attention(posenc::bshd(q), posenc::bshd(k), posenc::bshd(v), posenc::bshd(out),
                      {.causal = posenc::Causal::BottomRight, .probabilities = probabilities}, {},
                      {.workspace = &workspace});
  }

  Tensor q, k, v, out;
  posenc::AttentionWorkspace workspace;
};

// ---- minimum work

/// Minimum work of a call, per head.
struct Work {
  double pairs = 0;  ///< query-key pairs that are visible
  Index keys = 0;    ///< keys that any query sees
};

/// Returns the work for all keys up to the query's own. A prompt of S counts S^2 / 2 pairs, as
/// usual.
inline Work causal_work(Index queries, Index keys) {
  const auto rows = static_cast<double>(queries), all = static_cast<double>(keys);
  return {queries == 1 ? all : rows * (all - rows / 2), keys};
}

/// Returns the work for the last `window` of these keys.
inline Work window_work(Index queries, Index keys, Index window) {
  Work work{0, std::min(keys, window + queries - 1)};
  for (Index place = keys - queries; place < keys; ++place) {
    work.pairs += static_cast<double>(std::min(place + 1, window));
  }
  return work;
}

/// Returns a mask with true = may attend, which hides one key in 16 at scattered places.
inline Mask mask_with_holes(Index queries, Index keys) {
  Mask keep(queries, keys);
  std::uint32_t state = 1;
  for (Index i = 0; i < keep.size(); ++i) {
    state = state * 1664525 + 1013904223;
    keep.data()[i] = state >> 28 != 0;
  }
  return keep;
}

/// Returns the work for the keys up to the query's own that the mask keeps.
inline Work mask_work(const Mask& keep) {
  const Index queries = keep.dimension(0), keys = keep.dimension(1);
  Work work{0, keys};
  for (Index i = 0; i < queries; ++i) {
    const bool* row = &keep(i, 0);
    work.pairs += static_cast<double>(std::count(row, row + keys - queries + i + 1, true));
  }
  return work;
}

/// Returns the useful operations: a multiplication and an addition for q k and for p v, per pair
/// and feature.
inline double flop(const AttentionModel& model, const Work& work) {
  return 4 * work.pairs * static_cast<double>(model.head_dim * model.heads);
}

// ---- measurement

template <class Setup>
void tell_workspace(benchmark::State& state, const Setup& setup) {
  state.counters["workspace_kib"] = static_cast<double>(setup.workspace.bytes()) / 1024;
}

/// Adds the limits and runs the comparison. of_fma_peak and of_read_bandwidth are shares of the
/// machine's peaks. vs_limit is our time divided by that of the nearer limit.
///   bytes: bytes of keys and values, each read once; 0 if arithmetic hides the reads
inline void measure_attention(benchmark::State& state, Comparison& comparison, double useful_flop,
                              Index bytes) {
  comparison.faster_than(
      "of_fma_peak", [] { multiply_add(); }, useful_flop / multiply_add_flop);
  const Eigen::ArrayXf as_much = Eigen::ArrayXf::Zero(bytes / Index{sizeof(float)});
  if (bytes > 0) {
    comparison.faster_than("of_read_bandwidth", read(as_much.data(), as_much.size()));
  }
  const double seconds = comparison.measure(bytes);
  auto& counters = state.counters;
  counters["flop_rate"] = useful_flop / seconds * 1e-9;  // GFLOP/s
  double share = counters["of_fma_peak"];
  if (bytes > 0) share = std::max<double>(share, counters["of_read_bandwidth"]);
  counters["vs_limit"] = 1 / share;
}

template <class Setup>
void measure_attention(benchmark::State& state, Comparison& comparison, const Setup& setup,
                       const Work& work) {
  const Index bytes = 2 * work.keys * setup.model.kv_heads * setup.model.head_dim *
                      Index{sizeof(typename Setup::Stored)};
  const bool decoding = setup.queries() <= 16;  // memory may be the limit
  measure_attention(state, comparison, flop(setup.model, work), decoding ? bytes : 0);
  tell_workspace(state, setup);
}

/// Measures causal attention, and the naive baseline unless it takes too long.
template <class Setup>
void plain_case(benchmark::State& state, Setup& setup, bool with_naive) {
  const Options causal = setup.causal();
  NaiveAttention naive;
  Comparison comparison(state, [&] { setup.attend(causal); });
  if (with_naive) {
    comparison.faster_than("vs_naive", [&] {
      naive(posenc::bshd(setup.q), posenc::bshd(setup.k), posenc::bshd(setup.v),
            posenc::bshd(setup.out));
    });
  }
  measure_attention(state, comparison, setup, causal_work(setup.queries(), setup.keys()));
}

/// Measures attention against causal attention alone. vs_plain_attention: ratio of the times per
/// useful operation.
template <class Setup, class Bias = posenc::NoBias>
void variant_case(benchmark::State& state, Setup& setup, const Work& work, const Options& options,
                  const Bias& bias = {}) {
  const Options causal = setup.causal();
  const double all = causal_work(setup.queries(), setup.keys()).pairs;
  Comparison comparison(state, [&] { setup.attend(options, bias); });
  comparison.beside(
      "vs_plain_attention", [&] { setup.attend(causal); }, work.pairs / all);
  measure_attention(state, comparison, setup, work);
}

/// Adds cases with options besides "causal": name/alibi, name/window_<a quarter of the keys>,
/// name/softcap, name/mask.
template <class Setup>
void add_variants(const std::string& name, const AttentionModel& model, Index queries, Index keys) {
  add(name + "/alibi", [=](benchmark::State& state) {
    Setup setup(model, queries, keys);
    const posenc::Alibi alibi({.heads = model.heads, .form = posenc::AlibiForm::Causal});
    variant_case(state, setup, causal_work(queries, keys), setup.causal(), alibi);
  });
  const Index window = keys / 4;
  add(name + "/window_" + std::to_string(window), [=](benchmark::State& state) {
    Setup setup(model, queries, keys);
    Options options = setup.causal();
    options.window = posenc::sliding_window(window);
    variant_case(state, setup, window_work(queries, keys, window), options);
  });
  add(name + "/softcap", [=](benchmark::State& state) {
    Setup setup(model, queries, keys);
    Options options = setup.causal();
    options.softcap = 50;  // as in Gemma-2
    options.softcap_order = posenc::SoftcapOrder::BeforeBias;
    variant_case(state, setup, causal_work(queries, keys), options);
  });
  add(name + "/mask", [=](benchmark::State& state) {
    Setup setup(model, queries, keys);
    const Mask keep = mask_with_holes(queries, keys);
    Options options = setup.causal();
    options.keep = posenc::qk(keep);
    variant_case(state, setup, mask_work(keep), options);
  });
}

}  // namespace bench
