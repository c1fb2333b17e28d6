// SPDX-License-Identifier: MIT
// Rotary encodings of images and videos: the rotated channels of models, and properties of their
// scores.
#include "reference/grid_rope.hpp"
#include "rotary/rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/interop/diffusion_axes.hpp>
#include <posenc/interop/diffusion_positions.hpp>
#include <posenc/interop/dinov3_grid.hpp>
#include <posenc/interop/vision_axes.hpp>
#include <posenc/rotary/any_rope.hpp>
#include <posenc/rotary/axial.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/grid_positions.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace grid_ropes_test {

using posenc::AxialFrequencies;
using posenc::Index;
using posenc::PatchNormalization;
using posenc::Positions;
using reference::Ids;
using support::Heads;

namespace {

const double two_pi = 2 * std::acos(-1.0);

std::vector<double> inv_freq(const AxialFrequencies& axial) { return axial.frequencies.inv_freq(); }

struct Model {
  const char* name;
  posenc::PairingKind pairing;
  AxialFrequencies axial;
};

std::vector<Model> models() {
  constexpr auto half = posenc::PairingKind::HalfRotate, inter = posenc::PairingKind::Interleaved;
  return {{"dinov3", half, posenc::dinov3({.head_dim = 64, .base = 100})},
          {"flux", inter, posenc::flux()},
          {"flux2", inter, posenc::flux2()},
          {"wan", inter, posenc::wan(128)},
          {"hunyuan_video", inter, posenc::hunyuan_video()},
          {"hunyuan_image", inter, posenc::hunyuan_image()},
          {"qwen_image", inter, posenc::qwen_image()},
          {"z_image", inter, posenc::z_image()},
          {"lumina2", inter, posenc::lumina2()},
          {"lumina_next", inter, posenc::lumina_next({.head_dim = 72})},
          {"cogvideox", inter, posenc::cogvideox(64)},
          {"cosmos", half, posenc::cosmos({.head_dim = 128})},
          {"cosmos3", half, posenc::cosmos3()},
          {"ideogram4", half, posenc::ideogram4()},
          {"minimax_h3", half, posenc::minimax_h3()}};
}

/// Returns one token on several axes, moved along one of them.
Positions token(const std::vector<double>& at, Index moved = 0, double by = 0) {
  std::vector<Positions> axes;
  for (std::size_t axis = 0; axis < at.size(); ++axis) {
    const bool is_moved = static_cast<Index>(axis) == moved;
    axes.push_back(Positions::real({at[axis] + (is_moved ? by : 0)}));
  }
  return Positions::axes(axes);
}

double dot(Heads<double>& a, Heads<double>& b) {
  double sum = 0;
  const auto x = a.view(), y = b.view();
  for (Index d = 0; d < x.dim; ++d) sum += x.row(0, 0, 0)[d] * y.row(0, 0, 0)[d];
  return sum;
}

}  // namespace

TEST_CASE("dinov3: periods by hand", "[rope][grids][dinov3]") {
  const auto w = inv_freq(posenc::dinov3({.head_dim = 64, .base = 100}));
  const auto rounded =
      inv_freq(posenc::dinov3({.head_dim = 64, .base = 100, .bfloat16_periods = true}));
  REQUIRE(w.size() == 32);
  const std::vector<std::pair<std::size_t, double>> exact{
      {0, 1}, {1, 1.333521432}, {2, 1.77827941}, {3, 2.371373706}, {15, 74.98942093}};
  const std::vector<std::pair<std::size_t, double>> bfloat16{
      {0, 1}, {1, 1.3359375}, {2, 1.78125}, {3, 2.375}, {15, 75}};
  for (const std::size_t axis : {0u, 16u}) {
    for (const auto& [t, period] : exact) {
      CHECK(1 / w[axis + t] == Approx(period).epsilon(1e-9));
    }
    for (const auto& [t, period] : bfloat16) CHECK(rounded[axis + t] == 1 / period);
  }
  // Patch at 0.5: the last row of two.
  const auto grid = posenc::dinov3_grid({.rows = 2, .cols = 1}, PatchNormalization::Separate);
  const std::array angles{3.141592654, 2.355862139, 1.766647376};
  for (std::size_t t = 0; t < angles.size(); ++t) {
    CHECK(grid.at(0, 1, 0) * w[t] == Approx(angles[t]).epsilon(1e-9));
  }
  double worst = 0;
  for (std::size_t t = 0; t < 16; ++t) {
    worst = std::max(worst, two_pi * std::abs(w[t] - rounded[t]));
  }
  CHECK(worst == Approx(8.5e-3).epsilon(0.01));
}

