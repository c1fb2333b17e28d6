// SPDX-License-Identifier: MIT
// Rotary encodings of diffusion models, by hand, and errors of their settings.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/interop/diffusion_axes.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

namespace diffusion_axes_test {

using posenc::AxialFrequencies;
using posenc::Index;

namespace {

std::vector<double> inv_freq(const AxialFrequencies& axial) { return axial.frequencies.inv_freq(); }

/// Returns the pairs per axis, in blocks.
std::vector<Index> blocks(const AxialFrequencies& axial) {
  std::vector<Index> pairs(static_cast<std::size_t>(axial.axes.axis_count()));
  Index last = 0;
  for (Index pair = 0; pair < axial.axes.pairs(); ++pair) {
    CHECK(axial.axes.axis(pair) >= last);
    last = axial.axes.axis(pair);
    ++pairs[static_cast<std::size_t>(last)];
  }
  return pairs;
}

}  // namespace

TEST_CASE("diffusion_axes: frequencies of models on grids by hand", "[rope][grids]") {
  const auto near = [](double value) { return Approx(value).epsilon(1e-9); };
  CHECK(3 * inv_freq(posenc::flux())[8 + 1] == near(2.159057019));
  const auto flux2 = inv_freq(posenc::flux2());
  CHECK(flux2[0] == 1);
  CHECK(flux2[1] == near(0.6218499808));
  CHECK(flux2[8] == near(0.02236067977));
  CHECK(flux2[15] == near(0.000804052449));
  CHECK(flux2[16] == 1);
  CHECK(2 * inv_freq(posenc::hunyuan_video())[1] == near(1));
  CHECK(blocks(posenc::flux()) == std::vector<Index>{8, 28, 28});
  CHECK(blocks(posenc::flux2()) == std::vector<Index>{16, 16, 16, 16});
  CHECK(blocks(posenc::wan(128)) == std::vector<Index>{22, 21, 21});
  CHECK(blocks(posenc::hunyuan_video()) == std::vector<Index>{8, 28, 28});
  CHECK(blocks(posenc::hunyuan_image()) == std::vector<Index>{32, 32});
  CHECK(blocks(posenc::qwen_image()) == std::vector<Index>{8, 28, 28});
  CHECK(blocks(posenc::z_image()) == std::vector<Index>{16, 24, 24});
  CHECK(blocks(posenc::lumina2()) == std::vector<Index>{16, 16, 16});
  CHECK(blocks(posenc::cogvideox(64)) == std::vector<Index>{8, 12, 12});
  CHECK(blocks(posenc::minimax_h3()) == std::vector<Index>{16, 16, 16});
  CHECK(inv_freq(posenc::minimax_h3())[16 + 1] == near(0.562341325190));
  CHECK(inv_freq(posenc::cosmos3())[1] == near(0.7858299804));
  CHECK(inv_freq(posenc::ideogram4())[2] == near(0.7858299804));
  // The base of time is 20671.15566 for 44 channels and scale 2.
  CHECK(inv_freq(posenc::cosmos({.head_dim = 128}))[1] == near(std::pow(20671.15566, -2.0 / 44)));
  CHECK(inv_freq(posenc::cosmos({.head_dim = 128, .scale = {1, 1, 1}})) ==
        inv_freq(posenc::wan(128)));
}

TEST_CASE("diffusion_axes: Lumina Next's base is multiplied as it is", "[rope][grids]") {
  const auto lumina = posenc::lumina_next({.head_dim = 48, .ntk_factor = 4});
  const auto w = inv_freq(lumina);
  REQUIRE(w.size() == 24);
  for (const std::size_t axis : {0u, 1u}) {
    CHECK(w[axis] == 1);
    CHECK(w[axis + 2] == Approx(0.4135185542).epsilon(1e-9));
    CHECK(w[axis + 22] == Approx(6.045677938e-05).epsilon(1e-9));
    CHECK(lumina.axes.axis(static_cast<Index>(axis)) == static_cast<Index>(axis));
    CHECK(lumina.axes.axis(static_cast<Index>(axis + 22)) == static_cast<Index>(axis));
  }
}

TEST_CASE("diffusion_axes: invalid settings are rejected", "[rope][grids][errors]") {
  const auto error = [](const auto& call) {
    return support::message_of<posenc::ConfigError>(call);
  };
  CHECK(error([] { posenc::wan(4); }) ==
        "posenc::wan: head_dim must be even and at least 6 but is 4");
  CHECK(error([] { posenc::wan(127); }) ==
        "posenc::wan: head_dim must be even and at least 6 but is 127");
  CHECK(error([] { posenc::cogvideox(24); }) ==
        "posenc::cogvideox: head_dim must be divisible by 16 but is 24");
  CHECK(error([] { posenc::cogvideox(0); }) != "nothing was thrown");
  CHECK(error([] { posenc::lumina_next({.head_dim = 72, .ntk_factor = 1e101}); }) ==
        "posenc::lumina_next: ntk_factor must lie between 1 and 1e100 but is 1e+101");
  CHECK(error([] { posenc::lumina_next({.head_dim = 70}); }) ==
        "posenc::lumina_next: head_dim must be divisible by 4 and at least 4 but is 70");
  CHECK(error([] { posenc::lumina_next({.head_dim = 72, .ntk_factor = 0.5}); }) ==
        "posenc::lumina_next: ntk_factor must lie between 1 and 1e100 but is 0.5");
  CHECK(error([] { posenc::cosmos({.head_dim = 10}); }) ==
        "posenc::cosmos: head_dim must be at least 12 but is 10");
  CHECK(error([] {
          posenc::cosmos({.head_dim = 128, .scale = {2, 0, 1}});
        }) == "posenc::cosmos: scale must lie between 0.1 and 1e6 but is 0");
}

}  // namespace diffusion_axes_test
