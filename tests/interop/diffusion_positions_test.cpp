// SPDX-License-Identifier: MIT
// Positions of the tokens of diffusion transformers.
#include "accuracy/promises.hpp"
#include "reference/grid_rope.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/interop/diffusion_positions.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace diffusion_positions_test {

using posenc::GridOrigin;
using posenc::Index;
using posenc::Positions;
using posenc::VideoGrid;
using reference::Ids;
using reference::Size;
using support::message_of;

namespace {

std::vector<Ids> ids_of(const Positions& positions) {
  std::vector<Ids> all(static_cast<std::size_t>(positions.count()));
  for (Index s = 0; s < positions.count(); ++s) {
    for (Index axis = 0; axis < positions.axis_count(); ++axis) {
      all[static_cast<std::size_t>(s)].push_back(positions.at(0, s, axis));
    }
  }
  return all;
}

std::vector<double> axis_of(const Positions& positions, Index axis) {
  std::vector<double> values;
  for (const Ids& id : ids_of(positions)) values.push_back(id[static_cast<std::size_t>(axis)]);
  return values;
}

using Row = std::vector<double>;

double worst_difference(const std::vector<Ids>& found, const std::vector<Ids>& expected) {
  REQUIRE(found.size() == expected.size());
  double worst = 0;
  for (std::size_t s = 0; s < found.size(); ++s) {
    REQUIRE(found[s].size() == expected[s].size());
    for (std::size_t axis = 0; axis < found[s].size(); ++axis) {
      worst = std::max(worst, std::abs(found[s][axis] - expected[s][axis]));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("diffusion_positions: videos count frames, rows and columns", "[positions][diffusion]") {
  const auto video = posenc::video_grid({.frames = 2, .rows = 2, .cols = 3});
  CHECK(axis_of(video, 0) == Row{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1});
  CHECK(axis_of(video, 1) == Row{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1});
  CHECK(axis_of(video, 2) == Row{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2});
  // Cosmos at 30 frames per second.
  const auto slow =
      posenc::video_grid({.frames = 3, .rows = 1, .cols = 1, .frame_step = 24.0 / 30});
  CHECK(axis_of(slow, 0) == Row{0, 0.8, 1.6});
  CHECK(posenc::video_grid({.frames = 5, .rows = 0, .cols = 7}).count() == 0);
}

TEST_CASE("diffusion_positions: text of Flux and HunyuanVideo is not rotated",
          "[positions][diffusion]") {
  CHECK(ids_of(posenc::flux_positions(2, {.rows = 1, .cols = 3})) ==
        std::vector<Ids>{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 1}, {0, 0, 2}});
  CHECK(ids_of(posenc::flux_positions(7, {.rows = 4, .cols = 5})) == reference::flux(7, 4, 5));
  CHECK(ids_of(posenc::hunyuan_video_positions({.frames = 2, .rows = 1, .cols = 2}, 1)) ==
        std::vector<Ids>{{0, 0, 0}, {0, 0, 1}, {1, 0, 0}, {1, 0, 1}, {0, 0, 0}});
}

TEST_CASE("diffusion_positions: CogVideoX stretches a video over the grid of its training",
          "[positions][diffusion]") {
  const auto video = posenc::cogvideox_positions(1, {.rows = 24, .cols = 40});
  const auto rows = axis_of(video, 1);
  CHECK(rows[0] == 0);
  CHECK(rows[1] == 2);
  CHECK(rows[41] == Approx(3.121376812).epsilon(1e-9));
  CHECK(rows[81] == Approx(4.242753623).epsilon(1e-9));
  // At the size of the training, positions are unchanged; so are the first rows and columns.
  CHECK(ids_of(posenc::cogvideox_positions(0, {.rows = 30, .cols = 45}))[46] == Ids{0, 1, 1});
  for (const Size& size :
       {Size{2, 24, 40}, Size{1, 45, 30}, Size{3, 1, 9}, Size{1, 7, 1}, Size{1, 33, 31}}) {
    const auto found = ids_of(posenc::cogvideox_positions(
        2, {.frames = size[0], .rows = size[1], .cols = size[2]}, {.rows = 30, .cols = 45}));
    const auto expected = reference::cogvideox(2, size, 30, 45);
    CHECK(worst_difference(found, expected) < 1e-13);
  }
  CHECK(posenc::cogvideox_positions(3, {.rows = 0, .cols = 4}).count() == 3);
}

TEST_CASE("flux_positions: Flux 2 sets references ten apart in time", "[positions][diffusion]") {
  CHECK(ids_of(posenc::flux2_positions(
            2, {{.rows = 1, .cols = 2}, {.rows = 1, .cols = 1}, {.rows = 1, .cols = 1}})) ==
        std::vector<Ids>{
            {0, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 0, 0}, {0, 0, 1, 0}, {10, 0, 0, 0}, {20, 0, 0, 0}});
  CHECK(ids_of(posenc::flux2_positions(
            9, {{.rows = 3, .cols = 4}, {.rows = 5, .cols = 2}, {.rows = 1, .cols = 7}})) ==
        reference::flux2(9, {{1, 3, 4}, {1, 5, 2}, {1, 1, 7}}));
  CHECK(posenc::flux2_positions(0, {}).axis_count() == 4);
}

TEST_CASE("diffusion_positions: Qwen-Image counts from the centre, one more on the negative side",
          "[positions][diffusion]") {
  const auto image = posenc::qwen_image_positions(2, {{.rows = 4, .cols = 5}});
  CHECK(axis_of(image, 0) == Row{2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const auto cols = axis_of(image, 2), rows = axis_of(image, 1);
  CHECK(Row(cols.begin(), cols.begin() + 7) == Row{2, 3, -3, -2, -1, 0, 1});
  CHECK(Row{rows[2], rows[7], rows[12], rows[17]} == Row{-2, -1, 0, 1});

  const auto corner =
      posenc::qwen_image_positions(1, {{.rows = 2, .cols = 3}}, {.origin = GridOrigin::Corner});
  CHECK(axis_of(corner, 1) == Row{3, 0, 0, 0, 1, 1, 1});
  CHECK(axis_of(corner, 2) == Row{3, 0, 1, 2, 0, 1, 2});
  // A picture without patches does not count, whatever its extents are.
  const auto none = posenc::qwen_image_positions(
      2, {{.rows = std::numeric_limits<posenc::Index>::max(), .cols = 0}},
      {.origin = GridOrigin::Corner});
  CHECK(axis_of(none, 0) == Row{0, 1});
}

TEST_CASE("diffusion_positions: Qwen-Image counts as the model's own code does",
          "[positions][diffusion]") {
  const std::vector<std::vector<Size>> all{{{1, 6, 9}},
                                           {{1, 1, 1}, {1, 7, 2}},
                                           {{3, 2, 2}, {1, 5, 4}, {2, 3, 3}},
                                           {{1, 2, 2}, {1, 1, 2}, {1, 2, 1}, {1, 2, 2}}};
  for (const auto& pictures : all) {
    std::vector<VideoGrid> grids;
    for (const Size& size : pictures) {
      grids.push_back({.frames = size[0], .rows = size[1], .cols = size[2]});
    }
    for (const bool centred : {true, false}) {
      const auto origin = centred ? GridOrigin::Centre : GridOrigin::Corner;
      CHECK(ids_of(posenc::qwen_image_positions(4, grids, {.origin = origin})) ==
            reference::qwen_image(4, pictures, centred, false));
      auto layers = pictures;
      layers.back()[0] = 1;  // a condition is a single image
      grids.back().frames = 1;
      CHECK(ids_of(posenc::qwen_image_positions(4, grids, {.origin = origin, .layered = true})) ==
            reference::qwen_image(4, layers, centred, true));
      grids.back().frames = pictures.back()[0];
    }
  }
}

TEST_CASE("diffusion_positions: captions of Z-Image and Lumina 2 count in time",
          "[positions][diffusion]") {
  const auto image = posenc::z_image_positions({.rows = 1, .cols = 2}, 3);
  REQUIRE(image.count() == 64);
  CHECK(ids_of(image)[1] == Ids{33, 0, 1});
  CHECK(ids_of(image)[2] == Ids{0, 0, 0});
  CHECK(ids_of(image)[32] == Ids{1, 0, 0});
  CHECK(ids_of(image)[63] == Ids{32, 0, 0});
  CHECK(ids_of(posenc::z_image_positions({.frames = 2, .rows = 5, .cols = 7}, 41)) ==
        reference::z_image({2, 5, 7}, 41));
  CHECK(ids_of(posenc::z_image_positions({.rows = 8, .cols = 8}, 64)) ==
        reference::z_image({1, 8, 8}, 64));

  CHECK(ids_of(posenc::lumina2_positions(2, {.rows = 1, .cols = 2})) ==
        std::vector<Ids>{{0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {2, 0, 1}});
  CHECK(ids_of(posenc::lumina2_positions(11, {.rows = 4, .cols = 6})) ==
        reference::lumina2(11, {1, 4, 6}));
}

TEST_CASE("diffusion_positions: pictures of Ideogram 4 begin at 65536", "[positions][diffusion]") {
  CHECK(ids_of(posenc::ideogram4_positions(2, {.rows = 1, .cols = 2})) ==
        std::vector<Ids>{{0, 0, 0}, {1, 1, 1}, {65536, 65536, 65536}, {65536, 65536, 65537}});
  CHECK(ids_of(posenc::ideogram4_positions(5, {.rows = 3, .cols = 4})) ==
        reference::ideogram4(5, {1, 3, 4}));
  CHECK(posenc::ideogram4_positions(0, {.rows = 3, .cols = 4}).count() == 12);
}

TEST_CASE("diffusion_positions: videos of Cosmos 3 begin 15000 after the text",
          "[positions][diffusion]") {
  // A video at 16 frames per second, with 25 latents of sound per second.
  const auto video =
      posenc::cosmos3_positions(2, {{.frames = 2, .rows = 1, .cols = 2, .frame_step = 24.0 / 16},
                                    {.frames = 3, .rows = 1, .cols = 1, .frame_step = 24.0 / 25}});
  CHECK(axis_of(video, 0) == Row{0, 1, 15002, 15002, 15003.5, 15003.5, 15002, 15002.96, 15003.92});
  CHECK(axis_of(video, 1) == Row{0, 1, 0, 0, 0, 0, 0, 0, 0});
  CHECK(axis_of(video, 2) == Row{0, 1, 0, 1, 0, 1, 0, 0, 0});
  for (const Index frames : {1, 5}) {
    std::vector<Ids> expected;
    for (const double at : {0, 1, 2}) expected.push_back({at, at, at});
    expected = reference::joined(expected, reference::cosmos3_video(15003, {frames, 3, 4}, 30, 4));
    expected = reference::joined(expected, reference::cosmos3_video(15003, {7, 1, 1}, 25, 1));
    const auto found = ids_of(posenc::cosmos3_positions(
        3, {{.frames = frames, .rows = 3, .cols = 4, .frame_step = 24.0 / 30},
            {.frames = 7, .rows = 1, .cols = 1, .frame_step = 24.0 / 25}}));
    CHECK(worst_difference(found, expected) < 1e-11);
  }
}

TEST_CASE("diffusion_positions: MiniMax-H3 stretches pictures to an area of 32 x 32",
          "[positions][diffusion]") {
  const auto video = posenc::minimax_h3_positions(2, {.frames = 7, .rows = 1, .cols = 4});
  const auto times = axis_of(video, 0), cols = axis_of(video, 2);
  const Row units{0, 1, 5, 9, 13, 17, 18};
  for (std::size_t frame = 0; frame < units.size(); ++frame) {
    CHECK(times[2 + 4 * frame] == Approx(2 + units[frame] * 5 / 3).epsilon(1e-15));
  }
  CHECK(Row(cols.begin(), cols.begin() + 6) == Row{0, 0, -16, 0, 16, 32});
  CHECK(axis_of(video, 1)[2] == 8);

  const auto all =
      posenc::minimax_h3_positions(1, {.frames = 2, .rows = 1, .cols = 1},
                                   {.audio = 2, .first_frame = true, .last_frame = true});
  const double end = 1 + 20.0 / 3;
  CHECK(ids_of(all) == std::vector<Ids>{{0, 0, 0},
                                        {1, 0, 0},
                                        {end, 0, 0},
                                        {1, 0, 0},
                                        {2, 0, 0},
                                        {1, 0, 0},
                                        {2, 0, 0},
                                        {1, 0, 0},
                                        {1 + 5.0 / 3, 0, 0}});
  CHECK(posenc::minimax_h3_positions(3, {.rows = 0, .cols = 4}).count() == 3);
}

TEST_CASE("diffusion_positions: MiniMax-H3 counts as the model's own code does",
          "[positions][diffusion]") {
  for (const Size& size : {Size{1, 6, 9}, Size{7, 9, 6}, Size{33, 1, 5}, Size{12, 3, 3}}) {
    for (const bool first : {false, true}) {
      for (const bool last : {false, true}) {
        for (const Index audio : {0, 9}) {
          const auto found = ids_of(posenc::minimax_h3_positions(
              5, {.frames = size[0], .rows = size[1], .cols = size[2]},
              {.audio = audio, .first_frame = first, .last_frame = last}));
          const auto expected = reference::minimax_h3(5, size, audio, first, last);
          CHECK(worst_difference(found, expected) <
                promises::minimax_h3.value() * std::max(32.0, found.back()[0]));
        }
      }
    }
  }
}

TEST_CASE("diffusion_positions: invalid sequences are rejected", "[positions][diffusion][errors]") {
  const auto error = [](const auto& call) { return message_of<posenc::ShapeError>(call); };
  CHECK(error([] { posenc::video_grid({.frames = -1, .rows = 2, .cols = 2}); }) ==
        "posenc::video_grid: extents must not be negative but are [-1, 2, 2]");
  CHECK(error([] { posenc::video_grid({.rows = Index{1} << 40, .cols = Index{1} << 40}); }) ==
        "posenc::video_grid: a grid of [1, 1099511627776, 1099511627776] has too many cells");
  CHECK(error([] {
          posenc::video_grid(
              {.rows = 1, .cols = 1, .frame_step = std::numeric_limits<double>::infinity()});
        }) == "posenc::video_grid: frame_step must be finite and not negative but is inf");
  CHECK(error([] { posenc::video_grid({.rows = 1, .cols = 1, .frame_step = -1}); }) ==
        "posenc::video_grid: frame_step must be finite and not negative but is -1");
  CHECK(error([] { posenc::flux_positions(-3, {.rows = 2, .cols = 2}); }) ==
        "posenc::flux_positions: text must not be negative but is -3");
  CHECK(error([] { posenc::hunyuan_video_positions({.rows = 1, .cols = 1}, Index{1} << 53); }) ==
        "posenc::hunyuan_video_positions: there are more than 2^53 tokens");
  CHECK(error([] { posenc::flux2_positions(1, {{.frames = 2, .rows = 2, .cols = 2}}); }) ==
        "posenc::flux2_positions: an image must have 1 frame but one has 2");
  CHECK(error([] { posenc::lumina2_positions(1, {.frames = 3, .rows = 2, .cols = 2}); }) ==
        "posenc::lumina2_positions: an image must have 1 frame but one has 3");
  CHECK(
      error([] {
        posenc::cogvideox_positions(1, {.rows = 2, .cols = 2}, {.rows = 0, .cols = 45});
      }) ==
      "posenc::cogvideox_positions: the base must have from 1 to 65536 rows and columns but has 0 "
      "and 45");
  CHECK(error([] { posenc::qwen_image_positions(-1, {}); }) ==
        "posenc::qwen_image_positions: text must not be negative but is -1");
  CHECK(error([] { posenc::z_image_positions({.rows = -2, .cols = 2}, 1); }) ==
        "posenc::z_image_positions: extents must not be negative but are [1, -2, 2]");
  CHECK(error([] { posenc::ideogram4_positions(1, {.frames = 2, .rows = 2, .cols = 2}); }) ==
        "posenc::ideogram4_positions: an image must have 1 frame but one has 2");
  CHECK(error([] { posenc::ideogram4_positions(-1, {.rows = 2, .cols = 2}); }) ==
        "posenc::ideogram4_positions: text must not be negative but is -1");
  CHECK(error([] { posenc::cosmos3_positions(1, {{.frames = -1, .rows = 2, .cols = 2}}); }) ==
        "posenc::cosmos3_positions: extents must not be negative but are [-1, 2, 2]");
  CHECK(error([] { posenc::minimax_h3_positions(1, {.rows = 2, .cols = 2, .frame_step = 2}); }) ==
        "posenc::minimax_h3_positions: frames are not evenly spaced, so frame_step must be 1 but "
        "is 2");
  CHECK(error([] { posenc::minimax_h3_positions(1, {.rows = 2, .cols = 2}, {.audio = -1}); }) ==
        "posenc::minimax_h3_positions: audio must not be negative but is -1");
  CHECK(error([] { posenc::minimax_h3_positions(1, {.rows = 2, .cols = 0}, {.audio = 1}); }) ==
        "posenc::minimax_h3_positions: the soundtrack uses the columns of the video, which has no "
        "patches, but has 1 latents");
  CHECK(error([] { posenc::minimax_h3_positions(1, {.rows = -2, .cols = 2}); }) ==
        "posenc::minimax_h3_positions: extents must not be negative but are [1, -2, 2]");
}

}  // namespace diffusion_positions_test
