// SPDX-License-Identifier: MIT
// Presets of models of images and videos, against settings written down independently.
#include "reference/grid_rope.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/interop/grid_presets.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace grid_presets_test {

using posenc::Index;
using posenc::Positions;

namespace {

struct Model {
  std::string name;
  reference::Pairing pairing;
  reference::Sections dims;
  std::vector<long double> bases;
};

std::vector<Model> models() {
  constexpr auto half = reference::Pairing::HalfRotate, inter = reference::Pairing::Interleaved;
  const std::vector<long double> usual{10000, 10000, 10000}, small{256, 256, 256};
  return {{"dinov3_vit_b16", half, {32, 32}, {100, 100}},
          {"flux_1", inter, {16, 56, 56}, usual},
          {"flux2", inter, {32, 32, 32, 32}, {2000, 2000, 2000, 2000}},
          {"wan_2_1", inter, {44, 42, 42}, usual},
          {"hunyuan_video", inter, {16, 56, 56}, small},
          {"hunyuan_image_2_1", inter, {64, 64}, {256, 256}},
          {"qwen_image", inter, {16, 56, 56}, usual},
          {"z_image", inter, {32, 48, 48}, small},
          {"lumina2", inter, {32, 32, 32}, usual},
          {"cogvideox_5b", inter, {16, 24, 24}, usual},
          {"cogvideox_1_5_5b", inter, {16, 24, 24}, usual},
          {"cosmos_1_7b", half, {44, 42, 42}, {10000 * std::pow(2.0L, 44.0L / 42), 10000, 10000}},
          {"minimax_h3", half, {32, 32, 32}, usual}};
}

}  // namespace

TEST_CASE("grid_preset: rotates as the model does", "[interop][grids]") {
  REQUIRE(posenc::presets::grid_presets().size() == models().size() + 4);  // four more are below
  for (const Model& model : models()) {
    INFO(model.name);
    const auto& rope = posenc::presets::grid_preset(model.name);
    REQUIRE(rope.axis_count() == static_cast<Index>(model.dims.size()));
    reference::Ids ids;
    std::vector<Positions> axes;
    for (std::size_t axis = 0; axis < model.dims.size(); ++axis) {
      ids.push_back(static_cast<double>(3 + 4 * axis));
      axes.push_back(Positions::real({ids.back()}));
    }
    std::vector<double> x;
    for (Index d = 0; d < rope.rotary_dim(); ++d) x.push_back(std::cos(static_cast<double>(d)));
    std::vector<double> y = x;
    const auto dim = static_cast<Index>(y.size());
    rope.rotate(posenc::HeadsView<double>{y.data(), 1, 1, 1, dim, dim, dim, dim},
                Positions::axes(axes));
    const auto table = reference::axial(ids, model.dims, model.bases);
    const auto right = reference::rotate_by(x, table, {model.pairing});
    double worst = 0;
    for (std::size_t d = 0; d < y.size(); ++d) worst = std::max(worst, std::abs(y[d] - right[d]));
    CHECK(worst < 1e-14);
  }
}

TEST_CASE("grid_preset: Gemma 4's vision tower rotates each half of the head by an axis",
          "[interop][grids]") {
  const auto& rope = posenc::presets::grid_preset("gemma4_vision");
  const auto w = rope.frequencies().inv_freq();
  REQUIRE(w.size() == 16);
  CHECK(w[0] == 1);
  CHECK(w[1] == Approx(0.7498942093).epsilon(1e-9));
  CHECK(w[15] == Approx(0.01333521432).epsilon(1e-9));
  std::vector<double> x;
  for (int d = 0; d < 64; ++d) x.push_back(std::sin(static_cast<double>(d)));
  std::vector<double> y = x;
  const auto at = Positions::axes({Positions::ids({11}), Positions::ids({6})});
  rope.rotate(posenc::HeadsView<double>{y.data(), 1, 1, 1, 64, 64, 64, 64}, at);
  const auto right = reference::chatglm(x, {11, 6}, 100);
  double worst = 0;
  for (std::size_t d = 0; d < y.size(); ++d) worst = std::max(worst, std::abs(y[d] - right[d]));
  CHECK(worst < 1e-14);
}

