// SPDX-License-Identifier: MIT
// Positions of prompts of text and images, and of ChatGLM-6B.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/interop/prompt_positions.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace prompt_positions_test {

using posenc::ConfigError;
using posenc::FrameTimes;
using posenc::Index;
using posenc::Positions;
using posenc::PromptPart;
using posenc::ShapeError;
using support::message_of;

namespace {

using Row = std::vector<double>;

Row axis_of(const Positions& positions, Index axis, Index b = 0) {
  Row values;
  for (Index s = 0; s < positions.count(); ++s) values.push_back(positions.at(b, s, axis));
  return values;
}

}  // namespace

TEST_CASE("prompt_positions: text alone counts up on every axis", "[positions][prompt]") {
  const auto prompt = posenc::prompt_positions({{.text = 2}, {.text = 3}});
  REQUIRE(prompt.positions.axis_count() == 3);
  for (const Index axis : {0, 1, 2}) CHECK(axis_of(prompt.positions, axis) == Row{0, 1, 2, 3, 4});
  CHECK(prompt.rope_deltas == std::vector<double>{0});
  const auto next = prompt.decode(5, 2);
  for (const Index axis : {0, 1, 2}) CHECK(axis_of(next, axis) == Row{5, 6});
}

TEST_CASE("prompt_positions: a picture spans its merged grid, and text goes on above it",
          "[positions][prompt]") {
  // Qwen2-VL: text, an image of 4 x 6 patches merged 2 x 2 into 2 x 3 tokens, text.
  const auto prompt =
      posenc::prompt_positions({{.text = 3}, {.rows = 4, .cols = 6, .merge = 2}, {.text = 2}});
  CHECK(axis_of(prompt.positions, 0) == Row{0, 1, 2, 3, 3, 3, 3, 3, 3, 6, 7});
  CHECK(axis_of(prompt.positions, 1) == Row{0, 1, 2, 3, 3, 3, 4, 4, 4, 6, 7});
  CHECK(axis_of(prompt.positions, 2) == Row{0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7});
  // 11 tokens, the last of which has position 7.
  CHECK(prompt.rope_deltas == std::vector<double>{-3});
  const auto next = prompt.decode(11, 2);
  CHECK(next.axis_count() == 3);
  for (const Index axis : {0, 1, 2}) CHECK(axis_of(next, axis) == Row{8, 9});
}

TEST_CASE("prompt_positions: the example of the M-RoPE paper's code", "[positions][prompt]") {
  // Video of 3 frames of 2 x 2 tokens, and 5 tokens of text, as get_rope_index documents it:
  //   t 0 0 0 0 1 1 1 1 2 2 2 2 | 3 4 5 6 7   h 0 0 1 1 ...   w 0 1 0 1 ...
  const auto prompt = posenc::prompt_positions({{.rows = 2, .cols = 2, .frames = 3}, {.text = 5}});
  CHECK(axis_of(prompt.positions, 0) == Row{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 4, 5, 6, 7});
  CHECK(axis_of(prompt.positions, 1) == Row{0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 3, 4, 5, 6, 7});
  CHECK(axis_of(prompt.positions, 2) == Row{0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 3, 4, 5, 6, 7});
  CHECK(prompt.rope_deltas[0] == 8 - 17);
}

TEST_CASE("prompt_positions: frames may be far apart in time", "[positions][prompt]") {
  // Qwen2.5-VL documents one frame per second at 25 tokens per second: 0, 50, 100 at interval 50.
  const auto prompt = posenc::prompt_positions(
      {{.text = 1}, {.rows = 1, .cols = 2, .frames = 3, .frame_step = 50}, {.text = 1}});
  CHECK(axis_of(prompt.positions, 0) == Row{0, 1, 1, 51, 51, 101, 101, 102});
  CHECK(axis_of(prompt.positions, 1) == Row{0, 1, 1, 1, 1, 1, 1, 102});
  CHECK(axis_of(prompt.positions, 2) == Row{0, 1, 2, 1, 2, 1, 2, 102});
  // Fractional times are rounded down for each frame.
  const auto slow = posenc::prompt_positions({{.rows = 1,
                                               .cols = 1,
                                               .frames = 5,
                                               .frame_step = 0.6,
                                               .frame_times = FrameTimes::RoundedDown}});
  CHECK(axis_of(slow.positions, 0) == Row{0, 0, 1, 1, 2});
  CHECK(slow.rope_deltas[0] == 3 - 5);
  const auto still =
      posenc::prompt_positions({{.rows = 1, .cols = 1, .frames = 3, .frame_step = 0}});
  CHECK(axis_of(still.positions, 0) == Row{0, 0, 0});
}

