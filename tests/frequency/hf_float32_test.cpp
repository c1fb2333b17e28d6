// SPDX-License-Identifier: MIT
// The float32 pipeline: its frequencies, its angles, and its errors.
#include "reference/hf_float32.hpp"

#include "frequency/presets.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/frequency/hf_float32.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <vector>

namespace hf_float32_test {

using posenc::AnglePolicy;
using posenc::Frequencies;
using posenc::frequencies;
using posenc::hf_float32_frequencies;
using posenc::Index;
using posenc::Positions;
using posenc::detail::Oscillator;

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

/// m cos and m sin of one position, as T.
template <class T>
struct Row {
  std::vector<T> cos, sin;

  Row(const Oscillator& oscillator, double position, double factor = 1)
      : cos(static_cast<std::size_t>(oscillator.size())), sin(cos.size()) {
    oscillator.cos_sin_row(position, 0, oscillator.size(), factor, cos.data(), sin.data());
  }
};

}  // namespace

TEST_CASE("float32 frequencies agree with float arithmetic", "[hf_float32]") {
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

TEST_CASE("float32 ramps agree with float arithmetic", "[hf_float32]") {
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

TEST_CASE("float32 ramps whose ends meet are the step of the exact rule", "[hf_float32]") {
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

TEST_CASE("float32 dynamic NTK has the power law of the stretched base", "[hf_float32]") {
  const posenc::DynamicNtkScaling rule{
      .rotary_dim = 128, .base = 10000, .factor = 2, .original_max_position = 4096};
  CHECK(hf_float32_frequencies(rule, 4096) == llama2());
  const double base = 10000 * std::pow(2.0 * 8192 / 4096 - 1, 128.0 / 126);
  CHECK(hf_float32_frequencies(rule, 8192).inv_freq() ==
        widened(reference::hf_float32::unscaled(static_cast<float>(base), 128)));
  check_floats(hf_float32_frequencies(rule, 8192), frequencies(rule, 8192));
}

TEST_CASE("float32 frequencies refuse what the rule refuses", "[hf_float32]") {
  CHECK_THROWS_AS(hf_float32_frequencies(posenc::Unscaled{}), posenc::ConfigError);
  CHECK_THROWS_AS(hf_float32_frequencies(posenc::YarnScaling{}), posenc::ConfigError);
  CHECK_THROWS_AS(hf_float32_frequencies(posenc::Llama3Scaling{}), posenc::ConfigError);
  CHECK_THROWS_AS(hf_float32_frequencies(posenc::LongRopeScaling{}, 0), posenc::ConfigError);
  CHECK_THROWS_AS(hf_float32_frequencies(posenc::ProportionalScaling{}), posenc::ConfigError);
  CHECK_THROWS_MATCHES(
      hf_float32_frequencies(posenc::Unscaled{.rotary_dim = 4, .base = 1e39}), posenc::ConfigError,
      Catch::Matchers::Message(
          "posenc::hf_float32_frequencies: base must be within float but is 1e+39"));
  const posenc::DynamicNtkScaling dynamic{
      .rotary_dim = 4, .base = 10000, .factor = 1e20, .original_max_position = 4096};
  CHECK_NOTHROW(frequencies(dynamic, 4096));
  CHECK_THROWS_MATCHES(
      hf_float32_frequencies(dynamic, 4096), posenc::ConfigError,
      Catch::Matchers::Message("posenc::hf_float32_frequencies: factor is too large: it is 1e+20"));
}

TEST_CASE("the policy takes cos and sin of the float product", "[hf_float32]") {
  const Frequencies ours = llama2();
  const Oscillator oscillator(posenc::detail::exact_inv_freq(ours), AnglePolicy::HfFloat32);
  CHECK(oscillator.policy() == AnglePolicy::HfFloat32);
  CHECK(oscillator.size() == 64);
  for (const double position : {0.0, 1.0, 4095.0, 131071.0, 16777217.0, -131071.0, 0.1, 1e9}) {
    CAPTURE(position);
    const Row<float> row(oscillator, position);
    for (std::size_t i = 0; i < 64; ++i) {
      // PyTorch's angle, and its cos as if computed without rounding.
      const float angle = static_cast<float>(position) * static_cast<float>(ours.inv_freq()[i]);
      const std::vector<double> one{1.0};
      const Oscillator exact(posenc::detail::exact_inv_freq(Frequencies::from_inv_freq(one)));
      const posenc::detail::CosSin expected = exact.at(static_cast<double>(angle), 0);
      REQUIRE(row.cos[i] == static_cast<float>(expected.cos));
      REQUIRE(row.sin[i] == static_cast<float>(expected.sin));
      const double libm = std::cos(static_cast<double>(angle));
      REQUIRE(support::ulp_distance(row.cos[i], static_cast<float>(libm)) <= 1);
    }
  }
}

TEST_CASE("the policy rounds positions to float", "[hf_float32]") {
  const Oscillator oscillator(posenc::detail::exact_inv_freq(llama2()), AnglePolicy::HfFloat32);
  CHECK(Row<float>(oscillator, 0x1p24 + 1).cos == Row<float>(oscillator, 0x1p24).cos);
  CHECK(Row<float>(oscillator, 0x1p24 + 2).cos != Row<float>(oscillator, 0x1p24).cos);
}

TEST_CASE("the policy multiplies with the attention factor in float", "[hf_float32]") {
  const Oscillator oscillator(posenc::detail::exact_inv_freq(llama2()), AnglePolicy::HfFloat32);
  const double factor = 1.138629436111989;
  const Row<float> plain(oscillator, 777), scaled(oscillator, 777, factor);
  const Row<double> wide(oscillator, 777, factor);
  for (std::size_t i = 0; i < 64; ++i) {
    REQUIRE(scaled.cos[i] == plain.cos[i] * static_cast<float>(factor));
    REQUIRE(scaled.sin[i] == plain.sin[i] * static_cast<float>(factor));
    REQUIRE(wide.cos[i] == static_cast<double>(scaled.cos[i]));
    REQUIRE(wide.sin[i] == static_cast<double>(scaled.sin[i]));
  }
}

TEST_CASE("what the float32 pipeline is off by", "[hf_float32]") {
  const Oscillator pipeline(posenc::detail::exact_inv_freq(llama2()), AnglePolicy::HfFloat32);
  const Oscillator exact(posenc::detail::exact_inv_freq(
      frequencies(posenc::Unscaled{.rotary_dim = 128, .base = 10000})));
  const auto worst = [&](double position) {
    const Row<double> ours(pipeline, position), truth(exact, position);
    return std::max(support::max_abs_difference(ours.cos, truth.cos),
                    support::max_abs_difference(ours.sin, truth.sin));
  };
  // The numbers in the documentation of AnglePolicy.
  CHECK(worst(4095) == Approx(1.4e-4).epsilon(0.05));
  CHECK(worst(131071) == Approx(4.2e-3).epsilon(0.05));
  CHECK(worst(1048575) == Approx(2.5e-2).epsilon(0.05));
  CHECK(worst(10000019) == Approx(0.27).epsilon(0.05));
}

TEMPLATE_TEST_CASE("Rope and its table have the same bits under the policy", "[hf_float32]", float,
                   double) {
  const posenc::YarnScaling rule{
      .rotary_dim = 8, .base = 10000, .factor = 16, .original_max_position = 4096};
  const posenc::Rope<posenc::HalfRotate> rope(hf_float32_frequencies(rule), 0, {},
                                              AnglePolicy::HfFloat32);
  CHECK(rope.angle_policy() == AnglePolicy::HfFloat32);
  CHECK(posenc::Rope<posenc::HalfRotate>(rule).angle_policy() == AnglePolicy::Exact);

  support::Random random(71);
  std::vector<TestType> x(3 * 2 * 8);
  random.fill_normal(x);
  const auto view = [](std::vector<TestType>& values) {
    return posenc::HeadsView<TestType>{.data = values.data(),
                                       .batch = 1,
                                       .seq = 3,
                                       .heads = 2,
                                       .dim = 8,
                                       .seq_stride = 16,
                                       .head_stride = 8};
  };
  const auto positions = Positions::range(131071, 3);
  auto rotated = x, by_table = x, exact = x;
  rope.rotate(view(rotated), positions);
  rope.template table<TestType>(positions).rotate(view(by_table));
  posenc::Rope<posenc::HalfRotate>(rule).rotate(view(exact), positions);
  CHECK(rotated == by_table);
  CHECK(rotated != exact);
  CHECK(support::max_abs_difference(rotated, exact) < 0.05);
  rope.inverse(view(rotated), positions);
  CHECK(support::max_abs_difference(rotated, x) < 2e-6);
}

TEST_CASE("positions beyond floats are refused under the policy", "[hf_float32]") {
  const std::vector<double> still{0.0};
  const posenc::Rope<posenc::HalfRotate> rope(Frequencies::from_inv_freq(still), 0, {},
                                              AnglePolicy::HfFloat32);
  CHECK_NOTHROW(rope.table<float>(Positions::real({1e30})));
  CHECK_THROWS_AS(rope.table<float>(Positions::real({1e39})), posenc::PositionError);
}

}  // namespace hf_float32_test