TEST_CASE("grid_preset: Lumina Next's axes alternate", "[interop][grids]") {
  const auto& rope = posenc::presets::grid_preset("lumina_next");
  std::vector<double> x;
  for (int d = 0; d < 72; ++d) x.push_back(std::cos(static_cast<double>(3 * d)));
  std::vector<double> y = x;
  const auto at = Positions::axes({Positions::ids({9}), Positions::ids({4})});
  rope.rotate(posenc::HeadsView<double>{y.data(), 1, 1, 1, 72, 72, 72, 72}, at);
  // Two tables of 18 columns, stacked along a last axis that is then flattened.
  const auto rows = reference::axial({9}, {36}, {10000}),
             cols = reference::axial({4}, {36}, {10000});
  reference::CosSin both;
  for (std::int64_t pair = 0; pair < 18; ++pair) {
    reference::append(both, rows, pair, 1);
    reference::append(both, cols, pair, 1);
  }
  const auto right = reference::rotate_by(x, both, {reference::Pairing::Interleaved});
  double worst = 0;
  for (std::size_t d = 0; d < y.size(); ++d) worst = std::max(worst, std::abs(y[d] - right[d]));
  CHECK(worst < 1e-14);
}

TEST_CASE("grid_preset: axes of Cosmos 3 and Ideogram 4 alternate", "[interop][grids]") {
  struct Alternating {
    const char* name;
    int dim;
  };
  const reference::Ids ids{15003.5, 6, 9};
  const auto at = Positions::axes(
      {Positions::real({ids[0]}), Positions::real({ids[1]}), Positions::real({ids[2]})});
  for (const Alternating& model : {Alternating{"cosmos_3", 128}, Alternating{"ideogram_4", 256}}) {
    INFO(model.name);
    const auto& rope = posenc::presets::grid_preset(model.name);
    REQUIRE(rope.rotary_dim() == model.dim);
    std::vector<double> x;
    std::vector<long double> w;
    for (int d = 0; d < model.dim; ++d) x.push_back(std::cos(static_cast<double>(d)));
    for (int d = 0; d < model.dim; d += 2) {
      w.push_back(1 / std::pow(5e6L, static_cast<long double>(d) / model.dim));
    }
    std::vector<double> y = x;
    const auto dim = static_cast<Index>(model.dim);
    rope.rotate(posenc::HeadsView<double>{y.data(), 1, 1, 1, dim, dim, dim, dim}, at);
    // Both files have the sections 24, 20, 20, of which their code reads those of rows and columns.
    const auto right = reference::rotate_by(x, reference::interleaved_hf(ids, {24, 20, 20}, w),
                                            {reference::Pairing::HalfRotate});
    double worst = 0;
    for (std::size_t d = 0; d < y.size(); ++d) worst = std::max(worst, std::abs(y[d] - right[d]));
    CHECK(worst < 1e-14);
  }
}

TEST_CASE("grid_preset: MiniMax-H3 rotates three quarters of a head", "[interop][grids]") {
  const auto& rope = posenc::presets::grid_preset("minimax_h3");
  std::vector<double> x(128, 1.0);
  rope.rotate(posenc::HeadsView<double>{x.data(), 1, 1, 1, 128, 128, 128, 128},
              Positions::axes({Positions::ids({1}), Positions::ids({2}), Positions::ids({3})}));
  CHECK(std::count(x.begin() + 96, x.end(), 1.0) == 32);
  CHECK(std::count(x.begin(), x.begin() + 96, 1.0) == 0);
}

TEST_CASE("grid_preset: found by name", "[interop][grids][errors]") {
  CHECK(support::message_of<posenc::ConfigError>([] { posenc::presets::grid_preset("sora"); })
            .find("posenc::presets::grid_preset: no preset has the name 'sora'; there are "
                  "dinov3_vit_b16, gemma4_vision, ") == 0);
}

}  // namespace grid_presets_test
