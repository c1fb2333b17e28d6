// SPDX-License-Identifier: MIT
// Laws of RotaryEncoding for all of its models.
#include "laws/rotary_laws.hpp"

#include "support/catch.hpp"
#include <posenc/concepts.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>
#include <posenc/interop/diffusion_axes.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/interop/vision_axes.hpp>
#include <posenc/rotary/any_rope.hpp>
#include <posenc/rotary/chatglm_rope.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/xpos.hpp>

#include <Eigen/Core>

#include <vector>

namespace rotary_laws_test {

using posenc::HalfRotate;
using posenc::Index;
using posenc::Interleaved;
using posenc::Rope;

TEMPLATE_TEST_CASE("rotary laws: nothing", "[laws]", float, double, Eigen::half, Eigen::bfloat16) {
  laws::check_rotary<TestType>(posenc::NoRotation{}, 8, 0, 0);
}

template <class Rotary>
void check_all_scalars(const Rotary& rope, Index head_dim, const laws::RotaryDomain& domain = {}) {
  const Index first = rope.rotary_offset(), last = first + rope.rotary_dim();
  laws::check_rotary<float>(rope, head_dim, first, last, domain);
  laws::check_rotary<double>(rope, head_dim, first, last, domain);
  laws::check_rotary<Eigen::half>(rope, head_dim, first, last, domain);
  laws::check_rotary<Eigen::bfloat16>(rope, head_dim, first, last, domain);
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

TEMPLATE_TEST_CASE("rotary laws: rope on several axes", "[laws]", Interleaved, HalfRotate) {
  using R = Rope<TestType>;
  // The laws hold in both pairings, whatever that of the model.
  const auto of_any_pairing = [](posenc::AxialFrequencies axial, Index offset = 0) {
    axial.pairing.reset();
    return R(axial, offset);
  };
  const posenc::YarnScaling rule{
      .rotary_dim = 24, .base = 10000, .factor = 16, .original_max_position = 4096};
  SECTION("in chunks") {
    check_all_scalars(R(rule, 1, posenc::mrope_chunked({2, 5, 5})), 27, {.axes = 3});
  }
  SECTION("interleaved") {
    check_all_scalars(R(rule, 0, posenc::mrope_interleaved({6, 3, 3}, posenc::MropeTail::Fourth)),
                      24, {.axes = 4});
  }
  SECTION("rows and columns of a picture") {
    check_all_scalars(of_any_pairing(posenc::qwen2_vl_vision({.head_dim = 16, .base = 10000})), 16,
                      {.axes = 2});
  }
  SECTION("patch centres") {
    const posenc::Dinov3Rope settings{.head_dim = 16, .min_period = 0.5, .max_period = 20};
    check_all_scalars(of_any_pairing(posenc::dinov3(settings), 2), 19, {.axes = 2});
  }
  SECTION("frames, rows and columns of a video") {
    check_all_scalars(of_any_pairing(posenc::wan(20)), 20, {.axes = 3});
    check_all_scalars(of_any_pairing(posenc::cosmos({.head_dim = 16})), 16, {.axes = 3});
  }
}

TEMPLATE_TEST_CASE("rotary laws: xpos", "[laws]", Interleaved, HalfRotate) {
  using R = posenc::XPos<TestType>;
  const posenc::NtkScaling rule{.rotary_dim = 12, .base = 10000, .factor = 4};
  check_all_scalars(R(rule, {.scale_base = 512, .centre = 400}), 12, {.farthest = 1900});
  check_all_scalars(R(rule, {.scale_base = 4096}, 3), 17, {.farthest = 15000});
}

TEMPLATE_TEST_CASE("rotary laws: mixed rope", "[laws]", Interleaved, HalfRotate) {
  const std::vector<double> w{1, 0.5, 0.25, -0.125, 0.75, -1};
  const posenc::MixedRope<TestType> rope(
      w, {.axes = 2, .heads = 1, .rotary_dim = 6, .rotary_offset = 1});
  const laws::RotaryDomain domain{.axes = 2, .heads = 1};
  laws::check_rotary<float>(rope, 9, 1, 7, domain);
  laws::check_rotary<double>(rope, 9, 1, 7, domain);
  laws::check_rotary<Eigen::half>(rope, 9, 1, 7, domain);
  laws::check_rotary<Eigen::bfloat16>(rope, 9, 1, 7, domain);
}

TEST_CASE("rotary laws: chatglm, and a rope whose pairing is known at run time", "[laws]") {
  check_all_scalars(posenc::ChatGlmRope(16, 10000), 18, {.axes = 2});
  check_all_scalars(
      posenc::AnyRope(posenc::PairingKind::Interleaved,
                      posenc::frequencies(posenc::Unscaled{.rotary_dim = 8, .base = 10000}), 2),
      11);
}

namespace {

/// Wrong rope: its adjoint is the inverse.
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

TEST_CASE("rotary laws: catch an inverse in place of the adjoint", "[laws][!shouldfail]") {
  laws::check_rotary<float>(InverseForAdjoint(yarn), 8, 0, 8);
}

TEST_CASE("rotary laws: catch scores of absolute positions", "[laws][!shouldfail]") {
  laws::check_rotary<float>(KeysLeftAlone(yarn), 8, 0, 8);
}

TEST_CASE("rotary laws: catch a slice that is too wide", "[laws][!shouldfail]") {
  laws::check_rotary<float>(Rope<HalfRotate>(yarn), 8, 0, 6);
}

}  // namespace rotary_laws_test
