// SPDX-License-Identifier: MIT
// Complete library after the macros of windows.h, Qt and C's complex.h, with some instantiations of
// its templates.
#include "others_first.hpp"
#if defined(_WIN32)
#include <windows.h>
#endif
// Macros that Microsoft's windows.h defines by default, and mingw's does not.
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define small char
#define near
#define far
#define interface struct
#define IN
#define OUT
#define ERROR 0
// Macros of Qt, and of C's complex numbers.
#define signals public
#define slots
#define emit
#define foreach for
#define forever for (;;)
#define I (1.0iF)

#include <posenc/interop/diffusion_axes.hpp>
#include <posenc/interop/diffusion_positions.hpp>
#include <posenc/interop/dinov3_grid.hpp>
#include <posenc/interop/gguf.hpp>
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/presets.hpp>
#include <posenc/interop/prompt_positions.hpp>
#include <posenc/posenc.hpp>

#include <iostream>

using posenc::Index;

template class posenc::Rope<posenc::Interleaved>;
template class posenc::Rope<posenc::HalfRotate>;
template class posenc::KvCache<Eigen::bfloat16>;
template class posenc::MultiHeadAttention<float, posenc::Rope<posenc::HalfRotate>, posenc::Alibi>;

void use(const posenc::Rope<posenc::HalfRotate>& rope, posenc::HeadsView<float> x,
         posenc::KvCache<Eigen::half>& cache, posenc::HeadsView<Eigen::half> h) {
  const Index slot[] = {0};
  rope.rotate(x, posenc::Positions::range(0, x.seq));
  posenc::attention<float>(x, x, x, x, {.causal = posenc::Causal::BottomRight});
  posenc::attention<Eigen::half>(h, cache, slot, h, {.causal = posenc::Causal::BottomRight});
  std::cout << posenc::build_info() << '\n';
}
