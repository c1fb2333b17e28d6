// SPDX-License-Identifier: MIT
// The frequencies of the float32 pipeline.
#include "reference/hf_float32.hpp"

#include "frequency/presets.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include <posenc/frequency/hf_float32.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

namespace hf_float32_test {

using posenc::Frequencies;
using posenc::frequencies;
using posenc::hf_float32_frequencies;
using posenc::Index;

namespace {

using reference::hf_float32::Floats;

std::vector<double> widened(const Floats& values) { return {values.begin(), values.end()}; }

/// Returns the largest distance, in steps of float.
std::uint64_t float_ulps(const std::vector<double>& a, const std::vector<double>& b) {
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest,
                       support::ulp_distance(static_cast<float>(a[i]), static_cast<float>(b[i])));
  }
  return largest;
}

/// Checks what holds for every rule: inv_freq are floats, close to the exact frequencies, and the
/// factors are equal.
void check_floats(const Frequencies& ours, const Frequencies& exact) {
  for (const posenc::detail::DoubleDouble& w : posenc::detail::exact_inv_freq(ours)) {
    CHECK(w == posenc::detail::DoubleDouble(static_cast<double>(static_cast<float>(w.hi))));
  }
  CHECK(float_ulps(ours.inv_freq(), exact.inv_freq()) <= 6);
  CHECK(ours.attention_factor() == exact.attention_factor());
  CHECK(ours.softmax_scale_multiplier() == exact.softmax_scale_multiplier());
}

Frequencies llama2() {
  return hf_float32_frequencies(posenc::Unscaled{.rotary_dim = 128, .base = 10000});
}

}  // namespace

TEST_CASE("hf_float32: frequencies agree with float arithmetic", "[hf_float32]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    const auto float_base = static_cast<float>(base);
    const posenc::Unscaled unscaled{.rotary_dim = dim, .base = base};
    const Floats plain = reference::hf_float32::unscaled(float_base, dim);
    CHECK(hf_float32_frequencies(unscaled).inv_freq() == widened(plain));
    check_floats(hf_float32_frequencies(unscaled), frequencies(unscaled));

    const posenc::LinearScaling linear{.rotary_dim = dim, .base = base, .factor = 3};
    Floats divided = plain;
    for (float& w : divided) w /= 3.0F;
    CHECK(hf_float32_frequencies(linear).inv_freq() == widened(divided));
    check_floats(hf_float32_frequencies(linear), frequencies(linear));

    const posenc::ProportionalScaling proportional{
        .head_dim = dim, .base = base, .partial_rotary_factor = 0.5, .factor = 3};
    for (std::size_t i = divided.size() / 2; i < divided.size(); ++i) divided[i] = 0;
    CHECK(hf_float32_frequencies(proportional).inv_freq() == widened(divided));
    check_floats(hf_float32_frequencies(proportional), frequencies(proportional));

    std::vector<double> divisors;
    for (Index i = 0; i < dim / 2; ++i) divisors.push_back(1.05 + 0.7 * static_cast<double>(i));
    const posenc::LongRopeScaling longrope{.rotary_dim = dim,
                                           .base = base,
                                           .short_factor = std::vector<double>(divisors.size(), 1),
                                           .long_factor = divisors,
                                           .original_max_position = 4096,
                                           .factor = 32};
    CHECK(hf_float32_frequencies(longrope, 4096).inv_freq() == widened(plain));
    CHECK(hf_float32_frequencies(longrope, 4097).inv_freq() ==
          widened(reference::hf_float32::longrope(float_base, dim, divisors)));
    check_floats(hf_float32_frequencies(longrope, 4097), frequencies(longrope, 4097));
  }
}

