// SPDX-License-Identifier: MIT
// Rotary encodings of vision towers, pair by pair, and errors of their settings.
#include "interop/spelled_axes.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/interop/vision_axes.hpp>

#include <array>
#include <cmath>
#include <cstddef>

namespace vision_axes_test {

using posenc::ConfigError;
using posenc::Index;
using spelled_axes::repeated;
using spelled_axes::spelled;
using support::message_of;

TEST_CASE("vision_axes: the index of frequencies begins anew on each axis", "[axes]") {
  const posenc::VisionRope settings{.head_dim = 80, .base = 10000};
  for (const auto& axial : {posenc::qwen2_vl_vision(settings), posenc::llama4_vision(settings),
                            posenc::rope_vit_axial(settings)}) {
    CHECK(spelled(axial.axes, "01") == repeated("0", 20) + repeated("1", 20));
    const auto w = axial.frequencies.inv_freq();
    REQUIRE(w.size() == 40);
    for (std::size_t j = 0; j < 20; ++j) {
      CHECK(w[j] == w[j + 20]);
      CHECK(w[j] == Approx(std::pow(10000, -2.0 * static_cast<double>(j) / 40)).epsilon(1e-14));
    }
  }
  // ggml's models give four sections of which the first two cover the head.
  const auto qwen = posenc::qwen2_vl_vision(settings);
  const auto ggml = posenc::ggml_vision(settings, std::array<Index, 4>{20, 20, 20, 20});
  CHECK(ggml.frequencies == qwen.frequencies);
  CHECK(ggml.axes.axis_count() == 4);
  for (Index i = 0; i < 40; ++i) CHECK(ggml.axes.axis(i) == qwen.axes.axis(i));
  const auto uneven = posenc::ggml_vision(settings, std::array<Index, 4>{4, 30, 6, 0});
  CHECK(spelled(uneven.axes, "0123") == repeated("0", 4) + repeated("1", 30) + repeated("2", 6));
  CHECK(uneven.frequencies.inv_freq()[34] == 1);
}

TEST_CASE("vision_axes: Llama 4 counts patches from 1, and puts the class token last",
          "[positions]") {
  const auto grid = posenc::llama4_grid(2, 3);
  const double columns[] = {1, 2, 3, 1, 2, 3, 0}, rows[] = {1, 1, 1, 2, 2, 2, 0};
  REQUIRE(grid.count() == 7);
  for (Index s = 0; s < 7; ++s) {
    CHECK(grid.at(0, s, 0) == columns[s]);
    CHECK(grid.at(0, s, 1) == rows[s]);
  }
  CHECK(posenc::llama4_grid(0, 0).count() == 1);
  CHECK(message_of<posenc::ShapeError>([] { posenc::llama4_grid(-1, 3); }) ==
        "posenc::llama4_grid: extents must not be negative but are [-1, 3]");
}

TEST_CASE("vision_axes: invalid settings are rejected", "[axes][errors]") {
  const auto error = [](const auto& call) { return message_of<ConfigError>(call); };
  CHECK(error([] { posenc::qwen2_vl_vision({.head_dim = 6, .base = 100}); }) ==
        "posenc::qwen2_vl_vision: head_dim must be divisible by 4 and at least 4 but is 6");
  CHECK(error([] { posenc::llama4_vision({.base = 100}); }) ==
        "posenc::llama4_vision: head_dim must be divisible by 4 and at least 4 but is 0");
  CHECK(error([] { posenc::pixtral_vision({.head_dim = 6, .base = 100}); }) ==
        "posenc::pixtral_vision: head_dim must be divisible by 4 and at least 4 but is 6");
  CHECK(error([] { posenc::rope_vit_axial({.head_dim = 8}); }) ==
        "posenc::rope_vit_axial: base must be set, finite and greater than 1, but is 0");
  const posenc::VisionRope settings{.head_dim = 16, .base = 100};
  CHECK(error([&] {
          posenc::ggml_vision(settings, std::array<Index, 2>{4, 4});
        }) == "posenc::ggml_vision: there must be 4 sections but they are [4, 4]");
  CHECK(error([&] {
          posenc::ggml_vision(settings, std::array<Index, 4>{4, 3, 0, 0});
        }) ==
        "posenc::ggml_vision: the sections must cover head_dim / 2 = 8 pairs but are [4, 3, 0, 0]");
  CHECK(error([&] {
          posenc::ggml_vision(settings, std::array<Index, 4>{4, -3, 8, 0});
        }) == "posenc::ggml_vision: sections must lie between 0 and 65536 but are [4, -3, 8, 0]");
  CHECK(error([] { posenc::ggml_vision({.head_dim = 3, .base = 9}, std::array<Index, 4>{}); }) ==
        "posenc::ggml_vision: head_dim must be divisible by 4 and at least 4 but is 3");
  CHECK(error([] { posenc::ggml_vision({.head_dim = 4, .base = 1}, std::array<Index, 4>{}); }) ==
        "posenc::ggml_vision: base must be set, finite and greater than 1, but is 1");
}

}  // namespace vision_axes_test
