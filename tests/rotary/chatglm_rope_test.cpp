// SPDX-License-Identifier: MIT
// ChatGLM-6B's two halves, and the models that rotate only the first channels.
#include "reference/rope_axes.hpp"
#include "rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/interop/prompt_positions.hpp>
#include <posenc/rotary/chatglm_rope.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace chatglm_rope_test {

using posenc::ChatGlmRope;
using posenc::Index;
using posenc::Positions;
using support::Heads;
using support::message_of;

TEMPLATE_LIST_TEST_CASE("ChatGlmRope: rotates each half by its own id", "[chatglm]",
                        rotation::Scalars) {
  using T = TestType;
  support::Random random(1);
  constexpr Index dim = 128, seq = 12;
  const ChatGlmRope rope(dim, 10000);
  const auto positions =
      posenc::chatglm_positions({.context_length = 7, .mask_position = 5}, 0, seq);
  auto x = Heads<T>::random(random, 2, seq, 2, dim);
  auto y = x;
  rope.rotate(y.view(), positions);
  // The two channels of each pair, in either half, are 32 apart.
  double worst = 0;
  for (const Index half : {0, 1}) {
    const auto part = [&](Heads<T>& heads) {
      return posenc::slice_features(heads.view(), half * dim / 2, dim / 2);
    };
    worst =
        std::max(worst, rotation::worst_error_of_rows(
                            part(x), part(y), {reference::Pairing::HalfRotate}, dim / 4,
                            [&](Index b, Index s, Index h, const std::vector<double>&) {
                              const auto whole = reference::chatglm(
                                  support::row_of(x.view(), b, s, h),
                                  {positions.at(b, s, 0), positions.at(b, s, 1)}, 10000);
                              const auto begin = whole.begin() + half * dim / 2;
                              return std::vector<double>(begin, begin + dim / 2);
                            },
                            [](Index, Index, std::size_t) { return rotation::PairTolerance{}; }));
  }
  CHECK(worst <= 1);

  Heads<T> into(2, seq, 2, dim, support::layouts().back());
  rope.rotate_into(x.view(), into.view(), positions);
  CHECK(support::same_bits(into.view(), y.view()));
  CHECK(into.surroundings_kept());
  auto back = y;
  rope.inverse(back.view(), positions);
  rope.adjoint(y.view(), positions);
  CHECK(support::same_bits(back.view(), y.view()));
  CHECK(support::max_abs_difference(support::row_of(x.view(), 1, 9, 1),
                                    support::row_of(y.view(), 1, 9, 1)) <
        20 * support::rounding<T>(6));
}

TEST_CASE("ChatGlmRope: halves are ropes of their own", "[chatglm]") {
  // In the checkpoint the frequencies are rounded to half precision.
  const std::array w{1.0, 0.74951171875, 0.5625};
  const ChatGlmRope rope(posenc::Frequencies::from_inv_freq(w));
  CHECK(rope.rotary_dim() == 12);
  CHECK(rope.rotary_offset() == 0);
  CHECK(rope.axis_count() == 2);
  CHECK(rope.frequencies().inv_freq() == std::vector<double>(w.begin(), w.end()));
  CHECK(rope.softmax_scale_multiplier() == 1);
  CHECK(rope.position_half().rotary_offset() == 0);
  CHECK(rope.block_half().rotary_offset() == 6);
  CHECK(rope.block_half().axes() == posenc::PairAxes::only(1, 2, 3));

  support::Random random(2);
  auto x = Heads<float>::random(random, 1, 2, 2, 14);
  const auto positions = posenc::chatglm_positions({.context_length = 1, .mask_position = 0}, 0, 2);
  auto y = x, q = x, k = x;
  rope.rotate(y.view(), positions);
  rope.rotate_queries(q.view(), positions);
  rope.rotate_keys(k.view(), positions);
  CHECK(support::same_bits(q.view(), y.view()));
  CHECK(support::same_bits(k.view(), y.view()));
  CHECK(support::same_bits(posenc::slice_features(y.view(), 12, 2),
                           posenc::slice_features(x.view(), 12, 2)));
}

