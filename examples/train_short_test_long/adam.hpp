// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <span>
#include <vector>

namespace study {

using posenc::Index;

/// What an optimiser has learned so far; all that training has to keep.
struct TrainingState {
  Index step = 0;
  std::vector<float> parameters, mean, variance;
};

/// The learning rate of a step: rises over the first twentieth of them, then falls to a tenth of `greatest`
/// along a cosine.
double learning_rate(double greatest, Index step, Index steps);

/// One step of Adam (arXiv 1412.6980, algorithm 1), beta 0.9 and 0.98, after the gradient was cut to norm 1.
void adam(double rate, std::span<float> gradient, TrainingState& state);

}  // namespace study
