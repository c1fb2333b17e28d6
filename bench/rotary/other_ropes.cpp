// SPDX-License-Identifier: MIT
// XPos and MixedRope against Rope, with heads of a vision transformer and of Llama. vs_rope: our
// time divided by the time of Rope for the same tensor.
#include "cases.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/interop/vision_axes.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/xpos.hpp>
#include <posenc/tensor/grid_positions.hpp>

#include <string>
#include <vector>

namespace {

using bench::Index;
using Pairing = posenc::Interleaved;

/// Rotates queries and keys alternately, so that the scales of one undo those of the other.
void xpos_case(benchmark::State& state, Index seq, Index heads, Index dim) {
  bench::Heads<float> x(1, seq, heads, dim);
  x.setConstant(1.0F);
  const auto view = posenc::bshd(x);
  const posenc::Unscaled rule{.rotary_dim = dim, .base = 10000};
  const posenc::Rope<Pairing> rope(rule);
  const posenc::XPos<Pairing> xpos(rule, {.scale_base = 512});
  const auto positions = posenc::Positions::range(0, seq);
  bench::Comparison(state,
                    [&] {
                      xpos.rotate_queries(view, positions);
                      xpos.rotate_keys(view, positions);
                    })
      .beside("vs_rope",
              [&] {
                rope.rotate(view, positions);
                rope.rotate(view, positions);
              })
      .measure();
}

/// Rotates the cells of a square grid.
void mixed_case(benchmark::State& state, Index side, Index heads, Index dim) {
  bench::Heads<float> x(1, side * side, heads, dim);
  x.setConstant(1.0F);
  const auto view = posenc::bshd(x);
  const posenc::Rope<Pairing> rope(posenc::rope_vit_axial({.head_dim = dim, .base = 100}));
  std::vector<double> angles;
  for (Index h = 0; h < heads; ++h) angles.push_back(0.37 * static_cast<double>(h));
  const posenc::MixedRope<Pairing> mixed(posenc::rope_vit_mixed_inv_freq(dim, 10, angles),
                                         {.heads = heads, .rotary_dim = dim});
  const auto positions = posenc::xy_grid(side, side);
  bench::Comparison(state, [&] {
    mixed.rotate(view, positions);
  }).beside("vs_rope", [&] {
      rope.rotate(view, positions);
    }).measure();
}

void add_cases() {
  bench::add("rotary/xpos/prefill_512", [](benchmark::State& s) { xpos_case(s, 512, 32, 128); });
  bench::add("rotary/mixed/grid_14", [](benchmark::State& s) { mixed_case(s, 14, 12, 64); });
  bench::add("rotary/mixed/grid_32", [](benchmark::State& s) { mixed_case(s, 32, 12, 64); });
}

const bool added = (add_cases(), true);

}  // namespace