TEST_CASE("ChatGlmRope: long heads are two ropes, and so are their gradients", "[chatglm]") {
  constexpr Index dim = 600, seq = 3;
  const ChatGlmRope rope(dim, 10000);
  support::Random random(4);
  auto x = Heads<float>::random(random, 1, seq, 2, dim);
  auto grad = Heads<float>::random(random, 1, seq, 2, dim);
  auto y = x, halves = x;
  const auto positions =
      Positions::axes(std::array{Positions::range(5, seq), Positions::range(1, seq)});
  rope.rotate(y.view(), positions);
  rope.position_half().rotate(halves.view(), positions);
  rope.block_half().rotate(halves.view(), positions);
  CHECK(support::same_bits(y.view(), halves.view()));

  auto one_half = rope.zero_frequency_gradient();
  posenc::accumulate_frequency_gradient(rope, y.view(), grad.view(), positions, one_half);
  // As a rope over both halves, each pair has a frequency of its own.
  using Base = posenc::Rope<posenc::detail::HalfRotatePerHalf>;
  std::vector<double> both(2 * one_half.size());
  posenc::accumulate_frequency_gradient(static_cast<const Base&>(rope), y.view(), grad.view(),
                                        positions, both);
  double worst = 0;
  for (std::size_t i = 0; i < one_half.size(); ++i) {
    const double sum = both[i] + both[i + one_half.size()];
    worst = std::max(worst, std::abs(one_half[i] - sum) / (1 + std::abs(sum)));
  }
  CHECK(worst < 1e-12);
}

TEST_CASE("ChatGlmRope: checks its input before it writes", "[chatglm][errors]") {
  const auto config = [](Index dim, double base) {
    return message_of<posenc::ConfigError>([&] { ChatGlmRope(dim, base); });
  };
  CHECK(config(6, 10000) ==
        "posenc::ChatGlmRope: head_dim must be divisible by 4 and at least 4 but is 6");
  CHECK(config(0, 10000) ==
        "posenc::ChatGlmRope: head_dim must be divisible by 4 and at least 4 but is 0");
  CHECK(config(8, 0) ==
        "posenc::ChatGlmRope: base must be set, finite and greater than 1, but is 0");

  const ChatGlmRope rope(8, 10000);
  support::Random random(3);
  // These heads are wide enough only for the first half.
  auto x = Heads<float>::random(random, 1, 3, 1, 6);
  auto before = x;
  const auto positions =
      Positions::axes(std::array{Positions::range(3, 3), Positions::range(1, 3)});
  const std::string wide =
      ": head_dim (6) must include the rotary channels [0, 8); x is [1, 3, 1, 6]";
  const auto shape = [](const auto& call) { return message_of<posenc::ShapeError>(call); };
  CHECK(shape([&] { rope.rotate(x.view(), positions); }) == "posenc::Rope::rotate" + wide);
  CHECK(shape([&] { rope.rotate_into(x.view(), x.view(), positions); }) ==
        "posenc::Rope::rotate_into" + wide);
  CHECK(shape([&] { rope.adjoint_keys(x.view(), positions); }) == "posenc::Rope::adjoint" + wide);
  CHECK(shape([&] { rope.inverse(x.view(), positions); }) == "posenc::Rope::inverse" + wide);
  CHECK(support::same_bits(x.view(), before.view()));
  auto y = Heads<float>::random(random, 1, 3, 1, 8);
  CHECK(shape([&] { rope.adjoint_queries(y.view(), Positions::range(0, 3)); }) ==
        "posenc::Rope::adjoint: positions must have 2 axes but have 1");
}

TEST_CASE("Rope: GPT-J and later ChatGLM rotate neighbours in the first part of a head",
          "[chatglm]") {
  // GPT-J rotates 64 of 256 channels, ChatGLM2 and GLM-4 64 of 128; the exponent's denominator is
  // the rotary dimension.
  for (const Index dim : {256, 128}) {
    const posenc::Rope<posenc::Interleaved> rope(posenc::Unscaled{.rotary_dim = 64, .base = 10000});
    support::Random random(4);
    auto x = Heads<float>::random(random, 1, 5, 2, dim);
    auto y = x;
    rope.rotate(y.view(), Positions::range(2043, 5));
    const rotation::Expectation expect{reference::inverse_frequencies(64, 10000),
                                       {reference::Pairing::Interleaved}};
    CHECK(rotation::worst_error(x.view(), y.view(), {2043, 2044, 2045, 2046, 2047}, expect) <= 1);
    CHECK(support::same_bits(posenc::slice_features(y.view(), 64, dim - 64),
                             posenc::slice_features(x.view(), 64, dim - 64)));
  }
}

TEST_CASE("rotary_dim: odd is rejected", "[chatglm][errors]") {
  // int(0.4 * 80) is even, int(0.4 * 64) = 25 is not.
  CHECK_NOTHROW(posenc::Rope<posenc::HalfRotate>(
      posenc::Unscaled{.rotary_dim = static_cast<Index>(0.4 * 80), .base = 10000}));
  CHECK(message_of<posenc::ConfigError>([] {
          posenc::Rope<posenc::HalfRotate>(
              posenc::Unscaled{.rotary_dim = static_cast<Index>(0.4 * 64), .base = 10000});
        }) == "posenc::Unscaled: rotary_dim must be even and at least 2 but is 25");
}

}  // namespace chatglm_rope_test