TEST_CASE("prompt_positions: times of frames are rounded down, or kept", "[positions][prompt]") {
  const auto prompt = [](FrameTimes times) {
    return posenc::prompt_positions(
        {{.text = 4},
         {.rows = 4, .cols = 4, .frames = 4, .merge = 2, .frame_step = 6.5, .frame_times = times},
         {.text = 2}});
  };
  const auto times_of = [](const posenc::PromptPositions& found) {
    const Row all = axis_of(found.positions, 0);
    return Row{all[4], all[8], all[12], all[16], all[20], all[21]};
  };
  // Qwen2.5-VL and Qwen2.5-Omni.
  const auto rounded = prompt(FrameTimes::RoundedDown);
  CHECK(times_of(rounded) == Row{4, 10, 17, 23, 24, 25});
  CHECK(rounded.rope_deltas == std::vector<double>{4});
  // Qwen3-Omni: text continues at the largest id plus 1, on all axes.
  const auto kept = prompt(FrameTimes::Unrounded);
  CHECK(times_of(kept) == Row{4, 10.5, 17, 23.5, 24.5, 25.5});
  for (const Index axis : {1, 2}) {
    CHECK(kept.positions.at(0, 8, axis) == 4);
    CHECK(kept.positions.at(0, 20, axis) == 24.5);
  }
  CHECK(kept.rope_deltas == std::vector<double>{4.5});
  const auto next = kept.decode(22, 2);
  for (const Index axis : {0, 1, 2}) CHECK(axis_of(next, axis) == Row{26.5, 27.5});
  CHECK(kept.decode(22, 0).count() == 0);
}

TEST_CASE("prompt_positions: a batch may have whole and half positions", "[positions][prompt]") {
  const PromptPart half{
      .rows = 1, .cols = 1, .frames = 2, .frame_step = 2.5, .frame_times = FrameTimes::Unrounded};
  // An image after the video starts at a half, too.
  const auto batch = posenc::prompt_positions(std::vector<std::vector<PromptPart>>{
      {half, {.rows = 1, .cols = 2}, {.text = 1}}, {{.text = 5}}});
  CHECK(axis_of(batch.positions, 0, 0) == Row{0, 2.5, 3.5, 3.5, 5.5});
  CHECK(axis_of(batch.positions, 1, 0) == Row{0, 0, 3.5, 3.5, 5.5});
  CHECK(axis_of(batch.positions, 2, 0) == Row{0, 0, 3.5, 4.5, 5.5});
  CHECK(batch.rope_deltas == std::vector<double>{1.5, 0});
  const auto next = batch.decode(5, 2);
  CHECK(axis_of(next, 0, 0) == Row{6.5, 7.5});
  CHECK(axis_of(next, 2, 1) == Row{5, 6});
}

TEST_CASE("prompt_positions: text after a long video continues above the largest time",
          "[positions][prompt]") {
  const auto prompt = posenc::prompt_positions({{.rows = 1, .cols = 2, .frames = 6}, {.text = 1}});
  CHECK(prompt.positions.at(0, 12) == 6);  // not 2, after the longer side of a frame
}