TEST_CASE("hf_float32: ramps agree with float arithmetic", "[hf_float32]") {
  for (const double factor : {3.0, 4.0}) {
    const posenc::YarnScaling qwen{
        .rotary_dim = 128, .base = 1000000, .factor = factor, .original_max_position = 32768};
    CHECK(hf_float32_frequencies(qwen).inv_freq() ==
          widened(reference::hf_float32::yarn(1000000, 128, static_cast<float>(factor), 23, 40)));
    check_floats(hf_float32_frequencies(qwen), frequencies(qwen));
  }
  for (const auto& [base, factor, length] :
       {std::tuple{500000.0, 8.0, Index{8192}}, {500000.0, 32.0, 8192}, {10000.0, 10.0, 2048}}) {
    const posenc::Llama3Scaling llama3{.rotary_dim = 128,
                                       .base = base,
                                       .factor = factor,
                                       .low_freq_factor = 1,
                                       .high_freq_factor = 4,
                                       .original_max_position = length};
    CHECK(hf_float32_frequencies(llama3).inv_freq() ==
          widened(reference::hf_float32::llama3(static_cast<float>(base), 128,
                                                static_cast<float>(factor), 1, 4,
                                                static_cast<float>(length))));
    check_floats(hf_float32_frequencies(llama3), frequencies(llama3));
  }
}

TEST_CASE("hf_float32: ramps whose ends meet are the step of the exact rule", "[hf_float32]") {
  const posenc::Llama3Scaling step{.rotary_dim = 128,
                                   .base = 500000,
                                   .factor = 8,
                                   .low_freq_factor = 2,
                                   .high_freq_factor = 2,
                                   .original_max_position = 8192};
  check_floats(hf_float32_frequencies(step), frequencies(step));
  posenc::YarnScaling yarn{.rotary_dim = 64,
                           .base = 10000,
                           .factor = 4,
                           .original_max_position = 1024,
                           .beta_fast = 8,
                           .beta_slow = 8,
                           .truncate = false};
  check_floats(hf_float32_frequencies(yarn), frequencies(yarn));
}

TEST_CASE("hf_float32: dynamic NTK has the power law of the stretched base", "[hf_float32]") {
  const posenc::DynamicNtkScaling rule{
      .rotary_dim = 128, .base = 10000, .factor = 2, .original_max_position = 4096};
  CHECK(hf_float32_frequencies(rule, 4096) == llama2());
  const double base = 10000 * std::pow(2.0 * 8192 / 4096 - 1, 128.0 / 126);
  CHECK(hf_float32_frequencies(rule, 8192).inv_freq() ==
        widened(reference::hf_float32::unscaled(static_cast<float>(base), 128)));
  check_floats(hf_float32_frequencies(rule, 8192), frequencies(rule, 8192));
}

TEST_CASE("hf_float32: the largest base is the largest float", "[hf_float32]") {
  constexpr auto largest = static_cast<double>(std::numeric_limits<float>::max());
  CHECK(posenc::detail::float32_powers(largest, 4)[0] == 1);
  CHECK_THROWS_AS(posenc::detail::float32_powers(std::nextafter(largest, 1e300), 4),
                  posenc::ConfigError);
}

TEST_CASE("hf_float32: rejects what the rule rejects", "[hf_float32]") {
  CHECK_THROWS_AS(hf_float32_frequencies(posenc::Unscaled{}), posenc::ConfigError);
  CHECK_THROWS_AS(hf_float32_frequencies(posenc::YarnScaling{}), posenc::ConfigError);
  CHECK_THROWS_AS(hf_float32_frequencies(posenc::Llama3Scaling{}), posenc::ConfigError);
  CHECK_THROWS_AS(hf_float32_frequencies(posenc::LongRopeScaling{}, 0), posenc::ConfigError);
  CHECK_THROWS_AS(hf_float32_frequencies(posenc::ProportionalScaling{}), posenc::ConfigError);
  CHECK_THROWS_MATCHES(
      hf_float32_frequencies(posenc::Unscaled{.rotary_dim = 4, .base = 1e39}), posenc::ConfigError,
      Catch::Matchers::Message(
          "posenc::hf_float32_frequencies: base must be a finite float but is 1e+39"));
  const posenc::DynamicNtkScaling dynamic{
      .rotary_dim = 4, .base = 10000, .factor = 1e20, .original_max_position = 4096};
  CHECK_NOTHROW(frequencies(dynamic, 4096));
  CHECK_THROWS_MATCHES(
      hf_float32_frequencies(dynamic, 4096), posenc::ConfigError,
      Catch::Matchers::Message("posenc::hf_float32_frequencies: factor is too large: it is 1e+20"));
}

}  // namespace hf_float32_test
