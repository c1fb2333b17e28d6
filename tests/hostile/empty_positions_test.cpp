// SPDX-License-Identifier: MIT
// Positions of no tokens are constructed at once, however long the other axes are. ctest's time
// limit checks this.
#include "hostile/empty_extents.hpp"
#include "support/catch.hpp"
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/attention/attention.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/interop/diffusion_positions.hpp>
#include <posenc/interop/dinov3_grid.hpp>
#include <posenc/interop/prompt_positions.hpp>
#include <posenc/interop/vision_axes.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/eigen.hpp>
#include <posenc/tensor/grid_positions.hpp>
#include <posenc/tensor/positions.hpp>

#include <array>
#include <vector>

namespace empty_positions_test {

using empty_extents::for_all_empty;
using empty_extents::make;
using posenc::Index;
using posenc::Positions;

TEST_CASE("grid_positions of no cells: made at once", "[hostile]") {
  for_all_empty<2>({4, 6}, [](const std::array<Index, 2>& n) {
    INFO(n[0] << ", " << n[1]);
    CHECK(Positions::grid(n[0], n[1]).count() == 0);
    CHECK(posenc::xy_grid(n[0], n[1]).count() == 0);
    CHECK(posenc::llama4_grid(n[0], n[1]).count() == 1);
    for (const auto normalization :
         {posenc::PatchNormalization::Separate, posenc::PatchNormalization::Max,
          posenc::PatchNormalization::Min}) {
      CHECK(posenc::dinov3_grid({.rows = n[0], .cols = n[1]}, normalization).count() == 0);
      CHECK(posenc::dinov3_grid({.rows = n[0], .cols = n[1], .prefix_tokens = 3}, normalization)
                .count() == 3);
    }
  });
}

TEST_CASE("PatchGrid of no patches: images and videos are made at once", "[hostile]") {
  for_all_empty<3>({2, 4, 6}, [](const std::array<Index, 3>& n) {
    INFO(n[0] << ", " << n[1] << ", " << n[2]);
    const posenc::VideoGrid grid{.frames = n[0], .rows = n[1], .cols = n[2]};
    CHECK(posenc::pixel_grid(n).count() == 0);
    for (const Index merge : {Index{1}, Index{2}, Index{1} << 31}) {
      make([&] { (void)posenc::merge_block_grid({n[0], n[1], n[2], merge}); });
      for (const Index text : {Index{0}, Index{2}}) {
        make([&] {
          (void)posenc::prompt_positions(
              {{.text = text}, {.rows = n[1], .cols = n[2], .frames = n[0], .merge = merge}});
        });
      }
    }
    CHECK(posenc::video_grid(grid).count() == 0);
    for (const Index text : {Index{0}, Index{2}}) {
      CHECK(posenc::flux_positions(text, grid).count() == text);
      CHECK(posenc::cogvideox_positions(text, grid).count() == text);
      CHECK(posenc::hunyuan_video_positions(grid, text).count() == text);
      make([&] { (void)posenc::flux2_positions(text, {grid}); });
      for (const auto origin : {posenc::GridOrigin::Centre, posenc::GridOrigin::Corner}) {
        make([&] { (void)posenc::qwen_image_positions(text, {grid}, {.origin = origin}); });
        make([&] {
          (void)posenc::qwen_image_positions(text, {grid, grid},
                                             {.origin = origin, .layered = true});
        });
      }
      make([&] { (void)posenc::z_image_positions(grid, text); });
      make([&] { (void)posenc::lumina2_positions(text, grid); });
      make([&] { (void)posenc::ideogram4_positions(text, grid); });
      CHECK(posenc::cosmos3_positions(text, {grid, grid}).count() == text);
      CHECK(posenc::minimax_h3_positions(text, grid).count() == text);
      for (const Index audio : {Index{1}, Index{1} << 40, Index{1} << 62}) {
        make([&] { (void)posenc::minimax_h3_positions(text, grid, {.audio = audio}); });
      }
    }
  });
}

TEST_CASE("Positions of no tokens: made at once", "[hostile]") {
  for_all_empty<2>({1, 3}, [](const std::array<Index, 2>& n) {
    INFO(n[0] << ", " << n[1]);
    make([&] { (void)Positions::from_padding_mask({nullptr, n[0], n[1]}); });
    make([&] { (void)Positions::starts(std::vector<Index>{}, n[1]); });
    make([&] { (void)Positions::starts(std::vector<Index>{0, n[0]}, n[1]); });
    make([&] { (void)Positions::range(n[0], n[1]); });
    make([&] { (void)Positions::range(-n[0], n[1]); });
    make([&] { (void)Positions::packed({0, n[0] == 0 ? n[0] : 0}, {n[1]}); });
    make([&] { (void)posenc::chatglm_positions({n[0], n[1]}, n[0], 0); });
    make([&] { (void)posenc::PromptPositions{Positions::range(0, 0), {}}.decode(n[0], n[1]); });
    make([&] {
      (void)posenc::PromptPositions{Positions::range(0, 0), {static_cast<double>(n[0])}}.decode(
          n[0], 0);
    });
    const Positions none = Positions::ids(n[0], std::vector<Index>{});
    CHECK(none.count() == 0);
    CHECK(Positions::axes({none, none}).count() == 0);
    make([&] { (void)Positions::concatenate({none, Positions::range(n[1], 0)}); });
    CHECK(posenc::with_zero_axis(Positions::real(n[0], std::vector<double>{})).count() == 0);
  });
}

TEST_CASE("Positions of no batch row: serve every call without batch rows", "[hostile]") {
  using posenc::Causal;
  const Positions none = Positions::ids(0, {});
  const posenc::HeadsView<float> x{nullptr, 0, 7, 2, 8};
  const posenc::EmbeddingsView<float> tokens{nullptr, 0, 7, 8};
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = 8, .base = 10000});
  CHECK_NOTHROW(rope.rotate(x, none));
  CHECK_NOTHROW(rope.adjoint(x, none));
  CHECK_NOTHROW(rope.table<float>(none).rotate(x));
  CHECK_NOTHROW(
      posenc::Sinusoidal({.model_dim = 8, .layout = posenc::SinusoidalLayout::Interleaved})
          .add_to(tokens, none));
  CHECK_NOTHROW(posenc::attention(
      x, x, x, x, {.causal = Causal::ByPosition, .query_positions = none, .key_positions = none}));
  const posenc::MultiHeadAttention<float, posenc::Rope<posenc::HalfRotate>> module(
      {.model_dim = 8, .heads = 1}, rope);
  CHECK_NOTHROW(module.forward(tokens, none, tokens, {.causal = Causal::No}));
  CHECK_THROWS_AS(rope.rotate(posenc::HeadsView<float>{nullptr, 1, 7, 0, 8}, none),
                  posenc::ShapeError);
}

TEST_CASE("Eigen tensors that are empty: views have strides", "[hostile]") {
  for_all_empty<4>({1, 3, 1, 8}, [](const std::array<Index, 4>& n) {
    const Eigen::TensorMap<Eigen::Tensor<float, 4, Eigen::RowMajor>> x(nullptr, n[0], n[1], n[2],
                                                                       n[3]);
    CHECK(posenc::bshd(x).empty());
  });
}

}  // namespace empty_positions_test
