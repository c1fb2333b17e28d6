// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace reference {

/// FIRE as in the paper's code (arXiv 2310.04418, appendix), layer by layer. The type of the
/// parameters must have the names of posenc::FireParameters.
template <class Parameters>
double fire_input(const Parameters& p, double epsilon, double query, double key) {
  const double distance = std::log(std::abs(p.c * (query - key)) + 1);
  const double reach = query > p.threshold ? query : p.threshold;
  return distance / (std::log(std::abs(p.c * reach) + 1) + epsilon);
}

template <class Parameters>
double fire_bias(const Parameters& p, double epsilon, std::size_t head, double query, double key) {
  const double x = fire_input(p, epsilon, query, key);
  const std::size_t width = p.hidden_weight.size();
  double sum = p.output_bias[head];
  for (std::size_t k = 0; k < width; ++k) {
    const double before = p.hidden_weight[k] * x + p.hidden_bias[k];
    sum += p.output_weight[head * width + k] * (before > 0 ? before : 0);
  }
  return sum;
}

/// Returns |output_bias| + sum of |output_weight| (|hidden_bias| + |hidden_weight| x), which
/// rounding errors are relative to.
template <class Parameters>
double fire_magnitude(const Parameters& p, double epsilon, std::size_t head, double query,
                      double key) {
  const double x = fire_input(p, epsilon, query, key);
  const std::size_t width = p.hidden_weight.size();
  double sum = std::abs(p.output_bias[head]);
  for (std::size_t k = 0; k < width; ++k) {
    sum += std::abs(p.output_weight[head * width + k]) *
           (std::abs(p.hidden_bias[k]) + std::abs(p.hidden_weight[k]) * x);
  }
  return sum;
}

}  // namespace reference
