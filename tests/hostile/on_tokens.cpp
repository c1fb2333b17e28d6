// SPDX-License-Identifier: MIT
// Slices and additive encodings.
#include "hostile/calls.hpp"
#include <posenc/additive/binary.hpp>
#include <posenc/additive/grid_resize.hpp>
#include <posenc/additive/integer.hpp>
#include <posenc/additive/learned.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/additive/sinusoidal_2d.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/view.hpp>

#include <array>

namespace hostile {

namespace on_tokens {

using posenc::Positions;

constexpr Index batch = 2, seq = 3, dim = 8;

Positions positions(Draw& draw) {
  return draw.below(2) == 0 ? Positions::range(0, seq) : Positions::ids({5, 0, 2});
}

constexpr std::array calls{
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
