// SPDX-License-Identifier: MIT
// The static rules that change the base, and the differences between them.
#include "frequency/presets.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include <posenc/frequency/dynamic_ntk.hpp>
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/vllm_ntk.hpp>

#include <cmath>

namespace ntk_test {

using posenc::AlphaNtkScaling;
using posenc::Frequencies;
using posenc::frequencies;
using posenc::Index;
using posenc::NtkScaling;
using posenc::VllmMixedNtkScaling;
using posenc::VllmNtkScaling;
using posenc::detail::DoubleDouble;

namespace {

Frequencies unscaled(Index dim, double base) {
  return frequencies(posenc::Unscaled{.rotary_dim = dim, .base = base});
}

/// Returns the factor by which the rule slows each pair.
std::vector<double> slowdown(const Frequencies& ours, const Frequencies& original) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < posenc::detail::exact_inv_freq(ours).size(); ++i) {
    ratios.push_back(
        (posenc::detail::exact_inv_freq(original)[i] / posenc::detail::exact_inv_freq(ours)[i]).hi);
  }
  return ratios;
}

void check_increasing(const std::vector<double>& values) {
  for (std::size_t i = 1; i < values.size(); ++i) REQUIRE(values[i] > values[i - 1]);
}

}  // namespace

TEST_CASE("NTK slows the first pair not at all and the last by the factor", "[ntk]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    const Frequencies ours = frequencies(NtkScaling{.rotary_dim = dim, .base = base, .factor = 8});
    const auto by = slowdown(ours, unscaled(dim, base));
    CHECK(posenc::detail::exact_inv_freq(ours).front() == DoubleDouble(1));
    CHECK(by.back() == 8);
    check_increasing(by);
  }
}

TEST_CASE("alpha is NTK's factor under another name", "[ntk]") {
  CHECK(frequencies(AlphaNtkScaling{.rotary_dim = 128, .base = 10000, .alpha = 1000}) ==
        frequencies(NtkScaling{.rotary_dim = 128, .base = 10000, .factor = 1000}));
}

TEST_CASE("vLLM's dynamic rule is static: alpha = s^2 - s + 1", "[ntk]") {
  for (const auto& [factor, alpha] : {std::pair{2.0, 3.0}, {4.0, 13.0}, {8.0, 57.0}}) {
    const posenc::DynamicNtkScaling dynamic{
        .rotary_dim = 128, .base = 10000, .factor = factor, .original_max_position = 4096};
    CHECK(frequencies(dynamic, static_cast<Index>(4096 * factor)) ==
          frequencies(AlphaNtkScaling{.rotary_dim = 128, .base = 10000, .alpha = alpha}));
  }
}

TEST_CASE("vLLM's ntk slows the first pair as well, and the last by the factor", "[ntk]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    const Frequencies ours =
        frequencies(VllmNtkScaling{.rotary_dim = dim, .base = base, .factor = 8});
    const auto by = slowdown(ours, unscaled(dim, base));
    CHECK(by.front() == Approx(std::pow(8, 2.0 / static_cast<double>(dim))).epsilon(1e-14));
    CHECK(by.back() == 8);
    check_increasing(by);
    CHECK(ours != frequencies(NtkScaling{.rotary_dim = dim, .base = base, .factor = 8}));
  }
}

TEST_CASE("vLLM's mixed ntk bends between its ends", "[ntk]") {
  const auto by = [](double mixed_b) {
    return slowdown(frequencies(VllmMixedNtkScaling{
                        .rotary_dim = 64, .base = 10000, .factor = 8, .mixed_b = mixed_b}),
                    unscaled(64, 10000));
  };
  const auto straight =
      slowdown(frequencies(VllmNtkScaling{.rotary_dim = 64, .base = 10000, .factor = 8}),
               unscaled(64, 10000));
  for (std::size_t i = 0; i < 32; ++i) {
    CAPTURE(i);
    CHECK(support::ulp_distance(by(1)[i], straight[i]) <= 1);
    if (i == 31) break;
    CHECK(by(0.625)[i] > straight[i]);
    CHECK(by(2)[i] < straight[i]);
  }
  CHECK(by(0.625).back() == 8);
  CHECK(by(1000).back() == 8);
  check_increasing(by(0.625));
  // The ramp is so steep that all pairs except the last keep their frequency.
  CHECK(by(1000)[30] == Approx(1).margin(1e-12));
}

}  // namespace ntk_test
