// SPDX-License-Identifier: MIT
// Body of one unit, included once by each file that is compiled for a level.
#include "unit.hpp"
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/core/build_info.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/simd/exp.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

namespace {

using posenc::Index;

void copy_name(const std::string& name, char (&to)[16]) {
  to[name.copy(to, sizeof(to) - 1)] = '\0';
}

template <class Pairing, class T>
void rotate(T* x, Index first, Index seq, Index heads, Index dim) {
  const posenc::Rope<Pairing> rope(posenc::Unscaled{.rotary_dim = dim, .base = 10000});
  const posenc::HeadsView<T> view{x, 1, seq, heads, dim, seq * heads * dim, heads * dim, dim};
  rope.rotate(view, posenc::Positions::range(first, seq));
}

void rotate_bfloat16(std::uint16_t* x, Index first, Index seq, Index heads, Index dim) {
  static_assert(sizeof(Eigen::bfloat16) == sizeof(std::uint16_t));
  rotate<posenc::HalfRotate>(reinterpret_cast<Eigen::bfloat16*>(x), first, seq, heads, dim);
}

void rotate_float16(std::uint16_t* x, Index first, Index seq, Index heads, Index dim) {
  static_assert(sizeof(Eigen::half) == sizeof(std::uint16_t));
  rotate<posenc::HalfRotate>(reinterpret_cast<Eigen::half*>(x), first, seq, heads, dim);
}

void add_sinusoidal(float* x, Index first, Index seq, Index dim) {
  const posenc::Sinusoidal sinusoidal(
      {.model_dim = dim, .layout = posenc::SinusoidalLayout::Interleaved});
  sinusoidal.add_to(posenc::EmbeddingsView<float>{x, 1, seq, dim, seq * dim, dim},
                    posenc::Positions::range(first, seq));
}

void add_alibi(float* tile, const double* positions, Index count) {
  const posenc::Alibi alibi({.heads = 8, .form = posenc::AlibiForm::Symmetric});
  const std::span at(positions, static_cast<std::size_t>(count));
  alibi.add(2, at, at, posenc::MatrixView<float>{tile, count, count, count});
}

void exp_all(float* x, Index count) {
  using P = posenc::Pack<float, posenc::tier::Best>;
  for (Index i = 0; i < count; i += P::width) {
    const Index n = (std::min)(Index{P::width}, count - i);
    exp(P::load_partial(x + i, n)).store_partial(x + i, n);
  }
}

void fail() { posenc::Alibi({.heads = 0, .form = posenc::AlibiForm::Causal}); }

LevelUnit this_unit() {
  const posenc::BuildInfo info = posenc::build_info();
  LevelUnit unit{.tier = "",
                 .level = "",
                 .fma = info.fma,
                 .rotate_half = rotate<posenc::HalfRotate, float>,
                 .rotate_interleaved = rotate<posenc::Interleaved, float>,
                 .rotate_double = rotate<posenc::HalfRotate, double>,
                 .rotate_bfloat16 = rotate_bfloat16,
                 .rotate_float16 = rotate_float16,
                 .add_sinusoidal = add_sinusoidal,
                 .add_alibi = add_alibi,
                 .exp = exp_all,
                 .fail = fail};
  copy_name(info.tier, unit.tier);
  copy_name(info.level, unit.level);
  return unit;
}

}  // namespace
