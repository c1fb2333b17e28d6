// SPDX-License-Identifier: MIT
// Rope on several axes: against references written like the models' own code, and against plain
// rope.
#include "reference/rope_axes.hpp"

#include "reference/grid_rope.hpp"
#include "rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/interop/diffusion_axes.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/interop/vision_axes.hpp>
#include <posenc/rotary/rope.hpp>

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace rope_axes_test {

using posenc::Index;
using posenc::PairAxes;
using posenc::Positions;
using rotation::Direction;
using support::Heads;

namespace {

constexpr Index batch = 2, seq = 5, heads = 2;

/// Returns random ids on `axes` axes, [B or 1, S].
Positions random_ids(support::Random& random, Index axes, Index rows, Index farthest) {
  std::vector<Positions> all;
  for (Index axis = 0; axis < axes; ++axis) {
    std::vector<Index> ids;
    for (Index n = 0; n < rows * seq; ++n) ids.push_back(random.integer(-farthest, farthest));
    all.push_back(Positions::ids(rows, ids));
  }
  return Positions::axes(all);
}

reference::Ids ids_at(const Positions& positions, Index b, Index s) {
  reference::Ids ids;
  for (Index axis = 0; axis < positions.axis_count(); ++axis) {
    ids.push_back(positions.at(b, s, axis));
  }
  return ids;
}

struct Scheme {
  std::string name;
  posenc::AxialFrequencies axial;
  std::function<reference::CosSin(const reference::Ids&)> reference;
};

/// Returns frequencies that posenc and the reference both take as exact.
posenc::AxialFrequencies given(Index rotary_dim, PairAxes axes, double attention_factor = 1) {
  return {posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(rotary_dim, 1e6),
                                             attention_factor),
          std::move(axes)};
}

std::vector<Scheme> schemes() {
  using posenc::MropeTail;
  using reference::Ids;
  const auto w128 = rotation::exact(rotation::plain_frequencies(128, 1e6));
  const auto w64 = rotation::exact(rotation::plain_frequencies(64, 1e6));
  const auto w300 = rotation::exact(rotation::plain_frequencies(300, 1e6));
  const posenc::VisionRope vision{.head_dim = 64, .base = 10000};
  return {
      {"chunked", given(128, posenc::mrope_chunked({16, 24, 24})),
       [=](const Ids& ids) {
         return reference::chunked(ids, {16, 24, 24}, w128);
       }},
      {"interleaved, t", given(128, posenc::mrope_interleaved({24, 20, 20}, MropeTail::Time)),
       [=](const Ids& ids) {
         return reference::interleaved_hf(ids, {24, 20, 20}, w128);
       }},
      {"interleaved, e", given(128, posenc::mrope_interleaved({24, 20, 20, 0}, MropeTail::Fourth)),
       [=](const Ids& ids) {
         return reference::interleaved_ggml(ids, {24, 20, 20, 0}, w128);
       }},
      {"interleaved, partial", given(64, posenc::mrope_interleaved({11, 11, 10}, MropeTail::Time)),
       [=](const Ids& ids) {
         return reference::interleaved_hf(ids, {11, 11, 10}, w64);
       }},
      {"interleaved over chunks of pairs",
       given(300, posenc::mrope_interleaved({50, 50, 50}, MropeTail::Time)),
       [=](const Ids& ids) {
         return reference::interleaved_hf(ids, {50, 50, 50}, w300);
       }},
      {"ernie", given(128, posenc::ernie_axes({22, 22, 20})),
       [=](const Ids& ids) {
         return reference::ernie(ids, {22, 22, 20}, w128);
       }},
      {"xdrope", given(128, posenc::xdrope_axes({16, 16, 16, 16})),
       [=](const Ids& ids) {
         return reference::chunked(ids, {16, 16, 16, 16}, w128);
       }},
      {"qwen2_vl_vision", posenc::qwen2_vl_vision(vision),
       [](const Ids& ids) { return reference::two_axes(ids, 64, 10000); }},
      {"llama4_vision", posenc::llama4_vision(vision),
       [](const Ids& ids) { return reference::llama4(ids, 64, 10000); }},
      {"pixtral_vision", posenc::pixtral_vision(vision),
       [](const Ids& ids) { return reference::pixtral(ids, 64, 10000); }},
      {"rope_vit_axial", posenc::rope_vit_axial({.head_dim = 32, .base = 100}),
       [](const Ids& ids) { return reference::two_axes(ids, 32, 100); }},
      {"ggml_vision", posenc::ggml_vision(vision, std::array<Index, 4>{10, 8, 6, 8}),
       [](const Ids& ids) {
         return reference::vision_ggml(ids, {10, 8, 6, 8}, 64, 10000);
       }},
      {"flux", posenc::flux(),
       [](const Ids& ids) {
         return reference::axial(ids, {16, 56, 56}, {10000, 10000, 10000});
       }},
      {"flux2", posenc::flux2(),
       [](const Ids& ids) {
         return reference::axial(ids, {32, 32, 32, 32}, {2000, 2000, 2000, 2000});
       }},
      {"cosmos", posenc::cosmos({.head_dim = 128}),
       [](const Ids& ids) {
         return reference::axial(ids, {44, 42, 42},
                                 {10000 * std::pow(2.0L, 44.0L / 42), 10000, 10000});
       }},
  };
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("Rope on axes: every scheme of axes equals its reference", "[rope][axes]",
                        rotation::Scalars) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(1);
    for (const Scheme& scheme : schemes()) {
      const auto pairs = scheme.axial.frequencies.pairs();
      const posenc::Rope<Pairing> rope(scheme.axial.frequencies, 3, scheme.axial.axes);
      for (const Index rows : {Index{1}, batch}) {
        INFO(scheme.name << ", " << Pairing::name << ", " << rows << " rows of positions");
        // Angles are within 2^8, where the reference's own frequencies are accurate to 4e-16.
        const auto positions = random_ids(random, rope.axis_count(), rows, 250);
        auto x = Heads<T>::random(random, batch, seq, heads, 2 * pairs + 5);
        auto y = x;
        rope.rotate(y.view(), positions);
        CHECK(rotation::worst_error_of_rotations(
                  x.view(), y.view(), {rotation::reference_pairing<Pairing>, 3},
                  static_cast<std::size_t>(pairs),
                  [&](Index b, Index s) { return scheme.reference(ids_at(positions, b, s)); },
                  8e-16) <= 1);
      }
    }
  });
}

