// SPDX-License-Identifier: MIT
// A table of cos and sin for 131072 positions and the 64 frequencies of Llama-3-8B.
#include "../support/limits.hpp"
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>

#include <Eigen/Core>

#include <cmath>

namespace {

using bench::Index;

constexpr Index positions = 131072, pairs = 64;
constexpr posenc::Unscaled rule{.rotary_dim = 2 * pairs, .base = 500000};

using Table = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Fills the same table in a loop with std::cos and std::sin of double.
void std_table(const Eigen::ArrayXd& inv_freq, Table& cos, Table& sin) {
  for (Index p = 0; p < positions; ++p) {
    for (Index i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(p) * inv_freq[i];
      cos(p, i) = static_cast<float>(std::cos(angle));
      sin(p, i) = static_cast<float>(std::sin(angle));
    }
  }
}

template <class Ours>
void compare(benchmark::State& state, const Ours& ours) {
  Table cos = Table::Zero(positions, pairs), sin = cos;
  const posenc::Frequencies frequencies = posenc::frequencies(rule);
  Eigen::ArrayXd inv_freq(pairs);
  for (Index i = 0; i < pairs; ++i) {
    inv_freq[i] = std::pow(rule.base, -static_cast<double>(i) / static_cast<double>(pairs));
  }
  bench::Comparison(state, [&] { ours(cos, sin); })
      .beside("vs_limit", bench::one_after_the_other(bench::fill(cos.data(), cos.size()),
                                                     bench::fill(sin.data(), sin.size())))
      .faster_than("vs_std_sin", [&] { std_table(inv_freq, cos, sin); })
      .measure(2 * positions * pairs * Index{sizeof(float)});
}

/// Writes to memory that is already allocated.
void table_131072x64(benchmark::State& state) {
  const posenc::Frequencies frequencies = posenc::frequencies(rule);
  const posenc::detail::Oscillator oscillator(posenc::detail::exact_inv_freq(frequencies));
  compare(state, [&](Table& cos, Table& sin) {
    for (Index p = 0; p < positions; ++p) {
      oscillator.cos_sin_row(static_cast<double>(p), 0, pairs, 1.0, &cos(p, 0), &sin(p, 0));
    }
  });
}

/// Calls Rope::table(), which allocates its result.
void rope_table_131072x64(benchmark::State& state) {
  const posenc::Rope<posenc::HalfRotate> rope(rule);
  compare(state, [&](Table&, Table&) {
    const auto table = rope.table<float>(posenc::Positions::range(0, positions));
    benchmark::DoNotOptimize(table.cos().data);
  });
}

const bool added = (bench::add("angles/table_131072x64", table_131072x64),
                    bench::add("angles/rope_table_131072x64", rope_table_131072x64), true);

}  // namespace
