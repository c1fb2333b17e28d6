// SPDX-License-Identifier: MIT
#include "adam.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace study {

double learning_rate(double greatest, Index step, Index steps) {
  const double warm_up = std::max(static_cast<double>(steps) / 20, 1.0);
  const double done = static_cast<double>(step + 1);
  if (done < warm_up) return greatest * done / warm_up;
  const double rest = static_cast<double>(steps) - warm_up;
  const double part = rest > 0 ? (done - warm_up) / rest : 1;
  return greatest * (0.55 + 0.45 * std::cos(std::numbers::pi * part));
}

void adam(double rate, std::span<float> gradient, TrainingState& state) {
  constexpr double beta1 = 0.9, beta2 = 0.98;
  using Array = Eigen::Map<Eigen::ArrayXf>;
  const auto as_array = [](std::span<float> values) {
    return Array(values.data(), static_cast<Index>(values.size()));
  };
  Array g = as_array(gradient), m = as_array(state.mean), v = as_array(state.variance);
  const auto norm = static_cast<double>(std::sqrt(g.square().sum()));
  if (norm > 1) g *= static_cast<float>(1 / norm);
  const auto t = static_cast<double>(++state.step);
  const auto b1 = static_cast<float>(beta1), b2 = static_cast<float>(beta2);
  m = b1 * m + (1 - b1) * g;
  v = b2 * v + (1 - b2) * g.square();
  // Corrects the bias of both means, which start at 0.
  const auto of_mean = static_cast<float>(rate / (1 - std::pow(beta1, t)));
  const auto of_variance = static_cast<float>(1 / (1 - std::pow(beta2, t)));
  as_array(state.parameters) -= of_mean * m / ((of_variance * v).sqrt() + 1e-8f);
}

}  // namespace study