TEMPLATE_LIST_TEST_CASE("Rope on axes: equal positions on all axes give plain rope, bit for bit",
                        "[rope][axes]", rotation::Scalars) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(2);
    for (const Scheme& scheme : schemes()) {
      const Index pairs = scheme.axial.frequencies.pairs();
      const auto w = posenc::detail::exact_inv_freq(scheme.axial.frequencies);
      const auto frequencies = posenc::detail::exact_frequencies({w.begin(), w.end()}, 1.25);
      const posenc::Rope<Pairing> plain(frequencies, 1);
      const posenc::Rope<Pairing> several(frequencies, 1, scheme.axial.axes);
      auto x = Heads<T>::random(random, batch, seq, heads, 2 * pairs + 2);
      for (const auto& axis : {Positions::range(131071, seq), Positions::starts({-9, 77}, seq)}) {
        const auto axes = Positions::axes(
            std::vector<Positions>(static_cast<std::size_t>(several.axis_count()), axis));
        for (const auto direction : {Direction::Forward, Direction::Adjoint, Direction::Inverse}) {
          INFO(scheme.name << ", " << Pairing::name << ", direction "
                           << static_cast<int>(direction));
          auto one = x, all = x;
          rotation::apply(plain, direction, one.view(), axis);
          rotation::apply(several, direction, all.view(), axes);
          CHECK(support::same_bits(one.view(), all.view()));
        }
        auto one = x, all = x;
        plain.rotate(one.view(), axis);
        several.template table<posenc::Compute<T>>(axes).rotate(all.view());
        CHECK(support::same_bits(one.view(), all.view()));
      }
    }
  });
}

TEST_CASE("Rope on axes: a table of several axes gives the bits of one-shot calls",
          "[rope][axes]") {
  support::Random random(3);
  for (const Scheme& scheme : schemes()) {
    INFO(scheme.name);
    const posenc::Rope<posenc::Interleaved> rope(scheme.axial.frequencies, 0, scheme.axial.axes);
    const auto positions = random_ids(random, rope.axis_count(), batch, 100000);
    auto x = Heads<float>::random(random, batch, seq, heads, rope.rotary_dim());
    auto y = x, z = x;
    rope.rotate(y.view(), positions);
    rope.table<float>(positions).rotate(z.view());
    CHECK(support::same_bits(y.view(), z.view()));
    rope.inverse(y.view(), positions);
    CHECK(support::max_abs_difference(support::row_of(x.view(), 1, 2, 1),
                                      support::row_of(y.view(), 1, 2, 1)) < 1e-5);
  }
}

TEST_CASE("Rope on axes: the float pipeline is the same on several axes", "[rope][axes]") {
  support::Random random(4);
  const auto frequencies = posenc::frequencies(posenc::Unscaled{.rotary_dim = 24, .base = 1e6});
  const posenc::Rope<posenc::HalfRotate> plain(frequencies, 0, {}, posenc::AnglePolicy::HfFloat32);
  const posenc::Rope<posenc::HalfRotate> several(frequencies, 0, posenc::mrope_chunked({4, 4, 4}),
                                                 posenc::AnglePolicy::HfFloat32);
  const auto axis = Positions::range(1000000, seq);
  auto x = Heads<float>::random(random, batch, seq, heads, 24);
  auto y = x;
  plain.rotate(x.view(), axis);
  several.rotate(y.view(), Positions::axes(std::array{axis, axis, axis}));
  CHECK(support::same_bits(x.view(), y.view()));
}

TEST_CASE("Rope on axes: positions must have the axes of the rope", "[rope][axes][errors]") {
  const posenc::Rope<posenc::HalfRotate> rope(given(24, posenc::mrope_chunked({4, 4, 4})));
  CHECK(rope.axis_count() == 3);
  CHECK(rope.axes() == posenc::mrope_chunked({4, 4, 4}));
  support::Random random(5);
  auto x = Heads<float>::random(random, batch, seq, heads, 24);
  auto before = x;
  const auto axis = Positions::range(0, seq);
  const auto error = [](const auto& call) { return support::message_of<posenc::ShapeError>(call); };
  CHECK(error([&] { rope.rotate(x.view(), axis); }) ==
        "posenc::Rope::rotate: positions must have 3 axes but have 1");
  CHECK(error([&] {
          rope.table<float>(Positions::axes(std::array{axis, axis}));
        }) == "posenc::Rope::table: positions must have 3 axes but have 2");
  // The largest position of all axes is checked.
  const auto far = Positions::range(Index{1} << 51, seq);
  CHECK(support::message_of<posenc::PositionError>([&] {
          rope.rotate(x.view(), Positions::axes(std::array{axis, axis, far}));
        }).find("angles must not exceed 2^50 radians") != std::string::npos);
  CHECK(support::same_bits(x.view(), before.view()));
}

}  // namespace rope_axes_test
