// SPDX-License-Identifier: MIT
// Positions: every function that makes them.
#include "hostile/calls.hpp"
#include <posenc/interop/diffusion_positions.hpp>
#include <posenc/interop/dinov3_grid.hpp>
#include <posenc/interop/prompt_positions.hpp>
#include <posenc/interop/vision_axes.hpp>
#include <posenc/tensor/grid_positions.hpp>
#include <posenc/tensor/positions.hpp>

#include <array>
#include <vector>

namespace hostile {

namespace of_positions {

using posenc::Positions;
using posenc::VideoGrid;

VideoGrid video(Draw& draw) {
  return {.frames = draw.extent(2),
          .rows = draw.extent(3),
          .cols = draw.extent(2),
          .frame_step = draw.step()};
}

VideoGrid picture(Draw& draw) { return {.rows = draw.extent(2), .cols = draw.extent(3)}; }

/// Reads all numbers of positions that are few.
void read(const Positions& positions) {
  if (positions.batch() > 64 || positions.count() > 4096) return;
  volatile double sum = positions.max_magnitude();
  for (Index axis = 0; axis < positions.axis_count(); ++axis) {
    for (Index b = 0; b < positions.batch(); ++b) {
      for (Index s = 0; s < positions.count(); ++s) sum = sum + positions.at(b, s, axis);
    }
  }
}

constexpr std::array calls{
    Call{"Positions::range",
         [](Draw& draw, Memory&) { read(Positions::range(draw.position(7), draw.extent(3))); }},
    Call{"Positions::starts",
         [](Draw& draw, Memory&) {
           read(Positions::starts({draw.position(7), draw.position(0)}, draw.extent(3)));
           read(Positions::starts(std::vector<Index>{}, draw.extent(3)));
         }},
    Call{"Positions::ids",
         [](Draw& draw, Memory&) {
           const std::array ids{draw.position(1), draw.position(2), Index{3}, Index{4}};
           read(Positions::ids(draw.extent(2), ids));
           read(Positions::ids(draw.extent(2), std::vector<Index>{}));
         }},
    Call{"Positions::view",
         [](Draw& draw, Memory& memory) {
           const Positions view = Positions::view(memory.ids(2, 5));
           const std::array<Index, 2> ids{draw.position(1), draw.position(2)};
           read(Positions::view(ids));
           if (view.batch() < 64 && view.count() < 64) read(view.owned());
         }},
    Call{"Positions::real",
         [](Draw& draw, Memory&) {
           const std::array<double, 4> at{0, 1, 1e300, static_cast<double>(draw.position(3))};
           read(Positions::real(draw.extent(2), at));
         }},
    Call{"Positions::packed",
         [](Draw& draw, Memory&) {
           const std::array boundaries{draw.number(0), draw.extent(2), draw.number(5)};
           const std::array starts{draw.position(0), draw.position(9)};
           read(Positions::packed(boundaries, starts));
         }},
    Call{"Positions::from_padding_mask",
         [](Draw& draw, Memory& memory) {
           read(Positions::from_padding_mask(memory.flags(2, 5), draw.position(1)));
         }},
    Call{"Positions::slice",
         [](Draw& draw, Memory& memory) {
           const Positions all[] = {Positions::range(7, 3), Positions::starts({1, 2}, 3),
                                    Positions::ids({1, 2, 3}), Positions::view(memory.ids(1, 3)),
                                    Positions::grid(draw.extent(1), draw.extent(3))};
           const Index first = draw.number(1), count = draw.extent(2);
           for (const Positions& whole : all) read(whole.slice(first, count));
         }},
    Call{"Positions::axes, concatenate",
         [](Draw& draw, Memory&) {
           const auto part = [&draw] { return Positions::range(draw.position(3), draw.extent(2)); };
           const Positions two = Positions::axes({part(), part()});
           read(posenc::with_zero_axis(two));
           read(Positions::concatenate({two, two}));
           const auto none = [&draw] {
             return Positions::ids(draw.extent(2), std::vector<Index>{});
           };
           const Positions empty = Positions::axes({none(), none()});
           read(posenc::with_zero_axis(empty));
           read(Positions::concatenate({empty, two}));
         }},
    Call{"Positions::grid",
         [](Draw& draw, Memory&) { read(Positions::grid(draw.extent(3), draw.extent(2))); }},
    Call{"merge_block_grid",
         [](Draw& draw, Memory&) {
           read(posenc::merge_block_grid({.frames = draw.extent(2),
                                          .rows = draw.extent(4),
                                          .cols = draw.extent(6),
                                          .merge = draw.number(2)}));
         }},
    Call{"xy_grid",
         [](Draw& draw, Memory&) { read(posenc::xy_grid(draw.extent(3), draw.extent(2))); }},
    Call{"llama4_grid",
         [](Draw& draw, Memory&) { read(posenc::llama4_grid(draw.extent(3), draw.extent(2))); }},
    Call{"pixel_grid",
         [](Draw& draw, Memory&) {
           read(posenc::pixel_grid({draw.extent(3), draw.extent(2), draw.extent(1)}));
         }},
    Call{"dinov3_grid",
         [](Draw& draw, Memory&) {
           const posenc::Dinov3Grid grid{
               .rows = draw.extent(3), .cols = draw.extent(2), .prefix_tokens = draw.extent(1)};
           const auto normalization = static_cast<posenc::PatchNormalization>(draw.below(3));
           read(posenc::dinov3_grid(grid, normalization, {.shift = 0.5}));
         }},
    Call{"positions of images",
         [](Draw& draw, Memory&) {
           const Index text = draw.extent(2);
           switch (draw.below(3)) {
             case 0:
               return read(posenc::flux2_positions(text, {picture(draw), picture(draw)}));
             case 1:
               return read(posenc::ideogram4_positions(text, picture(draw)));
             default:
               return read(posenc::lumina2_positions(text, picture(draw)));
           }
         }},
    Call{"qwen_image_positions",
         [](Draw& draw, Memory&) {
           const posenc::QwenImageLayout layout{.origin = draw.below(2) == 0
                                                              ? posenc::GridOrigin::Centre
                                                              : posenc::GridOrigin::Corner,
                                                .layered = draw.below(2) == 0};
           const Index text = draw.extent(2);
           read(posenc::qwen_image_positions(text, {video(draw), picture(draw)}, layout));
         }},
    Call{"positions of videos",
         [](Draw& draw, Memory&) {
           const Index text = draw.extent(2);
           switch (draw.below(7)) {
             case 0:
               return read(posenc::video_grid(video(draw)));
             case 1:
               return read(posenc::flux_positions(text, video(draw)));
             case 2:
               return read(posenc::hunyuan_video_positions(video(draw), text));
             case 3:
               return read(posenc::cogvideox_positions(
                   text, video(draw), {.rows = draw.number(30), .cols = draw.number(45)}));
             case 4:
               return read(posenc::cosmos3_positions(text, {video(draw), picture(draw)}));
             case 5:
               return read(posenc::z_image_positions(video(draw), text));
             default: {
               VideoGrid even = video(draw);
               even.frame_step = 1;
               return read(posenc::minimax_h3_positions(text, even,
                                                        {.audio = draw.extent(2),
                                                         .first_frame = draw.below(2) == 0,
                                                         .last_frame = draw.below(2) == 0}));
             }
           }
         }},
    Call{"prompt_positions",
         [](Draw& draw, Memory&) {
           const auto part = [&draw]() -> posenc::PromptPart {
             return {.rows = draw.extent(4),
                     .cols = draw.extent(2),
                     .frames = draw.extent(2),
                     .merge = draw.number(2),
                     .frame_step = draw.step(),
                     .frame_times = draw.below(2) == 0 ? posenc::FrameTimes::Unrounded
                                                       : posenc::FrameTimes::RoundedDown};
           };
           const auto prompt = posenc::prompt_positions({{.text = draw.extent(2)},
                                                         part(),
                                                         {.text = draw.extent(3)},
                                                         part(),
                                                         {.padding = draw.extent(1)}});
           read(prompt.positions);
           read(prompt.decode(draw.position(7), draw.extent(2)));
         }},
    Call{"PromptPositions::decode",
         [](Draw& draw, Memory&) {
           const auto delta = [&draw] {
             return static_cast<double>(draw.position(2)) + (draw.below(2) == 0 ? 0 : 0.5);
           };
           const posenc::PromptPositions prompt{Positions::range(0, 0), {delta(), delta()}};
           read(prompt.decode(draw.position(7), draw.extent(2)));
         }},
    Call{"chatglm_positions",
         [](Draw& draw, Memory&) {
           read(posenc::chatglm_positions(
               {.context_length = draw.position(4), .mask_position = draw.position(2)},
               draw.position(3), draw.extent(5)));
         }},
};

}  // namespace of_positions

std::span<const Call> calls_of_positions() { return of_positions::calls; }

}  // namespace hostile
