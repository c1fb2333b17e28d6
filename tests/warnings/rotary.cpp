// SPDX-License-Identifier: MIT
// rotary/: every rope, in both pairings, with tables, gradients and key shifts.
#include "tensors.hpp"
#include <posenc/frequency/yarn.hpp>
#include <posenc/rotary/any_rope.hpp>
#include <posenc/rotary/axial.hpp>
#include <posenc/rotary/chatglm_rope.hpp>
#include <posenc/rotary/frequency_gradient.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/pair_axes.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/rotary/permute.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/rotary_calls.hpp>
#include <posenc/rotary/rotation_table.hpp>
#include <posenc/rotary/xpos.hpp>

#include <Eigen/Core>

#include <array>
#include <vector>

using posenc::HalfRotate;
using posenc::Interleaved;
using posenc::Positions;
using warnings::Index;

template <class Pairing, class T>
T rotate() {
  auto q = warnings::ones<T>(6, 4, 64), k = warnings::ones<T>(6, 2, 64), out = q;
  const posenc::Unscaled rule{.rotary_dim = 64, .base = 10000};
  const posenc::Rope<Pairing> rope(rule);
  const posenc::Rope<Pairing> part(
      posenc::YarnScaling{
          .rotary_dim = 32, .base = 10000, .factor = 4, .original_max_position = 4096},
      8);
  const auto positions = Positions::range(7, 6);
  rope.rotate(q.view(), positions);
  rope.rotate_all({q.view(), k.view()}, positions);
  part.rotate(k.view(), positions);
  part.rotate_into(q.view(), out.view(), positions);
  if constexpr (sizeof(T) == 4) {
    auto narrow = warnings::ones<Eigen::bfloat16>(6, 4, 64);
    part.rotate_into(q.view(), narrow.view(), positions);
    rope.template table<T>(positions).rotate_into(narrow.view(), out.view());
  }
  rope.adjoint(q.view(), positions);
  rope.inverse(k.view(), positions);
  const auto table = rope.template table<posenc::Compute<T>>(positions);
  std::vector<posenc::Compute<T>> cos(6 * 32), sin(6 * 32);
  const auto rows = [](auto& x) {
    return posenc::EmbeddingsView<posenc::Compute<T>>{
        .data = x.data(), .batch = 1, .seq = 6, .dim = 32};
  };
  rope.table_into(positions, rows(cos), rows(sin));
  table.rotate(q.view());
  table.rotate_into(q.view(), out.view());
  posenc::shift_keys(k.view(), rope, {-3});
  posenc::rerotate(k.view(), rope, positions, rope, Positions::range(0, 6));
  std::vector<double> gradient = rope.zero_frequency_gradient();
  posenc::accumulate_frequency_gradient(rope, q.view(), out.view(), positions, gradient);
  const posenc::XPos<Pairing> xpos(rule, {.scale_base = 512});
  xpos.rotate_queries(q.view(), positions);
  xpos.rotate_keys(k.view(), positions);
  const std::vector<double> angles{0.1, 0.2, 0.3, 0.4};
  const posenc::MixedRope<Pairing> mixed(posenc::rope_vit_mixed_inv_freq(64, 10, angles),
                                         {.axes = 2, .heads = 4, .rotary_dim = 64});
  mixed.rotate(q.view(), Positions::grid(2, 3));
  auto mixed_gradient = mixed.zero_frequency_gradient();
  posenc::accumulate_frequency_gradient(mixed, q.view(), out.view(), Positions::grid(2, 3),
                                        mixed_gradient);
  return q.values[1] + k.values[2] + out.values[3];
}

template <class T>
T rotate_with_any() {
  auto q = warnings::ones<T>(6, 4, 64), weights = warnings::ones<T>(64, 1, 16), to = weights;
  const posenc::AnyRope rope(posenc::PairingKind::Interleaved,
                             posenc::Unscaled{.rotary_dim = 64, .base = 10000});
  rope.rotate(q.view(), Positions::range(0, 6));
  rope.template table<posenc::Compute<T>>(Positions::range(0, 6)).rotate(q.view());
  const posenc::ChatGlmRope glm(64, 10000);
  glm.rotate(q.view(), Positions::axes({Positions::range(0, 6), Positions::range(1, 6)}));
  posenc::permute_pairs<Interleaved, HalfRotate>(weights.matrix(), {.head_dim = 32});
  posenc::permute_pairs<HalfRotate, Interleaved>(weights.matrix(), to.matrix(), {.head_dim = 32});
  const posenc::Rope<HalfRotate> grid(posenc::axial({32, 32}, 10000));
  grid.rotate(q.view(), Positions::grid(2, 3));
  const posenc::Rope<Interleaved> sections(posenc::Unscaled{.rotary_dim = 64, .base = 10000}, 0,
                                           posenc::PairAxes::sections({8, 12, 12}));
  const auto each = Positions::range(0, 6);
  sections.rotate(q.view(), Positions::axes({each, each, each}));
  return q.values[1] + to.values[5];
}

template <class T>
double rotate_all() {
  return static_cast<double>(rotate<Interleaved, T>()) +
         static_cast<double>(rotate<HalfRotate, T>()) + static_cast<double>(rotate_with_any<T>());
}

double use_rotary() {
  return rotate_all<float>() + rotate_all<double>() + rotate_all<Eigen::bfloat16>() +
         static_cast<double>(posenc::PairAxes::only(0, 2, 4).pairs());
}
