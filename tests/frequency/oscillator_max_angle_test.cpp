// SPDX-License-Identifier: MIT
// Angles past 2^50 radians are rejected before anything is written.
#include "support/catch.hpp"
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>

#include <array>
#include <vector>

namespace oscillator_max_angle_test {

using Catch::Matchers::Message;
using posenc::HalfRotate;
using posenc::HeadsView;
using posenc::Index;
using posenc::PositionError;
using posenc::Positions;
using posenc::Rope;

namespace {

constexpr Index limit = Index{1} << 50;

/// One head at one position, for ropes of rotary_dim 4.
struct Token {
  std::array<float, 4> values{1, 2, 3, 4};

  HeadsView<float> view() {
    return {.data = values.data(), .batch = 1, .seq = 1, .heads = 1, .dim = 4};
  }
};

Rope<HalfRotate> rope_of(double fastest) {
  return Rope<HalfRotate>(posenc::Frequencies::from_inv_freq(std::vector<double>{0.001, fastest}));
}

}  // namespace

TEST_CASE("Oscillator: 2^50 radians are within reach, more are not", "[reach]") {
  Token token;
  const auto rope = rope_of(1);
  CHECK_NOTHROW(rope.rotate(token.view(), Positions::ids({limit})));
  CHECK_NOTHROW(rope.rotate(token.view(), Positions::ids({-limit})));

  token = {};
  CHECK_THROWS_MATCHES(rope.rotate(token.view(), Positions::ids({limit + 1})), PositionError,
                       Message("posenc::Rope::rotate: angles must not exceed 2^50 radians, but a "
                               "position has magnitude 1125899906842625 and the fastest inv_freq "
                               "is 1"));
  CHECK_THROWS_AS(rope.rotate(token.view(), Positions::range(-limit - 1, 1)), PositionError);
  CHECK_THROWS_AS(rope.adjoint(token.view(), Positions::ids({limit + 1})), PositionError);
  CHECK_THROWS_AS(rope.inverse(token.view(), Positions::ids({limit + 1})), PositionError);
  CHECK_THROWS_AS(rope.table<float>(Positions::real({0x1p51})), PositionError);
  CHECK(token.values == std::array<float, 4>{1, 2, 3, 4});
}

TEST_CASE("Oscillator: the fastest frequency decides how far positions reach", "[reach]") {
  Token token;
  CHECK_NOTHROW(rope_of(-4).rotate(token.view(), Positions::ids({limit / 4})));
  CHECK_THROWS_AS(rope_of(-4).rotate(token.view(), Positions::ids({limit / 4 + 1})), PositionError);
  CHECK_NOTHROW(rope_of(0.125).rotate(token.view(), Positions::ids({8 * limit})));
}

TEST_CASE("Oscillator: one position past the end is rejected, wherever it stands", "[reach]") {
  std::vector<float> memory(4 * 3);
  const HeadsView<float> x{
      .data = memory.data(), .batch = 1, .seq = 3, .heads = 1, .dim = 4, .seq_stride = 4};
  CHECK_THROWS_AS(rope_of(1).rotate(x, Positions::ids({0, limit + 1, 1})), PositionError);
  CHECK_THROWS_AS(rope_of(1).rotate(x, Positions::range(limit - 1, 3)), PositionError);
  CHECK_NOTHROW(rope_of(1).rotate(x, Positions::range(limit - 2, 3)));
}

}  // namespace oscillator_max_angle_test
