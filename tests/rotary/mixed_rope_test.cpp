// SPDX-License-Identifier: MIT
// MixedRope: frequencies on every axis for every head.
#include "reference/rope_axes.hpp"
#include "rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/interop/vision_axes.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/grid_positions.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace mixed_rope_test {

using posenc::ConfigError;
using posenc::Index;
using posenc::MixedRope;
using posenc::Positions;
using posenc::ShapeError;
using support::Heads;
using support::message_of;

namespace {

/// Returns random frequencies [axes, heads, pairs].
std::vector<double> random_frequencies(support::Random& random, Index count) {
  std::vector<double> w;
  for (Index i = 0; i < count; ++i) w.push_back(random.uniform(-1, 1));
  return w;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("MixedRope: equals its reference", "[mixed_rope]", rotation::Scalars) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(1);
    constexpr Index heads = 3;
    for (const Index pairs : {1, 7, 140}) {
      for (const Index axes : {1, 2, 3}) {
        INFO(Pairing::name << ", " << pairs << " pairs, " << axes << " axes");
        const auto w = random_frequencies(random, axes * heads * pairs);
        const MixedRope<Pairing> rope(
            w, {.axes = axes, .heads = heads, .rotary_dim = 2 * pairs, .rotary_offset = 2});
        std::vector<Positions> all;
        for (Index axis = 0; axis < axes; ++axis) {
          std::vector<double> ids;
          for (int n = 0; n < 8; ++n) ids.push_back(random.uniform(-200, 200));
          all.push_back(Positions::real(2, ids));
        }
        const auto positions = Positions::axes(all);
        auto x = Heads<T>::random(random, 2, 4, heads, 2 * pairs + 5);
        auto y = x;
        rope.rotate(y.view(), positions);
        const reference::RopeRule rule{rotation::reference_pairing<Pairing>, 2};
        const auto at = [&](Index axis, Index h, Index i) {
          return static_cast<long double>(
              w[static_cast<std::size_t>((axis * heads + h) * pairs + i)]);
        };
        const double worst = rotation::worst_error_of_rows(
            x.view(), y.view(), rule, static_cast<std::size_t>(pairs),
            [&](Index b, Index s, Index h, const std::vector<double>& in) {
              reference::Ids ids;
              std::vector<std::vector<long double>> of_axis;
              for (Index axis = 0; axis < axes; ++axis) {
                ids.push_back(positions.at(b, s, axis));
                of_axis.emplace_back();
                for (Index i = 0; i < pairs; ++i) of_axis.back().push_back(at(axis, h, i));
              }
              return reference::rotate_by(in, reference::mixed(ids, of_axis), rule);
            },
            [&](Index, Index, std::size_t) {
              return rotation::PairTolerance{
                  1, 4e-16 * static_cast<double>(axes) + 2e-16 * static_cast<double>(axes - 1)};
            });
        CHECK(worst <= 1);

        Heads<T> into(2, 4, heads, 2 * pairs + 5, support::layouts().back());
        rope.rotate_into(x.view(), into.view(), positions);
        CHECK(support::same_bits(into.view(), y.view()));
        CHECK(into.surroundings_kept());
        rope.adjoint(y.view(), positions);
        CHECK(support::max_abs_difference(support::row_of(x.view(), 1, 3, 2),
                                          support::row_of(y.view(), 1, 3, 2)) <
              20 * support::rounding<T>(6));
      }
    }
  });
}

