// SPDX-License-Identifier: MIT
// Limits of this machine, each in its fastest way. The first way of each is the row itself, so
// vs_limit shows the gain of the other ways and cannot be below 1.
#include "limits.hpp"

#include <Eigen/Core>

#include <string>
#include <tuple>
#include <utility>

namespace {

using bench::Index;

constexpr std::pair<const char*, Index> sizes[] = {{"16_KiB", Index{1} << 14},
                                                   {"256_KiB", Index{1} << 18},
                                                   {"8_MiB", Index{1} << 23},
                                                   {"64_MiB", Index{1} << 26},
                                                   {"512_MiB", Index{1} << 29}};

/// Measures limit_of(x): the ways of a pass over `count` numbers, which moves `bytes` bytes.
template <class LimitOf>
void add_limit(const std::string& name, Index bytes, Index count, const LimitOf& limit_of) {
  bench::add(name, [=](benchmark::State& state) {
    Eigen::ArrayXf x = Eigen::ArrayXf::Ones(count);
    const auto limit = limit_of(x.data());
    bench::Comparison(state, std::get<0>(limit)).beside("vs_limit", limit).measure(bytes);
  });
}

void add_limits() {
  for (const auto& [name, bytes] : sizes) {
    const Index count = bytes / Index{sizeof(float)};
    add_limit(std::string("limits/scale/") + name, 2 * 4 * count, count,
              [count](float* x) { return bench::scale(x, count); });
    add_limit(std::string("limits/copy/") + name, 4 * count, count,
              [half = count / 2](float* x) { return bench::copy(x, x + half, half); });
    add_limit(std::string("limits/fill/") + name, 4 * count, count,
              [count](float* x) { return bench::fill(x, count); });
    add_limit(std::string("limits/read/") + name, 4 * count, count,
              [count](float* x) { return bench::read(x, count); });
  }
  bench::add("limits/multiply_add", [](benchmark::State& state) {
    const double seconds = bench::Comparison(state, [] { bench::multiply_add(); }).measure();
    state.counters["flop_rate"] = bench::multiply_add_flop / seconds * 1e-9;  // GFLOP/s
  });
}

const bool added = (add_limits(), true);

}  // namespace
