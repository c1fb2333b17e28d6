// SPDX-License-Identifier: MIT
// Compiled without Eigen: posenc/without_eigen.hpp, and headers of interop/.
#include <posenc/interop/diffusion_axes.hpp>
#include <posenc/interop/diffusion_positions.hpp>
#include <posenc/interop/dinov3_grid.hpp>
#include <posenc/interop/gguf.hpp>
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/presets.hpp>
#include <posenc/interop/prompt_positions.hpp>
#include <posenc/without_eigen.hpp>

#include <vector>

#if __has_include(<Eigen/Core>) || defined(EIGEN_WORLD_VERSION)
#error "this unit is to be compiled without Eigen"
#endif

using posenc::HeadsView;
using posenc::Index;
using posenc::Positions;

// Decoding step of an engine with its own buffers.
float decode(std::vector<float>& q, std::vector<float>& k, std::vector<float>& v,
             std::vector<float>& out, posenc::KvCache<float>& cache, Index past) {
  constexpr Index heads = 4, head_dim = 64;
  const auto view = [&](std::vector<float>& x) {
    return HeadsView<float>{.data = x.data(),
                            .batch = 1,
                            .seq = 1,
                            .heads = heads,
                            .dim = head_dim,
                            .batch_stride = heads * head_dim,
                            .seq_stride = heads * head_dim,
                            .head_stride = head_dim};
  };
  const posenc::Rope<posenc::HalfRotate> rope(
      posenc::Unscaled{.rotary_dim = head_dim, .base = 10000});
  const Index slot[] = {0};
  rope.rotate_all({view(q), view(k)}, Positions::range(past, 1));
  cache.append(0, view(k), view(v));
  posenc::attention<float>(view(q), cache, slot, view(out), {.causal = posenc::Causal::BottomRight},
                           posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Causal}));
  return out[0];
}

// Layer of the same engine.
void forward(const posenc::MultiHeadAttention<float, posenc::Rope<posenc::HalfRotate>>& module,
             std::vector<float>& x, std::vector<float>& out, Index tokens) {
  const Index dim = module.config().model_dim;
  module.forward({.data = x.data(), .batch = 1, .seq = tokens, .dim = dim},
                 Positions::range(0, tokens),
                 {.data = out.data(), .batch = 1, .seq = tokens, .dim = dim},
                 {.causal = posenc::Causal::BottomRight});
}