TEST_CASE("MixedRope: on its maximum of axes adds the angles of all", "[mixed_rope]") {
  constexpr Index axes = 64, heads = 2, pairs = 3, tokens = 70;
  support::Random random(5);
  const auto w = random_frequencies(random, axes * heads * pairs);
  const MixedRope<posenc::HalfRotate> rope(w,
                                           {.axes = axes, .heads = heads, .rotary_dim = 2 * pairs});
  CHECK(rope.zero_frequency_gradient().size() == w.size());
  std::vector<Positions> all;
  for (Index axis = 0; axis < axes; ++axis) {
    std::vector<double> ids;
    for (Index n = 0; n < tokens; ++n) ids.push_back(random.uniform(-1, 1));
    all.push_back(Positions::real(ids));
  }
  Heads<double> x(1, tokens, heads, 2 * pairs);
  for (Index s = 0; s < tokens; ++s) {
    for (Index h = 0; h < heads; ++h) std::fill_n(x.view().row(0, s, h), pairs, 1.0);
  }
  rope.rotate(x.view(), Positions::axes(all));
  double worst = 0;
  for (Index s = 0; s < tokens; ++s) {
    for (Index h = 0; h < heads; ++h) {
      for (Index i = 0; i < pairs; ++i) {
        double angle = 0;
        for (Index axis = 0; axis < axes; ++axis) {
          angle += all[static_cast<std::size_t>(axis)].at(0, s) *
                   w[static_cast<std::size_t>((axis * heads + h) * pairs + i)];
        }
        const double* row = x.view().row(0, s, h);
        worst = std::max({worst, std::abs(row[i] - std::cos(angle)),
                          std::abs(row[i + pairs] - std::sin(angle))});
      }
    }
  }
  CHECK(worst < 1e-13);
}

TEST_CASE("MixedRope: without mixing is Rope on axes, bit for bit", "[mixed_rope]") {
  constexpr Index dim = 16, heads = 2;
  const auto axial = posenc::rope_vit_axial({.head_dim = dim, .base = 100});
  const posenc::Rope<posenc::Interleaved> rope(posenc::AxialFrequencies{
      posenc::Frequencies::from_inv_freq(axial.frequencies.inv_freq()), axial.axes});
  const MixedRope<posenc::Interleaved> mixed(
      posenc::rope_vit_mixed_inv_freq(dim, 100, std::array{0.0, 0.0}),
      {.heads = heads, .rotary_dim = dim});
  support::Random random(2);
  auto x = Heads<float>::random(random, 2, 12, heads, dim);
  auto y = x;
  rope.rotate(x.view(), posenc::xy_grid(3, 4));
  mixed.rotate(y.view(), posenc::xy_grid(3, 4));
  CHECK(support::same_bits(x.view(), y.view()));
  CHECK(mixed.config().axes == 2);
  CHECK(mixed.softmax_scale_multiplier() == 1);
}

TEST_CASE("MixedRope: the first frequencies of RoPE-ViT rotate the plane of the axes",
          "[mixed_rope]") {
  const double angle = 0.7;
  const auto w = posenc::rope_vit_mixed_inv_freq(8, 10, std::array{0.0, angle});
  REQUIRE(w.size() == 2 * 2 * 4);
  const double slow = std::pow(10.0, -0.5);  // 10^(-2/4)
  const auto x = [&w](Index head, Index i) { return w[static_cast<std::size_t>(4 * head + i)]; };
  const auto y = [&w](Index head, Index i) {
    return w[static_cast<std::size_t>(8 + 4 * head + i)];
  };
  const auto about = [](double value) { return Approx(value).margin(1e-15); };
  CHECK(x(0, 0) == 1);
  CHECK(x(0, 1) == about(slow));
  CHECK(x(0, 2) == 0);
  CHECK(y(0, 0) == 0);
  CHECK(y(0, 3) == about(slow));
  CHECK(x(1, 1) == about(slow * std::cos(angle)));
  CHECK(y(1, 1) == about(slow * std::sin(angle)));
  CHECK(x(1, 2) == about(-std::sin(angle)));
  CHECK(y(1, 2) == about(std::cos(angle)));
}