TEST_CASE("dinov3: rotates as the model's own code does", "[rope][grids][dinov3]") {
  struct Case {
    posenc::Dinov3Rope settings;
    std::vector<long double> periods;
  };
  std::vector<Case> cases{
      {{.head_dim = 64, .base = 100}, reference::dinov3_periods(64, 100)},
      {{.head_dim = 128, .base = 100}, reference::dinov3_periods(128, 100)},
      {{.head_dim = 48, .min_period = 0.25, .max_period = 12},
       reference::dinov3_periods(48, 0.25L, 12)},
      {{.head_dim = 4, .min_period = 0.5, .max_period = 3}, reference::dinov3_periods(4, 0.5L, 3)}};
  for (std::size_t i = 0, plain = cases.size(); i < plain; ++i) {
    Case rounded = cases[i];
    rounded.settings.bfloat16_periods = true;
    for (long double& period : rounded.periods) period = reference::to_bfloat16(period);
    cases.push_back(rounded);
  }
  support::Random random(11);
  const posenc::Dinov3Grid size{.rows = 5, .cols = 7, .prefix_tokens = 5};
  const auto positions = posenc::dinov3_grid(size, PatchNormalization::Min);
  auto coordinates = reference::dinov3_coordinates(5, 7, "min");
  coordinates.insert(coordinates.begin(), 5, Ids{0, 0});
  for (const Case& one : cases) {
    CAPTURE(one.settings.head_dim, one.settings.bfloat16_periods);
    const posenc::Rope<posenc::HalfRotate> rope(posenc::dinov3(one.settings));
    auto x = Heads<float>::random(random, 1, positions.count(), 2, one.settings.head_dim);
    auto y = x;
    rope.rotate(y.view(), positions);
    // The reference's coordinates are rounded; the error is multiplied by 2 pi / T.
    CHECK(rotation::worst_error_of_rotations(
              x.view(), y.view(), {reference::Pairing::HalfRotate, 0},
              static_cast<std::size_t>(rope.rotary_dim() / 2),
              [&](Index, Index s) {
                return reference::dinov3(coordinates[static_cast<std::size_t>(s)], one.periods);
              },
              2e-14) <= 1);
    for (Index s = 0; s < size.prefix_tokens; ++s) {
      CHECK(support::row_of(y.view(), 0, s, 1) == support::row_of(x.view(), 0, s, 1));
    }
  }
}

TEST_CASE("axes of grids: scores depend on how far tokens are apart along each axis",
          "[rope][grids]") {
  support::Random random(12);
  for (const Model& model : models()) {
    const posenc::AnyRope rope(model.pairing, model.axial);
    const Index axes = rope.axis_count(), dim = rope.rotary_dim();
    const auto turned = [&](Heads<double> x, const Positions& at) {
      rope.rotate(x.view(), at);
      return x;
    };
    auto q = Heads<double>::random(random, 1, 1, 1, dim);
    auto k = Heads<double>::random(random, 1, 1, 1, dim);
    std::vector<double> at_q, at_k;
    for (Index axis = 0; axis < axes; ++axis) {
      at_q.push_back(static_cast<double>(random.integer(-40, 40)));
      at_k.push_back(static_cast<double>(random.integer(-40, 40)));
    }
    auto q0 = turned(q, token(at_q)), k0 = turned(k, token(at_k));
    for (Index axis = 0; axis < axes; ++axis) {
      INFO(model.name << ", axis " << axis);
      auto q1 = turned(q, token(at_q, axis, 13)), k1 = turned(k, token(at_k, axis, 13));
      CHECK(dot(q1, k1) == Approx(dot(q0, k0)).margin(1e-12));
      CHECK(std::abs(dot(q1, k0) - dot(q0, k0)) > 1e-6);  // moving one of them changes the score
    }
    INFO(model.name);
    CHECK(dot(q0, q0) == Approx(dot(q, q)));
    // <R q, k> = <q, R^T k>, the rule for gradients.
    auto back = k;
    rope.adjoint(back.view(), token(at_q));
    CHECK(dot(q0, k) == Approx(dot(q, back)).margin(1e-12));
    auto round = q0;
    rope.inverse(round.view(), token(at_q));
    CHECK(support::max_abs_difference(support::row_of(round.view(), 0, 0, 0),
                                      support::row_of(q.view(), 0, 0, 0)) < 1e-13);
  }
}

