// SPDX-License-Identifier: MIT
// What this machine can do at all. The scale pass is measured beside itself: its vs_limit must come
// out at 1, or no other number here can be trusted.
#include "limits.hpp"

#include <Eigen/Core>

#include <utility>

namespace {

using bench::Index;

constexpr std::pair<const char*, Index> sizes[] = {{"16_KiB", Index{1} << 14},
                                                   {"256_KiB", Index{1} << 18},
                                                   {"8_MiB", Index{1} << 23},
                                                   {"64_MiB", Index{1} << 26},
                                                   {"512_MiB", Index{1} << 29}};

void add_limits() {
  for (const auto& [name, bytes] : sizes) {
    const Index count = bytes / Index{sizeof(float)};
    bench::add(std::string("limits/scale/") + name, [count](benchmark::State& state) {
      Eigen::ArrayXf x = Eigen::ArrayXf::Ones(count);
      const auto pass = [&] { bench::scale(x.data(), count); };
      bench::Comparison(state, pass).beside("vs_limit", pass).measure(2 * 4 * count);
    });
    bench::add(std::string("limits/copy/") + name, [count](benchmark::State& state) {
      Eigen::ArrayXf x = Eigen::ArrayXf::Ones(count / 2), y = x;
      bench::Comparison(state, [&] {
        bench::copy(y.data(), x.data(), x.size());
      }).measure(4 * count);
    });
    bench::add(std::string("limits/fill/") + name, [count](benchmark::State& state) {
      Eigen::ArrayXf x = Eigen::ArrayXf::Ones(count);
      bench::Comparison(state, [&] { bench::fill(x.data(), count); }).measure(4 * count);
    });
    bench::add(std::string("limits/read/") + name, [count](benchmark::State& state) {
      Eigen::ArrayXf x = Eigen::ArrayXf::Ones(count);
      bench::Comparison(state, [&] { bench::read(x.data(), count); }).measure(4 * count);
    });
  }
  bench::add("limits/multiply_add", [](benchmark::State& state) {
    const double seconds = bench::Comparison(state, [] { bench::multiply_add(); }).measure();
    state.counters["flop_rate"] = bench::multiply_add_flop / seconds * 1e-9;  // GFLOP/s
  });
}

const bool added = (add_limits(), true);

}  // namespace
