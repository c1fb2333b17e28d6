// SPDX-License-Identifier: MIT
// Gradients of learned biases on a device are bit-identical to those of one thread.
#define EIGEN_USE_THREADS
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/devices.hpp"
#include "support/random.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/bias/window.hpp>

#include <cmath>
#include <span>
#include <vector>

namespace bias_threads_test {

using posenc::Index;
using posenc::MatrixView;
using support::Bytes;

TEST_CASE("gradients of biases: the same bits on every device", "[bias][threads]") {
  constexpr Index keys = 40, heads = 2;
  const posenc::Alibi alibi({.heads = heads, .form = posenc::AlibiForm::Symmetric});
  const posenc::Kerple logarithm(
      {.form = posenc::KerpleForm::Logarithmic, .r1 = {1, 2}, .r2 = {0.3, 0.7}});
  const posenc::Kerple power({.form = posenc::KerpleForm::Power, .r1 = {1, 2}, .r2 = {0.3, 0.7}});
  const posenc::Fire fire({.c = 0.1,
                           .threshold = 30,
                           .hidden_weight = {1, -2, 0.5},
                           .hidden_bias = {0.1, 0.9, -0.2},
                           .output_weight = {0.4, 1, -1, 0.3, 0.2, 2},
                           .output_bias = {0.1, -0.1}});
  std::vector<float> table(32 * heads);
  const posenc::T5Bias t5(MatrixView<const float>{table.data(), 32, heads, heads},
                          {.direction = posenc::T5Direction::Bidirectional});
  std::vector<float> rows(15 * 9 * heads);
  const posenc::WindowBias window(MatrixView<const float>{rows.data(), 15 * 9, heads},
                                  {.rows = 8, .cols = 5});
  for (const Index queries : {1, 5, 800}) {
    support::Random random(1);
    std::vector<double> q(static_cast<std::size_t>(queries)), k(keys);
    random.fill_uniform(q, 0, 60);
    random.fill_uniform(k, 0, 60);
    std::vector<double> whole = q, k_whole = k;  // tokens of the window, and others
    for (auto* positions : {&whole, &k_whole}) {
      for (double& position : *positions) position = std::floor(position);
    }
    std::vector<float> values(static_cast<std::size_t>(queries * keys));
    random.fill_normal(std::span<float>(values));
    const MatrixView<const float> grad{values.data(), queries, keys, keys};
    const auto run = [&](const auto&... device) {
      auto sums = fire.zero_gradient();
      auto slopes = alibi.zero_gradient();
      auto l = logarithm.zero_gradient(), p = power.zero_gradient();
      auto table_grad = table, rows_grad = rows;
      Bytes bytes;
      for (Index head = 0; head < heads; ++head) {
        alibi.add_gradient(head, q, k, grad, slopes, device...);
        logarithm.add_gradient(head, q, k, grad, l, device...);
        power.add_gradient(head, q, k, grad, p, device...);
        fire.add_gradient(head, q, k, grad, sums, device...);
        t5.add_gradient(head, q, k, grad, MatrixView<float>{table_grad.data(), 32, heads, heads},
                        device...);
        window.add_gradient(head, whole, k_whole, grad,
                            MatrixView<float>{rows_grad.data(), 15 * 9, heads}, device...);
      }
      for (const auto* of : {&slopes, &l.r1, &l.r2, &p.r1, &p.r2, &sums.hidden_weight,
                             &sums.hidden_bias, &sums.output_weight, &sums.output_bias}) {
        bytes.add(*of);
      }
      bytes.add(std::vector{sums.c, sums.threshold});
      bytes.add(table_grad);
      bytes.add(rows_grad);
      return bytes;
    };
    support::check_same_on_all_devices(run);
  }
}

}  // namespace bias_threads_test
