// SPDX-License-Identifier: MIT
// AnyRope is bit-identical to the rope that it holds.
#include "rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/concepts.hpp>
#include <posenc/frequency/yarn.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/interop/vision_axes.hpp>
#include <posenc/rotary/any_rope.hpp>

#include <array>
#include <utility>
#include <vector>

namespace any_rope_test {

using posenc::AnyRope;
using posenc::ChatGlmRope;
using posenc::HalfRotate;
using posenc::Index;
using posenc::Interleaved;
using posenc::PairingKind;
using posenc::Positions;
using posenc::Rope;
using support::Heads;

namespace {

const posenc::YarnScaling yarn{
    .rotary_dim = 24, .base = 10000, .factor = 8, .original_max_position = 4096};

template <class T, class Typed>
void check_same(const AnyRope& any, const Typed& typed, Index dim, const Positions& positions) {
  STATIC_REQUIRE(posenc::DifferentiableRotary<AnyRope, T>);
  support::Random random(1);
  auto x = Heads<T>::random(random, 2, positions.count(), 2, dim);
  for (const auto direction :
       {rotation::Direction::Forward, rotation::Direction::Adjoint, rotation::Direction::Inverse}) {
    auto a = x, b = x;
    rotation::apply(any, direction, a.view(), positions);
    rotation::apply(typed, direction, b.view(), positions);
    CHECK(support::same_bits(a.view(), b.view()));
    CHECK_FALSE(support::same_bits(a.view(), x.view()));
  }
  auto a = x, b = x, q = x, k = x;
  any.rotate_into(x.view(), a.view(), positions);
  typed.rotate(b.view(), positions);
  any.rotate_queries(q.view(), positions);
  any.rotate_keys(k.view(), positions);
  for (auto* y : {&a, &q, &k}) CHECK(support::same_bits(y->view(), b.view()));
  b = x, q = x, k = x;
  typed.adjoint(b.view(), positions);
  any.adjoint_queries(q.view(), positions);
  any.adjoint_keys(k.view(), positions);
  for (auto* y : {&q, &k}) CHECK(support::same_bits(y->view(), b.view()));

  CHECK(any.rotary_dim() == typed.rotary_dim());
  CHECK(any.rotary_offset() == typed.rotary_offset());
  CHECK(any.axis_count() == typed.axis_count());
  CHECK(any.frequencies() == typed.frequencies());
  CHECK(any.softmax_scale_multiplier() == typed.softmax_scale_multiplier());
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("AnyRope: gives the bits of the rope that it holds", "[any_rope]",
                        rotation::Scalars) {
  using T = TestType;
  const auto frequencies = posenc::frequencies(yarn);
  const auto range = Positions::range(5000, 3);
  check_same<T>(AnyRope(PairingKind::Interleaved, frequencies, 2),
                Rope<Interleaved>(frequencies, 2), 30, range);
  check_same<T>(AnyRope(PairingKind::HalfRotate, frequencies), Rope<HalfRotate>(frequencies), 24,
                range);
  check_same<T>(Rope<Interleaved>(yarn), Rope<Interleaved>(yarn), 24, range);

  const auto ids =
      Positions::axes(std::array{range, Positions::range(1, 3), Positions::range(9, 3)});
  const auto axes = posenc::mrope_chunked({4, 4, 4});
  check_same<T>(AnyRope(PairingKind::HalfRotate, frequencies, 0, axes),
                Rope<HalfRotate>(frequencies, 0, axes), 24, ids);
  check_same<T>(
      AnyRope(PairingKind::HalfRotate, frequencies, 0, {}, posenc::AnglePolicy::HfFloat32),
      Rope<HalfRotate>(frequencies, 0, {}, posenc::AnglePolicy::HfFloat32), 24, range);

  const auto vision = posenc::qwen2_vl_vision({.head_dim = 24, .base = 10000});
  check_same<T>(AnyRope(PairingKind::HalfRotate, vision, 1), Rope<HalfRotate>(vision, 1), 26,
                Positions::grid(1, 3));
  check_same<T>(ChatGlmRope(24, 10000), ChatGlmRope(24, 10000), 24, Positions::grid(1, 3));
}

TEST_CASE("AnyRope: returns the typed rope", "[any_rope]") {
  const AnyRope any(PairingKind::HalfRotate, posenc::frequencies(yarn));
  support::Random random(2);
  auto x = Heads<float>::random(random, 1, 3, 2, 24);
  auto y = x;
  any.rotate(x.view(), Positions::range(0, 3));
  any.visit([&y]<class Typed>(const Typed& rope) {
    if constexpr (requires { rope.template table<float>(Positions::range(0, 3)); }) {
      rope.template table<float>(Positions::range(0, 3)).rotate(y.view());
    }
  });
  CHECK(support::same_bits(x.view(), y.view()));
}

TEST_CASE("AnyRope: moves keys as the rope that it holds", "[any_rope][rerotate]") {
  const auto frequencies = posenc::frequencies(yarn);
  const auto other = posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(24));
  const auto p = Positions::range(300, 3), q = Positions::range(7, 3);
  support::Random random(3);
  auto x = Heads<float>::random(random, 1, 3, 2, 24);
  for (const auto kind : {PairingKind::Interleaved, PairingKind::HalfRotate}) {
    const AnyRope from(kind, frequencies), to(kind, other);
    auto a = x, b = x;
    posenc::rerotate(a.view(), from, p, to, q);
    posenc::shift_keys(a.view(), from, {-5});
    posenc::shift_keys(a.view(), from, q);
    const auto typed = [&]<class Pairing>(Pairing) {
      const Rope<Pairing> one(frequencies), two(other);
      posenc::rerotate(b.view(), one, p, two, q);
      posenc::shift_keys(b.view(), one, {-5});
      posenc::shift_keys(b.view(), one, q);
    };
    if (kind == PairingKind::Interleaved) {
      typed(Interleaved{});
    } else {
      typed(HalfRotate{});
    }
    CHECK(support::same_bits(a.view(), b.view()));
  }

  // The two halves of ChatGLM's rope.
  const ChatGlmRope chatglm(24, 10000);
  const auto before = Positions::grid(1, 3), after = Positions::axes(std::array{p, q});
  auto moved = x, shifted = x, direct = x;
  chatglm.rotate(moved.view(), before);
  posenc::rerotate(moved.view(), AnyRope(chatglm), before, AnyRope(chatglm), after);
  chatglm.rotate(shifted.view(), before);
  posenc::shift_keys(
      shifted.view(), AnyRope(chatglm),
      Positions::axes(std::array{Positions::ids({300, 301, 302}), Positions::ids({7, 7, 7})}));
  chatglm.rotate(direct.view(), after);
  for (Index s = 0; s < 3; ++s) {
    const auto want = support::row_of(direct.view(), 0, s, 1);
    CHECK(support::max_abs_difference(support::row_of(moved.view(), 0, s, 1), want) < 2e-6);
    CHECK(support::max_abs_difference(support::row_of(shifted.view(), 0, s, 1), want) < 2e-6);
  }
  CHECK(support::message_of<posenc::ConfigError>([&] {
          posenc::rerotate(x.view(), AnyRope(chatglm), after,
                           AnyRope(PairingKind::HalfRotate, frequencies), p);
        }) == "posenc::rerotate: both ropes must have the same pairing");
}

TEST_CASE("AnyRope: holds the kind of rope that was assigned", "[any_rope]") {
  const auto frequencies = posenc::frequencies(yarn);
  const AnyRope interleaved(PairingKind::Interleaved, frequencies),
      halves(PairingKind::HalfRotate, frequencies), chatglm(ChatGlmRope(24, 10000));
  const auto p = Positions::grid(1, 3), one_axis = Positions::range(300, 3);
  support::Random random(4);
  const auto x = Heads<float>::random(random, 1, 3, 2, 24);
  const auto rotated = [&](const AnyRope& rope) {
    auto y = x;
    rope.rotate(y.view(), rope.axis_count() == 2 ? p : one_axis);
    return y;
  };
  for (const AnyRope* from : {&interleaved, &halves, &chatglm}) {
    for (const AnyRope* to : {&interleaved, &halves, &chatglm}) {
      AnyRope rope(*from);
      rope = *to;
      const AnyRope taken(std::move(rope));
      auto want = rotated(*to);
      CHECK(support::same_bits(rotated(taken).view(), want.view()));
      // NOLINTNEXTLINE(bugprone-use-after-move): a moved one is a copy
      CHECK(support::same_bits(rotated(rope).view(), want.view()));
    }
  }
}

TEST_CASE("AnyRope: checks what its rope checks", "[any_rope][errors]") {
  CHECK(support::message_of<posenc::ConfigError>([] {
          AnyRope(PairingKind::Interleaved, posenc::frequencies(yarn), -1);
        }) == "posenc::Rope: rotary_offset must not be negative but is -1");
  const AnyRope any(PairingKind::Interleaved, posenc::frequencies(yarn));
  Heads<float> x(1, 3, 2, 20);
  CHECK(support::message_of<posenc::ShapeError>(
            [&] { any.rotate(x.view(), Positions::range(0, 3)); }) ==
        "posenc::Rope::rotate: head_dim (20) must include the rotary channels [0, 24); x is "
        "[1, 3, 2, 20]");
}

}  // namespace any_rope_test