TEST_CASE("MixedRope: checks its settings", "[mixed_rope][errors]") {
  using Rope = MixedRope<posenc::Interleaved>;
  const std::vector<double> w(12, 1.0);
  const auto error = [&w](const posenc::MixedRopeConfig& shape) {
    return message_of<ConfigError>([&] { Rope(w, shape); });
  };
  CHECK(error({.rotary_dim = 6}) ==
        "posenc::MixedRope: axes and heads must be set and positive but are 2 and 0");
  CHECK(error({.axes = 0, .heads = 2, .rotary_dim = 6}) ==
        "posenc::MixedRope: axes and heads must be set and positive but are 0 and 2");
  CHECK(error({.heads = 2, .rotary_dim = 5}) ==
        "posenc::MixedRope: rotary_dim must be even and at least 2 but is 5");
  CHECK(
      error({.heads = 2, .rotary_dim = 8}) ==
      "posenc::MixedRope: inv_freq must have axes * heads * rotary_dim / 2 = 16 values but has 12");
  CHECK(error({.heads = posenc::Index{1} << 62, .rotary_dim = 8}) ==
        "posenc::MixedRope: inv_freq must have axes * heads * rotary_dim / 2 = more than 2^63 - 1 "
        "values but has 12");
  CHECK(error({.axes = 65, .heads = 2, .rotary_dim = 6}) ==
        "posenc::MixedRope: axes must be at most 64 but are 65");
  CHECK(error({.heads = 2, .rotary_dim = 6, .rotary_offset = -1}) ==
        "posenc::MixedRope: rotary_offset must not be negative but is -1");
  CHECK(message_of<ConfigError>([] {
          Rope(std::vector<double>{std::numeric_limits<double>::quiet_NaN()},
               {.axes = 1, .heads = 1, .rotary_dim = 2});
        }) == "posenc::MixedRope: every inv_freq must be finite but one is nan");
  CHECK(message_of<ConfigError>([] { posenc::rope_vit_mixed_inv_freq(6, 10, {}); }) ==
        "posenc::rope_vit_mixed_inv_freq: head_dim must be divisible by 4 and at least 4 but is 6");
  CHECK(message_of<ConfigError>([] { posenc::rope_vit_mixed_inv_freq(8, 1, {}); }) ==
        "posenc::rope_vit_mixed_inv_freq: base must be set, finite and greater than 1, but is 1");
}

TEST_CASE("MixedRope: every call checks its tensor and positions first", "[mixed_rope][errors]") {
  const MixedRope<posenc::Interleaved> rope(std::vector<double>(12, 1.0),
                                            {.heads = 2, .rotary_dim = 6});
  support::Random random(3);
  auto x = Heads<float>::random(random, 1, 4, 2, 6);
  auto before = x;
  const auto check = [&](const std::string& name, const auto& run) {
    CHECK(message_of<ShapeError>([&] {
            run(posenc::slice_features(x.view(), 0, 4), Positions::grid(2, 2));
          }) == name + ": head_dim (4) must include the rotary channels [0, 6); x is [1, 4, 2, 4]");
    CHECK(message_of<ShapeError>([&] {
            run(posenc::slice_heads(x.view(), 0, 1), Positions::grid(2, 2));
          }) == name + ": there are frequencies for 2 heads; x is [1, 4, 1, 6]");
    CHECK(message_of<ShapeError>([&] { run(x.view(), Positions::range(0, 4)); }) ==
          name + ": positions must have 2 axes but have 1");
    CHECK(message_of<ShapeError>([&] { run(x.view(), Positions::grid(2, 3)); }) ==
          name + ": positions [1, 6] must match batch and sequence of x, which is [1, 4, 2, 6]");
    const auto far = Positions::range(Index{1} << 51, 4);
    CHECK(message_of<posenc::PositionError>([&] {
            run(x.view(), Positions::axes(std::array{far, far}));
          }).find(name + ": angles must not exceed 2^50 radians") == 0);
  };
  using View = posenc::HeadsView<float>;
  check("posenc::MixedRope::rotate",
        [&](View v, const Positions& p) { rope.rotate_queries(v, p); });
  check("posenc::MixedRope::rotate_into",
        [&](View v, const Positions& p) { rope.rotate_into(v, v, p); });
  check("posenc::MixedRope::adjoint", [&](View v, const Positions& p) { rope.adjoint_keys(v, p); });
  CHECK(support::same_bits(x.view(), before.view()));
}

}  // namespace mixed_rope_test
