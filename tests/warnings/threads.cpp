// SPDX-License-Identifier: MIT
// Calls on Eigen's thread pool.
#define EIGEN_USE_THREADS
#include "tensors.hpp"
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/attention/attention.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/eigen.hpp>

template <class T>
T on_threads(const Eigen::ThreadPoolDevice& device) {
  auto q = warnings::ones<T>(6, 4, 64), k = warnings::ones<T>(6, 2, 64), out = q;
  const auto positions = posenc::Positions::range(0, 6);
  posenc::Rope<posenc::HalfRotate>(posenc::Unscaled{.rotary_dim = 64, .base = 10000})
      .rotate_all({q.view(), k.view()}, positions, device);
  posenc::attention(q.view(), k.view(), k.view(), out.view(),
                    {.causal = posenc::Causal::BottomRight}, {}, {}, device);
  posenc::Sinusoidal({.model_dim = 256, .layout = posenc::SinusoidalLayout::Interleaved})
      .add_to(out.rows(), positions, device);
  return out.values[1];
}

double use_threads() {
  Eigen::ThreadPool pool(2);
  const Eigen::ThreadPoolDevice device(&pool, 2);
  return static_cast<double>(on_threads<float>(device)) + on_threads<double>(device);
}