TEST_CASE("prompt_positions: prompts of a batch are padded to one length", "[positions][prompt]") {
  const std::vector<std::vector<PromptPart>> prompts{
      {{.text = 2}, {.rows = 2, .cols = 2}, {.text = 1}},
      {{.padding = 3}, {.text = 4}},
      {{.text = 5}, {.padding = 2}},
  };
  const auto batch = posenc::prompt_positions(prompts);
  CHECK(batch.positions.batch() == 3);
  CHECK(axis_of(batch.positions, 0, 0) == Row{0, 1, 2, 2, 2, 2, 4});
  CHECK(axis_of(batch.positions, 2, 0) == Row{0, 1, 2, 3, 2, 3, 4});
  CHECK(axis_of(batch.positions, 0, 1) == Row{1, 1, 1, 0, 1, 2, 3});
  CHECK(axis_of(batch.positions, 1, 2) == Row{0, 1, 2, 3, 4, 1, 1});
  CHECK(batch.rope_deltas == std::vector<double>{-2, -3, -2});
  const auto next = batch.decode(7, 1);
  CHECK(next.batch() == 3);
  CHECK(axis_of(next, 0, 0) == Row{5});
  CHECK(axis_of(next, 1, 1) == Row{4});
  CHECK(axis_of(next, 2, 2) == Row{5});

  const auto none = posenc::prompt_positions(std::vector<std::vector<PromptPart>>{});
  CHECK(none.positions.batch() == 0);
  CHECK(none.decode(0, 3).batch() == 0);
  const auto empty = posenc::prompt_positions(std::initializer_list<PromptPart>{});
  CHECK(empty.positions.count() == 0);
  CHECK(empty.rope_deltas == std::vector<double>{0});
}

TEST_CASE("prompt_positions: parts that contradict themselves are rejected",
          "[positions][prompt][errors]") {
  const std::string name = "posenc::prompt_positions: ";
  const auto error = [](const PromptPart& part) {
    return message_of<ConfigError>([&] { posenc::prompt_positions({part}); });
  };
  CHECK(error({.text = -1}) == name +
                                   "text, padding, rows, cols and frames must not be negative "
                                   "but are [-1, 0, 0, 0, 1]");
  CHECK(error({.rows = 2, .cols = 2, .frames = 0}) == "nothing was thrown");
  CHECK(error({.rows = 2, .cols = -3}) == name +
                                              "text, padding, rows, cols and frames must not be "
                                              "negative but are [0, 0, 2, -3, 1]");
  CHECK(error({.text = 1, .padding = 2}) ==
        name +
            "a part must be text, padding or an image, but one has text 1, padding 2, rows 0 and "
            "cols 0");
  CHECK(error({.text = 1, .rows = 2, .cols = 3}) ==
        name +
            "a part must be text, padding or an image, but one has text 1, padding 0, rows 2 and "
            "cols 3");
  const std::string alone = " and frame_times require an image with rows and cols";
  CHECK(error({.text = 1, .frames = 2}) == name + "frames (2), merge (1), frame_step (1)" + alone);
  CHECK(error({.text = 1, .merge = 2}) == name + "frames (1), merge (2), frame_step (1)" + alone);
  CHECK(error({.padding = 1, .frame_step = 2}) ==
        name + "frames (1), merge (1), frame_step (2)" + alone);
  CHECK(error({.text = 1, .frame_times = FrameTimes::Unrounded}) ==
        name +
            "frames (1), merge (1), frame_step (1) and frame_times require an image with rows and "
            "cols");
  CHECK(error({.rows = 4, .cols = 4, .frames = 2, .frame_step = 6.5}) ==
        name +
            "frame_times must be set if frame_step is not an integer, but is 6.5: RoundedDown "
            "(Qwen2.5-VL, Qwen2.5-Omni) or Unrounded (Qwen3-Omni)");
  CHECK(error({.rows = 3, .cols = 4, .merge = 2}) ==
        name + "merge (2) must divide rows (3) and cols (4)");
  CHECK(error({.rows = 4, .cols = 4, .merge = 0}) ==
        name + "merge (0) must divide rows (4) and cols (4)");
  CHECK(error({.rows = 4, .cols = 4, .frame_step = -1}) ==
        name + "frame_step must be finite and not negative but is -1");
  CHECK(error({.rows = 4, .cols = 4, .frame_step = std::numeric_limits<double>::infinity()}) ==
        name + "frame_step must be finite and not negative but is inf");
  CHECK(message_of<ShapeError>([] {
          posenc::prompt_positions({{.rows = Index{1} << 40, .cols = Index{1} << 40}});
        }) == name + "a grid of [1, 1099511627776, 1099511627776] has too many cells");
  CHECK(message_of<posenc::PositionError>([] {
          posenc::prompt_positions({{.rows = 1, .cols = 1, .frames = 2, .frame_step = 1e300}});
        }) == name + "positions must lie within 2^53, but frame 1 is at 1e+300");
  CHECK(message_of<posenc::PositionError>([] {
          posenc::prompt_positions(
              {{.rows = 1, .cols = 1, .frames = 2, .frame_step = 0x1p53 - 1}, {.text = 1}});
        }) == name + "positions must lie within 2^53, but 1 follow the position 9007199254740991");
  CHECK(message_of<posenc::PositionError>([] {
          posenc::prompt_positions({{.rows = 1, .cols = 1, .frames = 2, .frame_step = 0x1p53 - 4},
                                    {.rows = 2, .cols = 5}});
        }) == name + "positions must lie within 2^53, but 5 follow the position 9007199254740988");
  CHECK(message_of<ShapeError>([] {
          posenc::prompt_positions({{.text = Index{1} << 53}, {.text = 1}});
        }) == name + "a batch of prompts has more than 2^53 tokens");
  const posenc::PromptPositions far{posenc::Positions::range(0, 1), {1}};
  CHECK(message_of<posenc::PositionError>(
            [&] { far.decode(std::numeric_limits<Index>::max(), 1); }) ==
        "posenc::PromptPositions::decode: past (9223372036854775807) and a row's rope_delta "
        "(1) add up to a position beyond 2^53");
  const std::vector<std::vector<PromptPart>> uneven{{{.text = 2}}, {{.text = 3}}};
  CHECK(message_of<ShapeError>([&] { posenc::prompt_positions(uneven); }) ==
        name +
            "all prompts must have the same number of tokens, padding included, but have 2 and 3");
}