TEST_CASE("axes of grids: invalid encodings are rejected", "[rope][grids][errors]") {
  const auto error = [](const auto& call) {
    return support::message_of<posenc::ConfigError>(call);
  };
  CHECK(error([] { posenc::dinov3({.head_dim = 66, .base = 100}); }) ==
        "posenc::dinov3: head_dim must be divisible by 4 and at least 4 but is 66");
  CHECK(error([] { posenc::dinov3({.head_dim = 64}); }) ==
        "posenc::dinov3: base must be set, finite and greater than 1, but is 0");
  CHECK(error([] {
          posenc::dinov3({.head_dim = 64, .base = 100, .min_period = 1, .max_period = 9});
        }) == "posenc::dinov3: set base or min_period and max_period, not 100, 1 and 9");
  const std::string periods =
      "posenc::dinov3: min_period and max_period must lie between 1e-30 and 1e30, the smaller one "
      "first, but are ";
  CHECK(error([] { posenc::dinov3({.head_dim = 64, .min_period = 9, .max_period = 1}); }) ==
        periods + "9 and 1");
  CHECK(error([] { posenc::dinov3({.head_dim = 64, .min_period = 9}); }) == periods + "9 and 0");
  CHECK(error([] {
          posenc::dinov3({.head_dim = 64,
                          .min_period = std::numeric_limits<double>::quiet_NaN(),
                          .max_period = 1});
        }) == periods + "nan and 1");
}

TEST_CASE("axes of grids: a rope of another pairing than the model's weights is rejected",
          "[rope][grids][errors]") {
  const posenc::VisionRope settings{.head_dim = 64, .base = 100};
  constexpr auto half = posenc::PairingKind::HalfRotate, inter = posenc::PairingKind::Interleaved;
  auto all = models();
  all.push_back({"qwen2_vl_vision", half, posenc::qwen2_vl_vision(settings)});
  all.push_back({"pixtral_vision", half, posenc::pixtral_vision(settings)});
  all.push_back({"ggml_vision", half, posenc::ggml_vision(settings, {16, 16, 16, 16})});
  all.push_back({"llama4_vision", inter, posenc::llama4_vision(settings)});
  all.push_back({"rope_vit_axial", inter, posenc::rope_vit_axial(settings)});
  const auto error = [](const auto& call) {
    return support::message_of<posenc::ConfigError>(call);
  };
  const auto rule = [](bool is_half) {
    return is_half
               ? "the weights of the model of these frequencies are HalfRotate but the rope is "
                 "Interleaved; if you have permuted the weights, reset AxialFrequencies::pairing"
               : "the weights of the model of these frequencies are Interleaved but the rope is "
                 "HalfRotate; if you have permuted the weights, reset AxialFrequencies::pairing";
  };
  for (Model& model : all) {
    INFO(model.name);
    const bool is_half = model.pairing == half;
    const auto other = is_half ? inter : half;
    const AxialFrequencies& axial = model.axial;
    CHECK_NOTHROW(posenc::AnyRope(model.pairing, axial));
    CHECK(error([&] { posenc::AnyRope(other, axial); }) ==
          std::string("posenc::AnyRope: ") + rule(is_half));
    CHECK(error([&] {
            if (is_half) posenc::Rope<posenc::Interleaved>{axial};
            if (!is_half) posenc::Rope<posenc::HalfRotate>{axial};
          }) == std::string("posenc::Rope: ") + rule(is_half));
    model.axial.pairing.reset();
    CHECK_NOTHROW(posenc::AnyRope(other, axial));
  }
  CHECK_NOTHROW(posenc::AnyRope(half, posenc::axial({32, 32}, 100)));
  CHECK_NOTHROW(posenc::AnyRope(inter, posenc::axial({32, 32}, 100)));
}

