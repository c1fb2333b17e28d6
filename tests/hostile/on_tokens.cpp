// SPDX-License-Identifier: MIT
// Positions, slices and additive encodings.
#include "hostile/calls.hpp"
#include <posenc/additive/binary.hpp>
#include <posenc/additive/grid_resize.hpp>
#include <posenc/additive/integer.hpp>
#include <posenc/additive/learned.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/additive/sinusoidal_2d.hpp>
#include <posenc/interop/diffusion_positions.hpp>
#include <posenc/interop/dinov3_grid.hpp>
#include <posenc/interop/prompt_positions.hpp>
#include <posenc/interop/vision_axes.hpp>
#include <posenc/tensor/grid_positions.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <vector>

namespace hostile {

namespace on_tokens {

using posenc::Positions;

constexpr Index batch = 2, seq = 3, dim = 8;

Positions positions(Draw& draw) {
  return draw.below(2) == 0 ? Positions::range(0, seq) : Positions::ids({5, 0, 2});
}

constexpr std::array calls{
    Call{"Positions::range",
         [](Draw& draw, Memory&) { (void)Positions::range(draw.number(7), draw.number(3)); }},
    Call{"Positions::starts",
         [](Draw& draw, Memory&) {
           (void)Positions::starts({draw.number(7), draw.number(0)}, draw.number(3));
         }},
    Call{"Positions::ids",
         [](Draw& draw, Memory&) {
           const std::array ids{draw.number(1), draw.number(2), Index{3}, Index{4}};
           (void)Positions::ids(draw.number(2), ids);
         }},
    Call{"Positions::view",
         [](Draw& draw, Memory& memory) {
           const Positions view = Positions::view(memory.ids(2, 5));
           const std::array<Index, 2> ids{draw.number(1), draw.number(2)};
           (void)Positions::view(ids);
           if (view.batch() < 64 && view.count() < 64) (void)view.owned();
         }},
    Call{"Positions::real",
         [](Draw& draw, Memory&) {
           const std::array<double, 4> at{0, 1, 1e300, static_cast<double>(draw.number(3))};
           (void)Positions::real(draw.number(2), at);
         }},
    Call{"Positions::slice",
         [](Draw& draw, Memory& memory) {
           const Positions all[] = {Positions::range(7, 3), Positions::starts({1, 2}, 3),
                                    Positions::ids({1, 2, 3}), Positions::view(memory.ids(1, 3))};
           for (const Positions& whole : all) (void)whole.slice(draw.number(1), draw.number(2));
         }},
    Call{"Positions::packed",
         [](Draw& draw, Memory&) {
           const std::array boundaries{draw.number(0), draw.number(2), draw.number(5)};
           const std::array starts{draw.number(0), draw.number(9)};
           (void)Positions::packed(boundaries, starts);
         }},
    Call{"Positions::from_padding_mask",
         [](Draw& draw, Memory& memory) {
           (void)Positions::from_padding_mask(memory.flags(2, 5), draw.number(1));
         }},
    Call{"Positions::grid",
         [](Draw& draw, Memory&) { (void)Positions::grid(draw.number(3), draw.number(2)); }},
    Call{"merge_block_grid",
         [](Draw& draw, Memory&) {
           (void)posenc::merge_block_grid({.frames = draw.number(2),
                                           .rows = draw.number(4),
                                           .cols = draw.number(6),
                                           .merge = draw.number(2)});
         }},
    Call{"xy_grid",
         [](Draw& draw, Memory&) { (void)posenc::xy_grid(draw.number(3), draw.number(2)); }},
    Call{"llama4_grid",
         [](Draw& draw, Memory&) { (void)posenc::llama4_grid(draw.number(3), draw.number(2)); }},
    Call{"pixel_grid",
         [](Draw& draw, Memory&) {
           (void)posenc::pixel_grid({draw.number(3), draw.number(2)});
         }},
    Call{"dinov3_grid",
         [](Draw& draw, Memory&) {
           (void)posenc::dinov3_grid(
               {.rows = draw.number(3), .cols = draw.number(2), .prefix_tokens = draw.number(1)},
               posenc::PatchNormalization::Min, {.shift = 0.5});
         }},
    Call{"positions of diffusion transformers",
         [](Draw& draw, Memory&) {
           const posenc::VideoGrid video{.frames = draw.number(2),
                                         .rows = draw.number(3),
                                         .cols = draw.number(2),
                                         .frame_step = draw.below(2) == 0 ? 0.8 : 1e300};
           const posenc::VideoGrid picture{.rows = draw.number(2), .cols = draw.number(3)};
           switch (draw.below(9)) {
             case 0:
               return (void)posenc::video_grid(video);
             case 1:
               return (void)posenc::flux_positions(draw.number(2), video);
             case 2:
               return (void)posenc::flux2_positions(draw.number(2), {picture, picture});
             case 3:
               return (void)posenc::hunyuan_video_positions(video, draw.number(2));
             case 4:
               return (void)posenc::cogvideox_positions(draw.number(2), video,
                                                        {.rows = draw.number(30), .cols = 45});
             case 5:
               return (void)posenc::qwen_image_positions(draw.number(2), {video, picture});
             case 6:
               (void)posenc::ideogram4_positions(draw.number(2), picture);
               return (void)posenc::cosmos3_positions(draw.number(2), {video, picture});
             case 7:
               return (void)posenc::minimax_h3_positions(
                   draw.number(2),
                   {.frames = draw.number(2), .rows = draw.number(3), .cols = draw.number(2)},
                   {.audio = draw.number(2), .first_frame = draw.below(2) == 0});
             default:
               (void)posenc::z_image_positions(video, draw.number(2));
               return (void)posenc::lumina2_positions(draw.number(2), picture);
           }
         }},
    Call{"prompt_positions",
         [](Draw& draw, Memory&) {
           auto prompt = posenc::prompt_positions({{.text = draw.number(2)},
                                                   {.rows = draw.number(4),
                                                    .cols = draw.number(2),
                                                    .frames = draw.number(2),
                                                    .merge = draw.number(2),
                                                    .frame_step = draw.below(2) == 0 ? 1.5 : 1e300},
                                                   {.padding = draw.number(1)}});
           (void)prompt.decode(draw.number(7), draw.number(1));
         }},
    Call{"chatglm_positions",
         [](Draw& draw, Memory&) {
           (void)posenc::chatglm_positions(
               {.context_length = draw.number(4), .mask_position = draw.number(2)}, draw.number(3),
               draw.number(5));
         }},
    Call{"slices",
         [](Draw& draw, Memory& memory) {
           const auto x = memory.heads(batch, seq, 2, dim);
           (void)posenc::slice_seq(x, draw.number(1), draw.number(2));
           (void)posenc::slice_heads(x, draw.number(1), draw.number(1));
           (void)posenc::slice_features(x, draw.number(1), draw.number(7));
           (void)posenc::split_heads(memory.embeddings(batch, seq, dim), draw.number(2));
         }},
    Call{"Sinusoidal",
         [](Draw& draw, Memory& memory) {
           const posenc::Sinusoidal encoding({.model_dim = draw.number(dim),
                                              .layout = posenc::SinusoidalLayout::Concatenated,
                                              .start = draw.number(1)});
           const auto x = memory.embeddings(batch, seq, dim);
           encoding.add_to(x, positions(draw));
           encoding.write_to(x, positions(draw));
           (void)encoding.scale_gradient(x, positions(draw));
         }},
    Call{"Sinusoidal2d",
         [](Draw& draw, Memory& memory) {
           const posenc::Sinusoidal2d encoding({.model_dim = draw.number(dim),
                                                .axis_order = posenc::GridAxisOrder::RowFirst,
                                                .layout = posenc::SinusoidalLayout::Concatenated});
           encoding.add_to(memory.embeddings(batch, 6, dim), Positions::grid(2, 3));
         }},
    Call{"Learned",
         [](Draw& draw, Memory& memory) {
           const auto table = memory.matrix(10, dim);
           const posenc::Learned<float> learned(
               table, {.row_offset = draw.number(2), .padding_row = draw.number(1)});
           const auto x = memory.embeddings(batch, seq, dim);
           const std::array<double, 3> far{0, 1e300, 2};
           learned.add_to(x, draw.below(4) == 1 ? Positions::real(far) : positions(draw));
           learned.add_gradient(x, positions(draw), memory.matrix(10, dim));
         }},
    Call{"IntegerEncoding",
         [](Draw& draw, Memory& memory) {
           posenc::IntegerEncoding({.max_length = draw.number(9)})
               .add_to(memory.embeddings(batch, seq, dim), positions(draw));
         }},
    Call{"BinaryEncoding",
         [](Draw& draw, Memory& memory) {
           const std::array<double, 3> far{0, 0x1p70, 2};
           posenc::BinaryEncoding(
               {.model_dim = draw.number(dim), .overflow = posenc::BinaryOverflow::Wrap})
               .add_to(memory.embeddings(batch, seq, dim),
                       draw.below(4) == 1 ? Positions::real(far) : positions(draw));
         }},
    Call{"resize_grid",
         [](Draw& draw, Memory& memory) {
           const posenc::GridResizeConfig config{
               .source = {draw.number(3), draw.number(2)},
               .target = {draw.number(4), draw.number(5)},
               .filter = posenc::ResizeFilter::Bicubic,
               .coordinates = draw.below(2) == 0 ? posenc::ResizeCoordinates::HalfPixel
                                                 : posenc::ResizeCoordinates::AlignCorners,
               .prefix_tokens = draw.number(1)};
           const auto small = memory.matrix(7, 3), large = memory.matrix(21, 3);
           posenc::resize_grid<float>(small, large, config);
           posenc::resize_grid_adjoint<float>(large, small, config);
         }},
    Call{"resize_grid, geometric",
         [](Draw& draw, Memory& memory) {
           const posenc::GridResizeConfig config{
               .source = {draw.number(3), draw.number(1)},
               .target = {draw.number(5), draw.number(3)},
               .filter = posenc::ResizeFilter::Bilinear,
               .coordinates = posenc::ResizeCoordinates::Geometric,
               .suffix_tokens = draw.number(3)};
           const auto small = memory.matrix(6, 3), large = memory.matrix(18, 3);
           posenc::resize_grid<float>(small, large, config);
           posenc::resize_grid_adjoint<float>(large, small, config);
         }},
};

}  // namespace on_tokens

std::span<const Call> calls_on_tokens() { return on_tokens::calls; }

}  // namespace hostile