TEST_CASE("prompt_positions: chatglm stops the position and starts the block",
          "[positions][prompt]") {
  const posenc::ChatGlmPrompt prompt{.context_length = 4, .mask_position = 2};
  const auto ids = posenc::chatglm_positions(prompt, 0, 8);
  CHECK(axis_of(ids, 0) == Row{0, 1, 2, 3, 2, 2, 2, 2});
  CHECK(axis_of(ids, 1) == Row{0, 0, 0, 0, 1, 2, 3, 4});
  for (Index s = 0; s < 8; ++s) {
    const auto one = posenc::chatglm_positions(prompt, s, 1);
    for (const Index axis : {0, 1}) CHECK(one.at(0, 0, axis) == ids.at(0, s, axis));
  }
}

TEST_CASE("prompt_positions: chatglm's settings are required", "[positions][prompt][errors]") {
  const std::string name = "posenc::chatglm_positions: ";
  const auto config = [](const posenc::ChatGlmPrompt& prompt) {
    return message_of<ConfigError>([&] { posenc::chatglm_positions(prompt, 0, 1); });
  };
  CHECK(config({.mask_position = 1}) ==
        name + "context_length must be set and not negative but is -1");
  CHECK(config({.context_length = 1}) ==
        name + "mask_position must be set and not negative but is -1");
  const posenc::ChatGlmPrompt prompt{.context_length = 1, .mask_position = 0};
  CHECK(
      message_of<ShapeError>([&] { posenc::chatglm_positions(prompt, -1, 1); }) ==
      name +
          "first and count must not be negative, nor their sum exceed 2^53, but they are -1 and 1");
  CHECK(
      message_of<ShapeError>([&] { posenc::chatglm_positions(prompt, 0, -2); }) ==
      name +
          "first and count must not be negative, nor their sum exceed 2^53, but they are 0 and -2");
}

}  // namespace prompt_positions_test