TEST_CASE("PositionKind: positions that do not fit a rope are rejected", "[rope][grids][errors]") {
  const posenc::VisionRope settings{.head_dim = 64, .base = 100};
  const auto cells = Positions::grid(2, 3), xy = posenc::xy_grid(2, 3);
  const auto patches = posenc::dinov3_grid({.rows = 2, .cols = 3}, PatchNormalization::Separate);
  const auto pixels = posenc::pixel_grid({2, 3});
  const auto ids = Positions::axes({Positions::range(0, 6), Positions::range(0, 6)});
  const auto real =
      Positions::axes({Positions::real({0, 0, 0, 1, 1, 1}), Positions::real({-1, 0, 1, -1, 0, 1})});
  struct Case {
    AxialFrequencies axial;
    std::vector<const Positions*> fit;
  };
  const std::vector<Case> cases{
      {posenc::dinov3({.head_dim = 64, .base = 100}), {&patches}},
      {posenc::qwen2_vl_vision(settings), {&cells, &ids}},
      {posenc::pixtral_vision(settings), {&cells, &ids}},
      {posenc::lumina_next({.head_dim = 64}), {&cells, &ids}},
      {posenc::llama4_vision(settings), {&xy, &ids}},
      {posenc::rope_vit_axial(settings), {&xy, &ids}},
      {posenc::axial({32, 32}, 100), {&cells, &xy, &patches, &pixels, &ids}}};
  for (std::size_t n = 0; n < cases.size(); ++n) {
    const posenc::Rope<posenc::HalfRotate> rope(cases[n].axial.frequencies, 0, cases[n].axial.axes);
    for (const Positions* positions : {&cells, &xy, &patches, &pixels, &ids, &real}) {
      const auto& fit = cases[n].fit;
      const bool fits =
          positions == &real || std::find(fit.begin(), fit.end(), positions) != fit.end();
      CAPTURE(n, static_cast<int>(positions->kind()));
      Heads<float> x(1, 6, 1, 64);
      std::vector<double> gradient = rope.zero_frequency_gradient();
      if (fits) {
        CHECK_NOTHROW(rope.rotate(x.view(), *positions));
        CHECK_NOTHROW(rope.table<float>(*positions));
        continue;
      }
      CHECK_THROWS_AS(rope.rotate(x.view(), *positions), posenc::PositionError);
      CHECK_THROWS_AS(rope.table<float>(*positions), posenc::PositionError);
      CHECK_THROWS_AS(posenc::rerotate(x.view(), rope, real, rope, *positions),
                      posenc::PositionError);
      CHECK_THROWS_AS(
          posenc::accumulate_frequency_gradient(rope, x.view(), x.view(), *positions, gradient),
          posenc::PositionError);
    }
  }
  const posenc::Rope<posenc::HalfRotate> dinov3(cases[0].axial);
  Heads<float> x(1, 6, 1, 64);
  CHECK(support::message_of<posenc::PositionError>([&] { dinov3.rotate(x.view(), cells); }) ==
        "posenc::Rope::rotate: positions must be centres of patches, as made by dinov3_grid(), but "
        "are rows and columns of cells. (Custom coordinates need Positions::real)");
  CHECK_NOTHROW(dinov3.rotate(x.view(), cells.with_kind(posenc::PositionKind::PatchCentres)));
}

TEST_CASE("PositionKind: positions with an axis more are of the same kind", "[rope][grids]") {
  CHECK(with_zero_axis(Positions::grid(2, 3)).kind() == posenc::PositionKind::RowsColumns);
  CHECK(posenc::merge_block_grid({.rows = 2, .cols = 2, .merge = 2}).kind() ==
        posenc::PositionKind::RowsColumns);
  CHECK(posenc::llama4_grid(2, 3).kind() == posenc::PositionKind::ColumnsRows);
  CHECK(posenc::video_grid({.rows = 2, .cols = 3, .frame_step = 0.5}).kind() ==
        posenc::PositionKind::Tokens);
  CHECK(Positions::axes({Positions::range(0, 2), Positions::real({0, 1})}).kind() ==
        posenc::PositionKind::Unspecified);
}

}  // namespace grid_ropes_test
