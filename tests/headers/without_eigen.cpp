// SPDX-License-Identifier: MIT
// Compiled where there is no Eigen: all but the module, build_info and the adapter of Eigen::Tensor.
#include <posenc/additive/binary.hpp>
#include <posenc/additive/grid_resize.hpp>
#include <posenc/additive/integer.hpp>
#include <posenc/additive/learned.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/additive/sinusoidal_2d.hpp>
#include <posenc/attention/attention.hpp>
#include <posenc/attention/cached_attention.hpp>
#include <posenc/attention/cosine.hpp>
#include <posenc/attention/kv_cache.hpp>
#include <posenc/attention/merge.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/bias/log_cpb.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/bias/window.hpp>
#include <posenc/interop/gguf.hpp>
#include <posenc/interop/presets.hpp>
#include <posenc/rotary/any_rope.hpp>
#include <posenc/rotary/diffusion_axes.hpp>
#include <posenc/rotary/frequency_gradient.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/multimodal_axes.hpp>
#include <posenc/rotary/permute.hpp>
#include <posenc/rotary/vision_axes.hpp>
#include <posenc/rotary/xpos.hpp>
#include <posenc/tensor/diffusion_positions.hpp>
#include <posenc/tensor/dinov3_grid.hpp>
#include <posenc/tensor/prompt_positions.hpp>

#include <vector>

#if __has_include(<Eigen/Core>) || defined(EIGEN_WORLD_VERSION)
#error "this unit is to be compiled without Eigen"
#endif

using posenc::HeadsView;
using posenc::Index;
using posenc::Positions;

// What an engine with buffers of its own does for a token.
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
  rope.rotate_all(Positions::range(past, 1), view(q), view(k));
  cache.append(0, view(k), view(v));
  posenc::attention<float>(view(q), cache, slot, view(out), {.causal = posenc::Causal::BottomRight},
                           posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Causal}));
  return out[0];
}
