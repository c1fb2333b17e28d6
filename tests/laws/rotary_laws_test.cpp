// SPDX-License-Identifier: MIT
// The laws of RotaryEncoding over every model of it.
#include "laws/rotary_laws.hpp"

#include "support/catch.hpp"
#include <posenc/concepts.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>
#include <posenc/rotary/rope.hpp>

#include <Eigen/Core>

using posenc::HalfRotate;
using posenc::Index;
using posenc::Interleaved;
using posenc::Rope;

TEMPLATE_TEST_CASE("rotary laws: nothing", "[laws]", float, double, Eigen::half, Eigen::bfloat16) {
  laws::check_rotary<TestType>(posenc::NoRotation{}, 8, 0, 0);
}

template <class Pairing>
void check_all_scalars(const Rope<Pairing>& rope, Index head_dim) {
  const Index first = rope.rotary_offset(), last = first + rope.rotary_dim();
  laws::check_rotary<float>(rope, head_dim, first, last);
  laws::check_rotary<double>(rope, head_dim, first, last);
  laws::check_rotary<Eigen::half>(rope, head_dim, first, last);
  laws::check_rotary<Eigen::bfloat16>(rope, head_dim, first, last);
}

TEMPLATE_TEST_CASE("rotary laws: rope", "[laws]", Interleaved, HalfRotate) {
  using R = Rope<TestType>;
  SECTION("over whole heads") {
    check_all_scalars(R(posenc::Unscaled{.rotary_dim = 16, .base = 10000}), 16);
  }
  SECTION("over the first channels") {
    check_all_scalars(R(posenc::NtkScaling{.rotary_dim = 6, .base = 10000, .factor = 4}), 11);
  }
  SECTION("over channels in the middle") {
    check_all_scalars(R(posenc::Unscaled{.rotary_dim = 8, .base = 500000}, 3), 14);
  }
  SECTION("with an attention factor") {
    const R rope(posenc::YarnScaling{
        .rotary_dim = 12, .base = 10000, .factor = 16, .original_max_position = 4096});
    REQUIRE(rope.frequencies().attention_factor() > 1.2);
    check_all_scalars(rope, 12);
  }
}

namespace {

/// A rope with one thing wrong.
struct InverseForAdjoint : Rope<HalfRotate> {
  using Rope::Rope;
  template <class T>
  void adjoint_keys(posenc::HeadsView<T> x, const posenc::Positions& positions) const {
    inverse(x, positions);
  }
};

struct KeysLeftAlone : Rope<HalfRotate> {
  using Rope::Rope;
  template <class T>
  void rotate_keys(posenc::HeadsView<T>, const posenc::Positions&) const {}
  template <class T>
  void adjoint_keys(posenc::HeadsView<T>, const posenc::Positions&) const {}
};

constexpr posenc::YarnScaling yarn{
    .rotary_dim = 8, .base = 10000, .factor = 16, .original_max_position = 4096};

}  // namespace

TEST_CASE("rotary laws catch an inverse in place of the adjoint", "[laws][!shouldfail]") {
  laws::check_rotary<float>(InverseForAdjoint(yarn), 8, 0, 8);
}

TEST_CASE("rotary laws catch scores of absolute positions", "[laws][!shouldfail]") {
  laws::check_rotary<float>(KeysLeftAlone(yarn), 8, 0, 8);
}

TEST_CASE("rotary laws catch a slice that is wider than it should be", "[laws][!shouldfail]") {
  laws::check_rotary<float>(Rope<HalfRotate>(yarn), 8, 0, 6);
}
