// SPDX-License-Identifier: MIT
// The float32 angles of PyTorch: their cos and sin, and their errors.
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/guarded.hpp"
#include "support/random.hpp"
#include <posenc/frequency/angle_policy.hpp>
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/frequency/hf_float32.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace angle_policy_test {

using posenc::AnglePolicy;
using posenc::Frequencies;
using posenc::frequencies;
using posenc::hf_float32_frequencies;
using posenc::Positions;
using posenc::detail::Oscillator;

namespace {

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

TEST_CASE("HfFloat32: takes cos and sin of the float product", "[hf_float32]") {
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

TEST_CASE("HfFloat32: rounds positions to float", "[hf_float32]") {
  const Oscillator oscillator(posenc::detail::exact_inv_freq(llama2()), AnglePolicy::HfFloat32);
  CHECK(Row<float>(oscillator, 0x1p24 + 1).cos == Row<float>(oscillator, 0x1p24).cos);
  CHECK(Row<float>(oscillator, 0x1p24 + 2).cos != Row<float>(oscillator, 0x1p24).cos);
}

TEST_CASE("HfFloat32: takes a position per frequency, and reads no more of them", "[hf_float32]") {
  constexpr posenc::Index size = 130;
  const Oscillator oscillator(
      posenc::detail::exact_inv_freq(hf_float32_frequencies(posenc::Unscaled{2 * size, 10000})),
      AnglePolicy::HfFloat32);
  support::Guarded<double> memory(size);
  for (const posenc::Index first : {0, 2, 66}) {
    const posenc::Index count = size - first;
    double* const positions = memory.last(count);
    for (posenc::Index i = 0; i < count; ++i) positions[i] = static_cast<double>(1000 * i + 7);
    std::vector<float> cos(size), sin(size);
    oscillator.cos_sin_row(positions, false, first, count, 1, cos.data(), sin.data());
    for (posenc::Index i = 0; i < count; ++i) {
      const posenc::detail::CosSin expected = oscillator.at(positions[i], first + i);
      REQUIRE(cos[static_cast<std::size_t>(i)] == static_cast<float>(expected.cos));
      REQUIRE(sin[static_cast<std::size_t>(i)] == static_cast<float>(expected.sin));
    }
  }
}

TEST_CASE("HfFloat32: multiplies with the attention factor in float", "[hf_float32]") {
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

TEST_CASE("HfFloat32: the documented error of the float32 pipeline", "[hf_float32]") {
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

TEMPLATE_TEST_CASE("HfFloat32: Rope and its table have the same bits", "[hf_float32]", float,
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

TEST_CASE("HfFloat32: rejects positions beyond floats", "[hf_float32]") {
  const std::vector<double> still{0.0};
  const posenc::Rope<posenc::HalfRotate> rope(Frequencies::from_inv_freq(still), 0, {},
                                              AnglePolicy::HfFloat32);
  CHECK_NOTHROW(rope.table<float>(Positions::real({1e30})));
  CHECK_THROWS_AS(rope.table<float>(Positions::real({1e39})), posenc::PositionError);
}

}  // namespace angle_policy_test
