// SPDX-License-Identifier: MIT
// nn/: linear layers and the multi-head module, forward, backward and over a cache; the umbrella of
// the complete library.
#include "tensors.hpp"
#include <posenc/nn/linear.hpp>
#include <posenc/nn/linear_parameters.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/nn/multi_head_config.hpp>
#include <posenc/nn/multi_head_gradients.hpp>
#include <posenc/nn/multi_head_tape.hpp>
#include <posenc/nn/multi_head_workspace.hpp>
#include <posenc/nn/parameter_matrix.hpp>
#include <posenc/nn/qk_norm.hpp>
#include <posenc/posenc.hpp>

#include <Eigen/Dense>

using warnings::Index;

template <class Projection, class T>
T project() {
  auto x = warnings::ones<T>(3, 1, 64), y = warnings::ones<T>(3, 1, 48), grad_x = x;
  Projection layer(64, 48, true);
  layer.weight = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>::Random(48, 64);
  layer.apply(x.rows(), y.rows());
  posenc::LinearParameters<T> gradient(64, 48, true);
  layer.backward(x.rows(), y.rows(), grad_x.rows(), gradient);
  return y.values[1] + grad_x.values[2] + gradient.weight.data()[3];
}

template <class T, class Cached>
T run_module() {
  using Rope = posenc::Rope<posenc::HalfRotate>;
  const Rope rope(posenc::Unscaled{.rotary_dim = 16, .base = 10000});
  posenc::MultiHeadAttention<T, Rope> module({.model_dim = 64,
                                              .heads = 4,
                                              .kv_heads = 2,
                                              .qk_norm = {.over = posenc::QkNormOver::Head,
                                                          .weight = posenc::QkNormWeight::Factor,
                                                          .epsilon = 1e-6}},
                                             rope);
  module.randomize(1);
  auto x = warnings::ones<T>(3, 1, 64), y = x;
  const auto positions = posenc::Positions::range(0, 3);
  const posenc::AttentionOptions<T> options{.causal = posenc::Causal::BottomRight};
  posenc::MultiHeadWorkspace workspace;
  module.forward(x.rows(), positions, y.rows(), options, {.workspace = &workspace});
  posenc::KvCache<Cached> cache({.kv_heads = 2, .head_dim = 16, .capacity = 128});
  module.forward(x.rows(), positions, cache, {0}, y.rows(), options, {.workspace = &workspace});
  posenc::MultiHeadTape<T> tape;
  module.forward(x.rows(), positions, y.rows(), tape, options);
  auto gradients = module.zero_gradients();
  module.backward(tape, x.rows(), y.rows(), gradients);
  return y.values[1] + gradients.query_projection.weight.data()[2] + gradients.query_norm(3);
}

double use_modules() {
  return static_cast<double>(project<posenc::Linear<float>, float>() +
                             project<posenc::FixedOrderLinear<float>, float>() +
                             run_module<float, Eigen::bfloat16>()) +
         project<posenc::Linear<double>, double>() +
         project<posenc::FixedOrderLinear<double>, double>() + run_module<double, double>();
}
